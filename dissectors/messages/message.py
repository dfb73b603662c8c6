"""A whole frame: length prefix, header and body of a request or a response."""

from __future__ import annotations

import struct
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

from dissectors import schemas
from dissectors.failures import Failure
from dissectors.messages.diagnosis_result import Diagnosis
from dissectors.schemas.codes import ApiKey, Error
from dissectors.wire import compiled
from dissectors.wire.decode import decode
from dissectors.wire.errors import Crowded, DecodeError
from dissectors.wire.layout import Layout, layout
from dissectors.wire.node import Node
from dissectors.wire.walk import DecodeWarning, walk

API_VERSIONS = ApiKey.API_VERSIONS
UNSUPPORTED_VERSION = Error.UNSUPPORTED_VERSION

_HEAD = struct.Struct(">hhi").unpack_from


class FrameKind(NamedTuple):
    """What a frame is read as: one direction of one API version. Without a body layout, `opaque` says why."""

    is_request: bool
    api_key: int
    api: str
    version: int
    header_layout: Layout
    body_layout: Layout | None
    opaque: str | None = None


class Plan(NamedTuple):
    """How the two messages of one API version stand on the wire."""

    api: str
    request_kind: FrameKind
    response_kind: FrameKind
    request_header: Layout
    request: Layout
    response_header: Layout
    response: Layout


def _plan(api: str, api_key: int, version: int) -> Plan:
    request_header, response_header = schemas.header_versions(api_key, version)
    request = layout("RequestHeader", request_header), layout(f"{api}Request", version)
    response = layout("ResponseHeader", response_header), layout(f"{api}Response", version)
    return Plan(
        api,
        FrameKind(True, api_key, api, version, *request),
        FrameKind(False, api_key, api, version, *response),
        *request,
        *response,
    )


#: Those that were asked for: keys and versions come off the wire, and only those that exist are kept.
_plans: dict[tuple[int, int], Plan] = {}


def plan(api_key: int, version: int) -> Plan | None:
    """The layouts of an API version, None if the schemas do not have it."""
    known = _plans.get((api_key, version))
    if known is None:
        api = schemas.api(api_key)
        if api is None or not api.min_version <= version <= api.max_version:
            return None
        known = _plans[api_key, version] = _plan(api.name, api_key, version)
    return known


@dataclass(slots=True)
class Message:
    """A decoded frame. Offsets count from its length prefix.

    `body` is partial where `error` is set, and empty where `opaque` says why the schemas cannot read it. `end` is one
    past the last byte read: bytes from there to the end of the frame belong to no field of `layout`. Where `diagnosis`
    is set, layouts and values are those that it found.
    """

    frame: bytes
    is_request: bool
    api_key: int
    api: str
    version: int
    header: dict[str, Any]
    body: dict[str, Any]
    body_start: int
    end: int
    header_layout: Layout
    layout: Layout | None = None
    error: DecodeError | None = None
    decode_warnings: tuple[DecodeWarning, ...] = ()
    opaque: str | None = None
    diagnosis: Diagnosis | None = None
    #: The bug in kproxy because of which it could not be read; `opaque` says so too.
    failure: Failure | None = None
    #: Whether `body` is what the protocol says: read to the last byte, by the right layout, no null forbidden.
    reads_well: bool = False
    #: Whether something is in one of its tag buffers; True for a frame with decode warnings, where that is not known.
    tagged: bool = False
    #: Whether one of its error codes may be other than 0; without a doubt only where nothing is odd.
    may_refuse: bool = True
    #: What a relay sent in its place, if it changed the frame.
    replaced_by: Message | None = field(default=None, compare=False, repr=False)
    #: What `summary.errors` found: several ask, and it looks at every partition.
    errors_seen: list[Any] | None = field(default=None, compare=False, repr=False)

    @property
    def as_sent(self) -> Message:
        """The message that the receiver got, which a relay may have changed on its way."""
        return self if self.replaced_by is None else self.replaced_by

    @property
    def correlation_id(self) -> int:
        """As in the header; -1 where that could not be read."""
        value: int = self.header.get("correlation_id", -1)
        return value

    @property
    def client_id(self) -> str | None:
        """As in the header of a request."""
        return self.header.get("client_id")

    @property
    def trailing(self) -> int:
        """Bytes after the last field, in a body that is otherwise well read."""
        return 0 if self.error or self.opaque else len(self.frame) - self.end

    def unread(self, failure: Failure) -> Message:
        """The same frame without its body, because reading it has failed."""
        return replace(
            self, body={}, end=self.body_start, layout=None, error=None, decode_warnings=(), opaque=failure.title,
            diagnosis=None, failure=failure, reads_well=False, tagged=False, may_refuse=False, errors_seen=None,
        )  # fmt: skip


def api_name(api_key: int) -> str:
    """Kafka's name of an API, or its number where there is none."""
    api = schemas.api(api_key)
    return api.name if api else f"API {api_key}"


def read_request(frame: bytes) -> Message:
    """Decode a request frame, length prefix included. Never raises.

    Of one that no schema has, the header is read as version 1: all later ones begin like it.
    """
    if len(frame) < 12:
        header_layout = layout("RequestHeader", 1)
        header = decode(header_layout, frame, 4).values
        api_key, version = header.get("request_api_key", -1), header.get("request_api_version", -1)
        return _read(frame, FrameKind(True, api_key, api_name(api_key), version, header_layout, None))
    api_key, version, _ = _HEAD(frame, 4)
    known = plan(api_key, version)
    if known is None:
        return _read(frame, _opaque(True, api_key, version, layout("RequestHeader", 1)))
    return _read(frame, known.request_kind)


def read_response(frame: bytes, api_key: int, version: int) -> Message:
    """Decode the response frame to a request of that API and version. Never raises.

    An ApiVersions response with error 35 may be written as version 0 whatever was asked (KIP-511).
    """
    known = plan(api_key, version)
    if api_key == API_VERSIONS and version != 0 and int.from_bytes(frame[8:10], "big") == UNSUPPORTED_VERSION:
        layouts = layout("ResponseHeader", 0), layout("ApiVersionsResponse", 0)
        message = _read(frame, FrameKind(False, api_key, "ApiVersions", version, *layouts))
        if message.error is None and not message.trailing:
            return message
    if known is None:
        return _read(frame, _opaque(False, api_key, version, layout("ResponseHeader", 0)))
    return _read(frame, known.response_kind)


def _opaque(is_request: bool, api_key: int, version: int, header_layout: Layout) -> FrameKind:
    api = schemas.api(api_key)
    if api is None:
        why = f"unknown API key {api_key}"
    else:
        why = f"{api.name} v{version} is not in the schemas, which end at v{api.max_version}"
    return FrameKind(is_request, api_key, api_name(api_key), version, header_layout, None, why)


def _read(frame: bytes, kind: FrameKind) -> Message:
    try:
        return _read_quickly(frame, kind) or _read_closely(frame, kind)
    except Exception as error:  # noqa: BLE001  # a bug must not end the stream that the frame is of
        is_request, api_key, api, version, header_layout, *_ = kind
        header = {"correlation_id": int.from_bytes(frame[8:12] if is_request else frame[4:8], "big", signed=True)}
        start = min(12 if is_request else 8, len(frame))
        unread = Message(frame, is_request, api_key, api, version, header, {}, start, start, header_layout)
        return unread.unread(Failure.of("decoding a frame", error))


def _read_quickly(frame: bytes, kind: FrameKind) -> Message | None:
    """A frame in which everything is regular, None if it is not."""
    is_request, api_key, api, version, header_layout, body_layout, _ = kind
    if body_layout is None:
        return None
    try:
        header, start, flags = compiled.decoder(header_layout)(frame, 4)
        body, end, more = compiled.decoder(body_layout)(frame, start)
    except compiled.Irregular:
        return None
    if end != len(frame):
        return None
    flags |= more
    return Message(frame, is_request, api_key, api, version, header, body, start, end, header_layout, body_layout,
                   reads_well=True, tagged=bool(flags & compiled.TAGGED),
                   may_refuse=bool(flags & compiled.ERROR_CODE))  # fmt: skip


def _read_closely(frame: bytes, kind: FrameKind) -> Message:
    is_request, api_key, api, version, header_layout, body_layout, opaque = kind
    header, start, error, decode_warnings, flags = decode(header_layout, frame, 4)
    body: dict[str, Any] = {}
    end = start
    if error is None and body_layout is not None:
        body, end, error, more_oddities, more = decode(body_layout, frame, start)
        flags |= more
        decode_warnings += more_oddities
        if isinstance(error, Crowded):
            opaque, error = f"{error.message} in it", None
    message = Message(frame, is_request, api_key, api, version, header, body, start, end, header_layout, body_layout,
                      error, decode_warnings, opaque, tagged=bool(flags & compiled.TAGGED))  # fmt: skip
    message.reads_well = (
        error is None
        and opaque is None
        and end == len(frame)
        and not any(odd.kind == "null" for odd in decode_warnings)
    )
    return message


@dataclass(slots=True)
class Tree:
    """A frame as a tree of spans: the nodes ``size``, ``header`` and ``body``, as far as they could be read."""

    nodes: list[Node]
    error: DecodeError | None = None
    decode_warnings: list[DecodeWarning] = field(default_factory=list)


def walk_message(message: Message) -> Tree:
    """The fields of a decoded message, each with its span in the frame."""
    frame = message.frame
    nodes = [Node("size", 0, min(4, len(frame)), int.from_bytes(frame[:4], "big", signed=True))]
    header = walk(message.header_layout, frame, 4)
    nodes.append(Node("header", 4, header.end, children=header.nodes))
    tree = Tree(nodes, header.error, header.decode_warnings)
    if header.error is None and message.layout is not None:
        body = walk(message.layout, frame, message.body_start)
        nodes.append(Node("body", message.body_start, body.end, children=body.nodes))
        tree.error = body.error
        tree.decode_warnings = header.decode_warnings + body.decode_warnings
    return tree
