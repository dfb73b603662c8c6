"""Stories: conversations written as readable lines and fed to an inspector, for tests and for the rules' pages.

    # a comment; a line that begins with a space continues the one before it
    > Metadata v9 {"topics": [{"name": "orders"}]}        a request on connection 1, opened when first used
    +250ms                                               time passes (us, ms, s, m); each frame takes 1 ms by itself
    < {"brokers": [], "topics": []}                      the response to the oldest waiting request
    2> as rdkafka Heartbeat v4 {...}                     connection 2, with that client id (otherwise "app")
    > as app@AAAAAAAAAAAAAAAAAAAAKg OffsetDelete v1 {}   with a client instance id (header v3, not released yet)
    > as null Heartbeat v4 {...}                         without a client id
    2> #7 Heartbeat v4 {...}                             with that correlation id (otherwise they count up from 1)
    2< #7 {...}                                          the response with that correlation id
    < as ApiVersions v0 {...}                            written in the layout of another version
    < {...} with moved:throttle_time_ms:last             written with an edit, in the notation of quirks
    < hex 00 00 00 06 00 00 00 07 00*2                   raw bytes
    > skipped Heartbeat v4 {...}                         only its head is known, because the inspector was behind
    open 3 client=10.0.0.9:50000 server=10.0.0.1:9092 listener=127.0.0.1:9092 tls midstream
                                                         (`plaintext_upstream`: a relay ends its TLS)
    lose < 100 frames=2                                  the next 100 bytes go by unseen ("2 lose > 5" on connection 2)
    lose < 100 frames=2 behind                           the same, because the inspector was behind
    differ < 100 size=1460 differing=3                   TCP sent bytes again from offset 100 on, 3 of them different
    unreachable client=10.0.0.9:50000 server=10.0.0.1:9092 reason=REFUSED
                                                         a client could not connect
    tls client by=proxy reason=expired                   TLS with that side failed ("2 tls" on connection 2)
    schema 17 orders-value {"type": "record", ...}       a registered Avro schema (`a,b` for two subjects);
                                                         records are then decoded. Others: `... PROTOBUF syntax = ...`
    rule C020:wait=2s                                    a limit of a rule; must come first
    fail LookupError                                     a step of the inspection raises this exception
    close by=server how=reset                            connection 1 ends ("2 close": connection 2)
    close sent=8                                         the same; TCP had sent the last request 8 times without an
                                                         acknowledgement

Values are JSON; omitted fields have the schema's default. A bytes field takes hex (``"00 ff"``), a list of batches
(``[{"records": [{"key": "k", "value": "v"}]}]``, as `dissectors.records.encode` takes them, keys and values as text,
long ones as ``{"repeat": "v", "times": 1000000}``, binary ones as ``{"hex": "00 ff"}``),
or a payload: ``{"type": "ConsumerProtocolSubscription", "version": 1, "data": {...}}``. Unknown tags are
``"_tags": [[77, "00 ff"]]``. A long text or list is ``{"repeat": [{"name": "t"}], "times": 5000}``.
"""

from __future__ import annotations

import builtins
import json
import re
import textwrap
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from dissectors import records
from dissectors.connections.events import (
    INSPECTOR_WAS_BEHIND,
    BytesDiffer,
    ConnectFailed,
    ConnectFailure,
    Direction,
    TlsFailed,
)
from dissectors.connections.tls_failures import TlsReason
from dissectors.edits import Edit, frame_layout, parse, write
from dissectors.edits.notation import edit_for, kind_of
from dissectors.messages.message import ApiLayouts, api_layouts
from dissectors.schemas import api_by_name
from dissectors.wire.encode import encode
from dissectors.wire.layout import Field, Layout, layout
from kproxy.inspection.inspector import Inspector
from kproxy.inspection.masks import Masks
from kproxy.inspection.record_values import RecordValues
from kproxy.outputs.rule_limits import parse_limits
from kproxy.proxy.tap_protocol import HEAD_BYTES
from kproxy.proxy.tls.remedies import remedy
from kproxy.trace.lines import FindingEntry, FindingLine, Line, RequestLine, ResponseLine
from tests.kproxy.frames import with_length_prefix
from tests.serialized import InMemoryRegistry

BEGIN = 1_767_225_600_000_000_000  # 2026-01-01T00:00:00Z
MS = 1_000_000
_UNITS = {"us": 1_000, "ms": MS, "s": 1000 * MS, "m": 60_000 * MS}

_FRAME = re.compile(
    r"(?P<number>\d*)(?P<way>[<>])\s*(?P<skipped>skipped\s+)?"
    r"(?:as (?P<client>[^\s{]+)(?=\s)(?! v\d))?\s*(?:#(?P<id>-?\d+))?\s*"
    r"(?:(?P<hex>hex) (?P<bytes>.*)|"
    r"(?:as\s+)?(?:(?P<api>\w+) v(?P<version>\d+))?\s*(?P<body>\{.*?)?(?:\s+with (?P<edit>\w+(?::\S*)?|\{.*))?)",
    re.DOTALL,
)


@dataclass
class _Conversation:
    correlation_id: int = 0
    in_flight: deque[tuple[int, ApiLayouts, int]] = field(default_factory=deque)


@dataclass
class StoryPlayer:
    """Feed a story to an inspector; `lines` are the trace lines that the inspector has returned."""

    inspector: Inspector = field(default_factory=lambda: Inspector("story"))
    at: int = BEGIN
    lines: list[Line] = field(default_factory=list)
    conversations: dict[int, _Conversation] = field(default_factory=dict)
    attempts: int = 0
    registry: InMemoryRegistry | None = None

    def play(self, text: str) -> None:
        """Feed the lines of a story."""
        for line in _joined_lines(text):
            self._play_line(line)

    def _play_line(self, line: str) -> None:
        if match := re.fullmatch(r"\+(\d+)(us|ms|s|m)", line):
            self.at += int(match[1]) * _UNITS[match[2]]
            self.lines += self.inspector.tick(at=self.at)
        elif match := re.fullmatch(r"rule (\S+)", line):
            self.inspector = Inspector("story", limits=parse_limits([match[1]]))
        elif match := re.fullmatch(r"open (\d+)(.*)", line):
            self._open(int(match[1]), match[2])
        elif match := re.fullmatch(r"(\d*)\s*lose ([<>]) (\d+)(?: frames=(\d+))?( behind)?", line):
            number = self._connection(match[1])
            frames = None if match[4] is None else int(match[4])
            direction = Direction.REQUEST if match[2] == ">" else Direction.RESPONSE
            self.lines += self.inspector.lose(
                number, direction, int(match[3]), at=self._now(), frames=frames,
                reason=INSPECTOR_WAS_BEHIND if match[5] else "lost in the capture",
            )  # fmt: skip
        elif match := re.fullmatch(r"(\d*)\s*differ ([<>]) (\d+) size=(\d+) differing=(\d+)", line):
            number = self._connection(match[1])
            direction = Direction.REQUEST if match[2] == ">" else Direction.RESPONSE
            difference = BytesDiffer(direction, int(match[3]), self._now(), int(match[4]), int(match[5]))
            self.lines += self.inspector.bytes_differ(number, difference)
        elif match := re.fullmatch(r"(\d*)\s*tls (client|server) by=(\w+) reason=(\w+)", line):
            number = self._connection(match[1])
            side, by, reason = match[2], match[3], TlsReason(match[4])
            tls_failure = TlsFailed(self._now(), side, by, reason, remedy=remedy(side, by, reason))
            self.lines += self.inspector.tls_failed(number, tls_failure)
        elif match := re.fullmatch(r"unreachable client=(\S+) server=(\S+) reason=(\w+)", line):
            failed_connect = ConnectFailed(self._now(), match[1], match[2], ConnectFailure[match[3]])
            self.attempts += 1
            self.lines += self.inspector.connect_failed(1000 + self.attempts, failed_connect, since=self.at)
        elif match := re.fullmatch(r"schema (\d+) (\S+) (?:(PROTOBUF|JSON) )?(.*)", line):
            if self.registry is None:
                self.registry = InMemoryRegistry()
                self.inspector = Inspector("story", record_values=RecordValues(self.registry, Masks(())))
            self.registry.add(int(match[1]), match[3] or "AVRO", match[4], *match[2].split(","))
        elif match := re.fullmatch(r"fail (\w+)", line):
            self.lines += self.inspector.fail("playing a story", getattr(builtins, match[1])("planted"), at=self._now())
        elif match := re.fullmatch(r"(\d*)\s*close(.*)", line):
            number = self._connection(match[1])
            del self.conversations[number]
            options = _options(match[2])
            if (sent := options.pop("sent", None)) is not None:
                options["unacknowledged"] = Direction.REQUEST, int(sent)
            self.lines += self.inspector.close(number, at=self._now(), **options)
        elif match := _FRAME.fullmatch(line):
            self._tell_frame(match)
        else:
            raise ValueError(f"no line of a story: {line!r}")

    def _now(self) -> int:
        self.at += MS
        return self.at

    def _open(self, number: int, text: str) -> None:
        options: dict[str, Any] = {"client": f"10.0.0.{100 + number}:50{number:03}", "server": "10.0.0.1:9092"}
        self.conversations[number] = _Conversation()
        self.lines += self.inspector.open(number, at=self._now(), **(options | _options(text)))

    def _connection(self, number: str) -> int:
        connection = int(number or 1)
        if connection not in self.conversations:
            self._open(connection, "")
        return connection

    def _tell_frame(self, match: re.Match[str]) -> None:
        number = self._connection(match["number"])
        conversation = self.conversations[number]
        direction = Direction.REQUEST if match["way"] == ">" else Direction.RESPONSE
        if match["hex"]:
            data = re.sub(r"\b(\w\w)\*(\d+)\b", lambda times: times[1] * int(times[2]), match["bytes"])
            frame = bytes.fromhex(re.sub(r"\s", "", data))
        elif direction is Direction.REQUEST:
            frame = self._request(conversation, match)
        else:
            frame = self._response(conversation, match)
        if match["skipped"]:
            size = len(frame) - 4
            self.lines += self.inspector.skip(
                number, direction, frame[:HEAD_BYTES], size, at=self._now(), reason=INSPECTOR_WAS_BEHIND
            )
        else:
            self.lines += self.inspector.receive_data(number, direction, frame, at=self._now())

    def _request(self, conversation: _Conversation, match: re.Match[str]) -> bytes:
        key, version, layouts = _find_layouts(match["api"], int(match["version"]))
        conversation.correlation_id = int(match["id"]) if match["id"] else conversation.correlation_id + 1
        body = json.loads(match["body"] or "{}")
        header = {
            "request_api_key": key,
            "request_api_version": version,
            "correlation_id": conversation.correlation_id,
            **_client_fields(match["client"] or "app"),
        }
        if not (key == 0 and body.get("acks") == 0):
            conversation.in_flight.append((conversation.correlation_id, layouts, version))
        return _encode_frame(layouts.request_header, header, layouts.request, body, match["edit"])

    def _response(self, conversation: _Conversation, match: re.Match[str]) -> bytes:
        in_flight = conversation.in_flight
        correlation_id = int(match["id"]) if match["id"] else in_flight[0][0] if in_flight else 0
        answered_request = next((waiting for waiting in in_flight if waiting[0] == correlation_id), None)
        if answered_request is not None:
            in_flight.remove(answered_request)
        layouts = (
            _find_layouts(match["api"], int(match["version"]))[2]
            if match["api"]
            else answered_request[1]
            if answered_request
            else None
        )
        if layouts is None:
            raise ValueError(f"no request {correlation_id} waits: say how the response is written, as Api vN")
        header = {"correlation_id": correlation_id}
        return _encode_frame(
            layouts.response_header, header, layouts.response, json.loads(match["body"] or "{}"), match["edit"]
        )


def _client_fields(name: str) -> dict[str, str | None]:
    client_id, _, instance = name.partition("@")
    client: dict[str, str | None] = {"client_id": None if client_id == "null" else client_id}
    return {**client, "client_instance_id": instance} if instance else client


def _encode_frame(
    header: Layout, header_values: dict[str, Any], body: Layout, values: dict[str, Any], edit: str | None
) -> bytes:
    """Return the frame with this header and body; if `edit` is given, it is applied to the layout."""
    if edit is None:
        return with_length_prefix(encode(header, header_values) + encode(body, to_encodable(body, values)))
    layout = frame_layout(header, body)
    applied_edit = _edit(edit, body)
    edited_body = applied_edit.apply(layout).fields[1].struct
    assert edited_body is not None
    return write(applied_edit, layout, {"header": header_values, "body": to_encodable(edited_body, values)})


def _edit(text: str, body: Layout) -> Edit:
    if text.startswith("{"):
        return parse(json.loads(text))
    name, *parameters = text.split(":")
    kind = kind_of(name)
    if kind is None:
        raise ValueError(f"unknown kind of edit {name!r}")
    return edit_for(kind, parameters)(body)


def _find_layouts(api: str, version: int) -> tuple[int, int, ApiLayouts]:
    known_api = api_by_name(api)
    if known_api is None:
        raise ValueError(f"unknown API {api}")
    layouts = api_layouts(known_api.key, version)
    if layouts is None:
        raise ValueError(f"{api} has no version {version}")
    return known_api.key, version, layouts


def _options(text: str) -> dict[str, Any]:
    return {
        name: value if has_value else True for name, has_value, value in (word.partition("=") for word in text.split())
    }


def _joined_lines(text: str) -> Iterator[str]:
    joined = ""
    for raw in textwrap.dedent(text).splitlines():
        line = re.sub(r"(^|\s)# .*$", "", raw).rstrip()
        if line[:1].isspace() and joined:
            joined += " " + line.strip()
        elif line.strip():
            if joined:
                yield joined
            joined = line.strip()
    if joined:
        yield joined


def to_encodable(struct: Layout, values: dict[str, Any]) -> dict[str, Any]:
    """Convert JSON values to the values that `encode` accepts.

    Raises:
        ValueError: The layout has no such field: a story must not contain fields that are not written.
    """
    fields = {field.name: field for field in (*struct.fields, *struct.tagged)}
    if unknown_names := values.keys() - fields.keys() - {"_tags"}:
        raise ValueError(f"{struct.name} has no {', '.join(sorted(unknown_names))}; it has {', '.join(fields)}")
    return {
        name: _to_encodable_value(fields[name], value)
        if name in fields
        else [[tag, _to_bytes(data)] for tag, data in value]
        for name, value in values.items()
    }


def _to_encodable_value(field: Field, value: Any) -> Any:
    if value is None:
        return None
    if isinstance(value, dict) and value.keys() == {"repeat", "times"}:
        value = value["repeat"] * value["times"]
    if field.struct is not None:
        return (
            [to_encodable(field.struct, element) for element in value]
            if field.array
            else to_encodable(field.struct, value)
        )
    if field.type not in {"bytes", "records"}:
        return value
    return [_to_bytes(element) for element in value] if field.array else _to_bytes(value)


def _to_bytes(value: Any) -> bytes:
    if isinstance(value, str):
        return bytes.fromhex(value)
    if isinstance(value, dict):
        kind = layout(value["type"], value["version"])
        return int(value["version"]).to_bytes(2, "big") + encode(kind, to_encodable(kind, value["data"]))
    return records.encode([_encode_texts(batch) for batch in value])


def _encode_texts(batch: dict[str, Any]) -> dict[str, Any]:
    """Return a copy of a batch whose keys, values and header values are bytes."""
    texts = dict(batch)
    texts["records"] = [
        {name: _encode_text(value) if name in ("key", "value") else value for name, value in record.items()} | (
            {"headers": [header | {"value": (header.get("value") or "").encode()} for header in record["headers"]]}
            if "headers" in record else {})
        for record in batch.get("records", ())
    ]  # fmt: skip
    return texts


def _encode_text(value: Any) -> Any:
    if isinstance(value, dict):
        value = bytes.fromhex(value["hex"]) if "hex" in value else value["repeat"] * value["times"]
    return value.encode() if isinstance(value, str) else value


def lines_of_story(text: str) -> list[Line]:
    """Return the trace lines of a story."""
    player = StoryPlayer()
    player.play(text)
    return player.lines


def findings(text: str, code: str | None = None) -> list[FindingEntry | FindingLine]:
    """Return the findings of a story in order, limited to the rule `code` if given."""
    all_findings: list[FindingEntry | FindingLine] = []
    for line in lines_of_story(text):
        if isinstance(line, FindingLine):
            all_findings.append(line)
        elif isinstance(line, RequestLine | ResponseLine):
            all_findings += line.findings
    return [finding for finding in all_findings if code in (None, finding.code)]
