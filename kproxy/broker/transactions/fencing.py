"""How a fenced producer is told, by what its client knows."""

from __future__ import annotations

from kproxy.broker.errors import Error


def fenced_as(error: Error, *, known: bool) -> Error:
    """The error, with the older one for PRODUCER_FENCED where the version of the request does not have that."""
    return Error.INVALID_PRODUCER_EPOCH if error is Error.PRODUCER_FENCED and not known else error
