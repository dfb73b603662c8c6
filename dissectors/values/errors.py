"""What stops the decoding of a value."""

from __future__ import annotations


class SchemaError(ValueError):
    """A schema is invalid, or uses another one that is missing. The message is a clause, e.g. ``it is not JSON``."""


class MissingPackage(Exception):
    """A package of the extra ``payloads`` is not installed."""
