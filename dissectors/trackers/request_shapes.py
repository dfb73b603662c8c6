"""RequestShapes: which fields tell the requests a server answers from those upon which it closes the connection."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import Any, NamedTuple, TypeAlias

from dissectors.bounded import BoundedDict
from dissectors.messages.message import Message
from dissectors.trackers.recurrence import SECOND

#: The number of keys to remember, and of shapes for each key.
MAX_KEYS = 512
MAX_SHAPES = 16

#: A field tells requests apart only after this many on each side, with the closed ones at least this far apart (ns).
MIN_TIMES = 2
MIN_SPREAD = SECOND // 2

#: By field of the header or the body: ``null``, ``empty``, ``set``, or the sign of a number.
Shape: TypeAlias = tuple[tuple[str, str], ...]

#: Server, API key and version.
Key: TypeAlias = tuple[str, int, int]

#: Header fields that are the same in all requests, or different in all.
_IDS = frozenset({"request_api_key", "request_api_version", "correlation_id"})


class DistinguishingField(NamedTuple):
    """The one field that tells requests apart: it has this form in all `closed` requests, but in no `served` one."""

    field: str
    form: str
    closed: int
    served: int


@dataclass(slots=True)
class _Requests:
    served: Counter[Shape] = field(default_factory=Counter)
    closed: Counter[Shape] = field(default_factory=Counter)
    first_closed_at: int = 0


class RequestShapes:
    """The shapes of the first request of each API and version on a connection. Shapes contain no values."""

    def __init__(self) -> None:
        self._requests: BoundedDict[Key, _Requests] = BoundedDict(MAX_KEYS)

    def note_served(self, server: str, request: Message) -> None:
        """Record a request that was answered."""
        _count_shape(self._requests_of(server, request).served, request)

    def note_closed(self, server: str, request: Message, at: int) -> DistinguishingField | None:
        """Record a request on which the server closed the connection; return how such requests differ, if clear."""
        requests = self._requests_of(server, request)
        _count_shape(requests.closed, request)
        requests.first_closed_at = requests.first_closed_at or at
        closed, served = requests.closed.total(), requests.served.total()
        if closed < MIN_TIMES or served < MIN_TIMES or at - requests.first_closed_at < MIN_SPREAD:
            return None
        common = set.intersection(*map(set, requests.closed)) - set().union(*requests.served)
        if len(common) != 1 or len(requests.closed) == MAX_SHAPES or len(requests.served) == MAX_SHAPES:
            return None
        [(name, form)] = common
        return DistinguishingField(name, form, closed, served)

    def _requests_of(self, server: str, request: Message) -> _Requests:
        return self._requests.touch((server, request.api_key, request.version), _Requests)


def _count_shape(shapes: Counter[Shape], request: Message) -> None:
    shape = tuple(
        (name, _value_form(value)) for name, value in (request.header | request.body).items() if name not in _IDS
    )
    if shape in shapes or len(shapes) < MAX_SHAPES:
        shapes[shape] += 1


def _value_form(value: Any) -> str:
    if value is None:
        return "null"
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, int):
        return "0" if value == 0 else "negative" if value < 0 else "positive"
    return "set" if value else "empty"
