"""Quirks: what the built-in broker does wrong on request, so that clients can be watched at it.

A quirk says which answers it concerns (API, versions, client, topic, how likely) and what it does to them: write them
under an edit (`dissectors.edits`), change their values, or behave badly.
"""

from kproxy.broker.quirks.notation import QuirkError, parse
from kproxy.broker.quirks.quirk import Answer, Quirk
from kproxy.broker.quirks.sets import SETS

__all__ = ["SETS", "Answer", "Quirk", "QuirkError", "parse"]
