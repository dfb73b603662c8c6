"""Quirks: broker bugs that the built-in broker reproduces on request, to test how clients react.

A quirk selects responses (by API, versions, client, topic, probability) and changes them: it encodes them with an edit
(`dissectors.edits`), changes their values, or misbehaves.
"""

from kproxy.broker.quirks.notation import QuirkError, parse
from kproxy.broker.quirks.quirk import Quirk, ServedResponse
from kproxy.broker.quirks.sets import SETS

__all__ = ["SETS", "Quirk", "QuirkError", "ServedResponse", "parse"]
