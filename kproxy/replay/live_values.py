"""Replaces values in captured requests that the captured broker chose with those that the live broker chose."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from enum import Enum, auto
from typing import Any, Final

from dissectors.messages.message import Message
from dissectors.records.batch_headers import replace_producers, shift_times
from dissectors.wire.encode import encode
from dissectors.wire.errors import EncodeError
from dissectors.wire.layout import NULL_UUID
from dissectors.wire.paths import parts
from kproxy.comparison.bodies import ValuePair
from kproxy.comparison.kinds import ValueKind, is_unset, kind_of

Row = dict[str, Any]


class Scope(Enum):
    """What a value belongs to: epoch 3 of one member is not epoch 3 of another."""

    BROKER = auto()
    MEMBER = auto()
    PARTITION = auto()
    PRODUCER = auto()


#: The kinds of values that requests repeat from responses, with their scopes.
SCOPES: Final = {
    ValueKind.EPOCH: Scope.PARTITION,
    ValueKind.GENERATION: Scope.MEMBER,
    ValueKind.INSTANCE_ID: Scope.BROKER,
    ValueKind.MEMBER_ID: Scope.BROKER,
    ValueKind.OFFSET: Scope.PARTITION,
    ValueKind.PRODUCER_EPOCH: Scope.PRODUCER,
    ValueKind.PRODUCER_ID: Scope.BROKER,
    ValueKind.SESSION_ID: Scope.BROKER,
    ValueKind.TOPIC_ID: Scope.BROKER,
}

#: Offsets in responses that tell where the same records are at the live broker. Other offsets depend on timing.
_RECORD_OFFSETS: Final = frozenset(
    {("Produce", "base_offset"), ("ListOffsets", "offset"), ("OffsetFetch", "committed_offset")}
)

#: The captured value that identifies each enclosing scope of a field.
_ScopeValues = dict[Scope, Any]


class LiveValues:
    """Learns from pairs of a captured and a live response, and replaces values in captured requests accordingly.

    Args:
        offsets: Whether to replace offsets as well.
        shift_ms: How many ms later the records in requests are than in the capture.
    """

    def __init__(self, *, offsets: bool = False, shift_ms: int = 0) -> None:
        self._offsets, self._shift_ms = offsets, shift_ms
        self._known: defaultdict[tuple[ValueKind, Any], dict[Any, Any]] = defaultdict(dict)
        #: Topic id -> name.
        self.captured_topics: dict[str, str] = {}
        self.live_topics: dict[str, str] = {}

    def learn(self, request: Message, captured: Message, pairs: Iterable[ValuePair]) -> None:
        """Learn from the values in a captured response and the corresponding ones in the live response.

        Args:
            request: The captured request.
            captured: Its captured response.
            pairs: See `kproxy.comparison.bodies.compare_bodies`, with the captured response as A.
        """
        outer_scopes = self._inner_scopes({}, request.body)
        other_members = []
        for pair in pairs:
            path = parts(pair.path)
            if pair.kind is ValueKind.MEMBER_ID and path != ["member_id"]:
                other_members.append(pair)
            elif pair.kind in SCOPES and (scopes := self._scopes_at(path, captured.body, outer_scopes)) is not None:
                self._learn_pair(captured.api, path, pair, scopes)
        if captured.api == "JoinGroup":
            self._learn_members([pair for pair in other_members if pair.path.startswith("members")])

    def _learn_members(self, pairs: list[ValuePair]) -> None:
        """Learn the unknown ids of the other members, which the leader gets in any order."""
        known_values = self._known[ValueKind.MEMBER_ID, None]
        captured = [pair.a for pair in pairs if pair.a not in known_values]
        live = [pair.b for pair in pairs if pair.b not in known_values.values()]
        known_values.update(zip(captured, live, strict=False))

    def counterpart(self, kind: ValueKind, value: Any, scope: Any = None) -> Any:
        """Return the live value for a captured one, or the captured value itself if no live one was learned."""
        known_values = self._known.get((kind, scope), {})
        if value in known_values:
            return known_values[value]
        if kind is ValueKind.OFFSET and known_values:  # records that follow known ones
            captured, live = next(reversed(known_values.items()))
            return max(value - captured + live, 0)
        return value

    def with_live_values(self, request: Message, body: Row | None = None) -> bytes:
        """Return the frame with live values: the same frame if it has no values to replace, or does not decode.

        Args:
            request: The captured request.
            body: The body to send instead of the captured one.
        """
        if request.layout is None or not request.well_formed:
            return request.frame
        body = self._replace_values(f"{request.api}Request", request.body if body is None else body, {})
        if body == request.body:
            return request.frame
        try:
            frame = request.frame[4 : request.body_start] + encode(request.layout, body)
        except EncodeError:  # an offset beyond 64 bits
            return request.frame
        return len(frame).to_bytes(4, "big") + frame

    def _inner_scopes(self, outer_scopes: _ScopeValues, row: Row) -> _ScopeValues:
        """Return the scopes of the fields in a struct, given those of the struct itself."""
        scopes = dict(outer_scopes)
        if row.get("member_id"):
            scopes[Scope.MEMBER] = row["member_id"]
        for key in ("producer_id", "v3_and_below_producer_id"):
            if key in row:
                scopes[Scope.PRODUCER] = row[key]
        topic_id = row.get("topic_id")
        name = row.get("topic") or row.get("name") or self.captured_topics.get(topic_id or "", topic_id)
        if isinstance(name, str):
            scopes[Scope.PARTITION] = name
            if topic_id not in (None, NULL_UUID, name):
                self.captured_topics[topic_id] = name
        index = next((row[key] for key in ("partition_index", "partition", "index") if key in row), None)
        if isinstance(index, int):
            scopes[Scope.PARTITION] = (scopes.get(Scope.PARTITION), index)
        return scopes

    def _scopes_at(self, path: list[str], body: Row, outer_scopes: _ScopeValues) -> _ScopeValues | None:
        """Return the scopes of a field, None if it is in a payload or in records."""
        scopes, value = outer_scopes, body
        for step in path[:-1]:
            if isinstance(value, dict) and step in value:
                scopes, value = self._inner_scopes(scopes, value), value[step]
            elif isinstance(value, list) and step.isdecimal() and int(step) < len(value):
                value = value[int(step)]
            else:
                return None
        return self._inner_scopes(scopes, value) if isinstance(value, dict) else None

    def _learn_pair(self, api: str, path: list[str], pair: ValuePair, scopes: _ScopeValues) -> None:
        kind, captured, live = pair.kind, pair.a, pair.b
        if kind is ValueKind.OFFSET and (api, path[-1]) not in _RECORD_OFFSETS:
            return
        known_values = self._known[kind, scopes.get(SCOPES[kind])]
        known_values.pop(captured, None)  # so that the newest entry is last
        known_values[captured] = live
        if kind is ValueKind.TOPIC_ID and captured in self.captured_topics:
            self.live_topics[live] = self.captured_topics[captured]

    def _replace_values(self, message: str, row: Row, scopes: _ScopeValues) -> Row:
        """Return the struct with its values replaced, the same object if there is none to replace."""
        scopes = self._inner_scopes(scopes, row)
        new_row = row
        for name, value in row.items():
            if (new_value := self._replace_value(message, name, value, scopes)) is not value:
                new_row = {**new_row, name: new_value}
        return new_row

    def _replace_value(self, message: str, name: str, value: Any, scopes: _ScopeValues) -> Any:
        if isinstance(value, dict):
            return self._replace_values(message, value, scopes)
        if isinstance(value, list):
            elements = [self._replace_value(message, name, element, scopes) for element in value]
            return value if all(map(_is_same, elements, value)) else elements
        if isinstance(value, memoryview):  # records
            data = shift_times(replace_producers(value, self._live_producer), self._shift_ms)
            return value if data == value else data
        if (message, name) == ("ListOffsetsRequest", "timestamp"):  # below 0, it is not a time
            return value + self._shift_ms if self._shift_ms and value > 0 else value
        kind = kind_of(message, name)
        if kind not in SCOPES or is_unset(kind, value) or (kind is ValueKind.OFFSET and not self._offsets):
            return value
        if value == 0 and kind is ValueKind.GENERATION:  # a member that joins
            return value
        live_value = self.counterpart(kind, value, scopes.get(SCOPES[kind]))
        return value if live_value == value else live_value

    def _live_producer(self, producer_id: int, epoch: int) -> tuple[int, int]:
        return (
            self.counterpart(ValueKind.PRODUCER_ID, producer_id),
            self.counterpart(ValueKind.PRODUCER_EPOCH, epoch, producer_id),
        )


def _is_same(a: object, b: object) -> bool:
    return a is b
