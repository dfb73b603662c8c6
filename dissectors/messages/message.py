"""Messages: decoded request and response frames, with length prefix, header and body."""

from __future__ import annotations

import struct
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from msgspec import Struct
from msgspec.structs import replace

from dissectors import schemas
from dissectors.failures import Failure
from dissectors.messages.diagnosis_result import Diagnosis
from dissectors.schemas.codes import ApiKey, Error
from dissectors.schemas.lookup import find_api
from dissectors.wire import compiled
from dissectors.wire.decode import decode
from dissectors.wire.errors import DecodeError, TooManyElements
from dissectors.wire.layout import Layout, layout
from dissectors.wire.node import Node
from dissectors.wire.primitives import Irregularity
from dissectors.wire.walk import MAX_NODES, DecodeWarning, walk

API_VERSIONS = ApiKey.API_VERSIONS
UNSUPPORTED_VERSION = Error.UNSUPPORTED_VERSION

#: The most steps for judging a message. A step takes about a microsecond. Steps are counted, not timed, so that the
#: findings of a frame do not depend on the machine.
MAX_STEPS = 1_000_000

_HEAD = struct.Struct(">hhi").unpack_from
_API_AND_VERSION = struct.Struct(">hh").unpack_from


@dataclass(slots=True)
class FrameKind:
    """How to decode a frame: one direction of one API version. If there is no body layout, `opaque` is the reason.

    `decoder` is compiled when it is first used.
    """

    is_request: bool
    api_key: int
    api: str
    version: int
    header_layout: Layout
    body_layout: Layout | None
    opaque: str | None = None
    decoder: compiled.FrameDecoder | None = None


class ApiLayouts(NamedTuple):
    """The layouts of request and response of one API version."""

    api: str
    request_kind: FrameKind
    response_kind: FrameKind
    request_header: Layout
    request: Layout
    response_header: Layout
    response: Layout


def _build_api_layouts(api: str, api_key: int, version: int) -> ApiLayouts:
    request_header, response_header = schemas.header_versions(api_key, version)
    request = layout("RequestHeader", request_header), layout(f"{api}Request", version)
    response = layout("ResponseHeader", response_header), layout(f"{api}Response", version)
    return ApiLayouts(
        api,
        FrameKind(True, api_key, api, version, *request),
        FrameKind(False, api_key, api, version, *response),
        *request,
        *response,
    )


#: Only versions in the schemas are cached: keys and versions come off the wire.
_api_layouts_cache: dict[tuple[int, int], ApiLayouts] = {}


def api_layouts(api_key: int, version: int) -> ApiLayouts | None:
    """Return the layouts of an API version, or None if the schemas do not have it."""
    layouts = _api_layouts_cache.get((api_key, version))
    if layouts is None:
        api = schemas.api(api_key)
        if api is None or not api.min_version <= version <= api.max_version:
            return None
        layouts = _api_layouts_cache[api_key, version] = _build_api_layouts(api.name, api_key, version)
    return layouts


class OutOfSteps(Exception):  # not an error: the limit did its job
    """Judging a message has used up its steps."""


class Message(Struct):
    """A decoded frame. Offsets count from its length prefix.

    `body` is partial if `error` is set, and empty if `opaque` gives the reason why the schemas cannot decode it. `end`
    is one past the last byte read; later bytes belong to no field of `layout`. If `diagnosis` is set, layouts and
    values are those of the diagnosis.
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
    #: The bug in kproxy that prevented decoding; `opaque` also mentions it.
    failure: Failure | None = None
    #: Whether Kafka's layout decodes the frame to its last byte, without null in a non-nullable field.
    well_formed: bool = False
    #: Whether a tag buffer is not empty; True for frames with decode warnings, for which it is not computed.
    tagged: bool = False
    #: Whether an error code may be other than 0. False is certain; True is certain only for regular frames.
    may_have_errors: bool = True
    #: Whether a well-formed frame has an unusual value, so that another layout may fit better.
    unusual: bool = False
    #: Whether the frame is well-formed, and has no tags, error codes or unusual values.
    ordinary: bool = False
    #: The message that a relay sent in its place, if the relay changed the frame.
    replaced_by: Message | None = None
    #: The cache of `summary.errors`, which several rules call and which reads every partition.
    errors_cache: list[Any] | None = None
    #: The cache of `topic_records`.
    records_cache: list[Any] | None = None
    #: The cache of `fetch_offsets`.
    offsets_cache: dict[tuple[str, int], int] | None = None
    #: The cache of `partition_ends`.
    ends_cache: Any = None
    #: The cache of `dissectors.rules.helpers.refused.refusals`, for a response.
    refusals_cache: list[Any] | None = None
    #: Whether only API, version and correlation id were read (`read_head`).
    head_only: bool = False
    #: The cache of `locate`. `dissectors.rules.check` empties it, because a request in flight must not keep a tree.
    tree: Tree | None = None
    #: The steps that judging this message may still take.
    steps_left: int = MAX_STEPS
    #: For a request whose client id is null, the client id of its connection (KIP-1313).
    connection_client_id: str | None = None
    #: For a request, the client's instance id, once a request header v3 of its connection has had it (KIP-1313).
    client_instance_id: str | None = None

    def spend(self, steps: int) -> None:
        """Deduct from the steps for judging this message.

        Raises:
            OutOfSteps: No steps are left. The rule that was running is reported as unfinished (K009).
        """
        self.steps_left -= steps
        if self.steps_left < 0:
            raise OutOfSteps

    @property
    def as_sent(self) -> Message:
        """The message as the receiver got it: a relay may have changed it."""
        return self if self.replaced_by is None else self.replaced_by

    @property
    def correlation_id(self) -> int:
        """The correlation id in the header; -1 if it could not be read."""
        value: int = self.header.get("correlation_id", -1)
        return value

    @property
    def client_id(self) -> str | None:
        """The client id in the header of a request or, if that is null, the client id of its connection (KIP-1313)."""
        header_client_id: str | None = self.header.get("client_id")
        return self.connection_client_id if header_client_id is None else header_client_id

    @property
    def trailing(self) -> int:
        """The number of bytes after the last field of a body that otherwise decodes."""
        return 0 if self.error or self.opaque else len(self.frame) - self.end

    def without_body(self, failure: Failure) -> Message:
        """Return the same message without its body, after a bug prevented decoding it."""
        return replace(
            self, body={}, end=self.body_start, layout=None, error=None, decode_warnings=(), opaque=failure.title,
            diagnosis=None, failure=failure, well_formed=False, tagged=False, may_have_errors=False, ordinary=False,
            errors_cache=None, records_cache=None, offsets_cache=None, ends_cache=None, refusals_cache=None, tree=None,
        )  # fmt: skip


def api_name(api_key: int) -> str:
    """Return Kafka's name of an API, or ``API n`` if it is unknown."""
    api = schemas.api(api_key)
    return api.name if api else f"API {api_key}"


def read_request(frame: bytes) -> Message:
    """Decode a request frame, including its length prefix. Never raises.

    If the schemas do not have the version, only the header is decoded, as version 1, because later header versions
    start with its fields.
    """
    if len(frame) < 12:
        header_layout = layout("RequestHeader", 1)
        header = decode(header_layout, frame, 4).values
        api_key, version = header.get("request_api_key", -1), header.get("request_api_version", -1)
        return _read_frame(frame, FrameKind(True, api_key, api_name(api_key), version, header_layout, None))
    api_key, version = key_and_version = _API_AND_VERSION(frame, 4)
    layouts = _api_layouts_cache.get(key_and_version) or api_layouts(api_key, version)
    if layouts is None:
        return _read_frame(frame, _opaque_kind(True, api_key, version, layout("RequestHeader", 1)))
    return _read_frame(frame, layouts.request_kind)


def read_response(frame: bytes, api_key: int | str, version: int) -> Message:
    """Decode the response to a request of an API (its key or name) and version. No bytes make it raise.

    An ApiVersions response with error 35 may be in version 0 for any request version (KIP-511). With a key, as it
    comes off the wire, a version that the schemas do not have is not an error: `Message.opaque` says so.

    Raises:
        ValueError: There is no API of that name, or it does not have the version.
    """
    layouts = _api_layouts_cache.get((api_key, version)) or api_layouts(api_key, version)  # type: ignore[arg-type]
    if isinstance(api_key, str):
        return read_response(frame, find_api(api_key, version).key, version)
    if api_key == API_VERSIONS and version != 0 and int.from_bytes(frame[8:10], "big") == UNSUPPORTED_VERSION:
        version_0_layouts = layout("ResponseHeader", 0), layout("ApiVersionsResponse", 0)
        message = _read_frame(frame, FrameKind(False, api_key, "ApiVersions", version, *version_0_layouts))
        if message.error is None and not message.trailing:
            return message
    if layouts is None:
        return _read_frame(frame, _opaque_kind(False, api_key, version, layout("ResponseHeader", 0)))
    return _read_frame(frame, layouts.response_kind)


def read_head(frame: bytes, request: Message | None = None) -> Message | None:
    """Read only API, version and correlation id of a request, or of the response to `request`, which is much faster.

    A request must have at least 12 bytes, a response 8. Return None if the schemas do not have the version.
    """
    if request is None:
        api_key, version, correlation_id = _HEAD(frame, 4)
    else:
        api_key, version, correlation_id = (
            request.api_key,
            request.version,
            int.from_bytes(frame[4:8], "big", signed=True),
        )
    layouts = api_layouts(api_key, version)
    if layouts is None:
        return None
    kind, start = (layouts.request_kind, 12) if request is None else (layouts.response_kind, 8)
    return Message(frame, kind.is_request, api_key, kind.api, version, {"correlation_id": correlation_id}, {}, start,
                   start, kind.header_layout, None, None, (), None, None, None, False, False, False, False,
                   False, head_only=True)  # fmt: skip


def _opaque_kind(is_request: bool, api_key: int, version: int, header_layout: Layout) -> FrameKind:
    api = schemas.api(api_key)
    if api is None:
        reason = f"unknown API key {api_key}"
    else:
        reason = f"{api.name} v{version} is not in the schemas, which end at v{api.max_version}"
    return FrameKind(is_request, api_key, api_name(api_key), version, header_layout, None, reason)


def _read_frame(frame: bytes, kind: FrameKind) -> Message:
    try:
        if (decode_frame := kind.decoder) is None:
            decode_frame = kind.decoder = _compile_decoder(kind.header_layout, kind.body_layout)
        try:
            header, body, start, flags = decode_frame(frame)
        except compiled.Irregular:
            return _read_slow(frame, kind)
        return Message(frame, kind.is_request, kind.api_key, kind.api, kind.version, header, body, start, len(frame),
                       kind.header_layout, kind.body_layout, None, (), None, None, None, True,
                       *_FLAGS[flags])  # fmt: skip
    except Exception as error:  # noqa: BLE001  # a bug must not end the inspection of the stream
        is_request = kind.is_request
        header = {"correlation_id": int.from_bytes(frame[8:12] if is_request else frame[4:8], "big", signed=True)}
        start = min(12 if is_request else 8, len(frame))
        message = Message(
            frame, is_request, kind.api_key, kind.api, kind.version, header, {}, start, start, kind.header_layout
        )
        return message.without_body(Failure.of("decoding a frame", error))


def _compile_decoder(header: Layout, body: Layout | None) -> compiled.FrameDecoder:
    return _reject_frame if body is None else compiled.frame_decoder(header, body)


def _reject_frame(_: bytes) -> tuple[dict[str, Any], dict[str, Any], int, int]:
    raise Irregularity


#: `tagged`, `may_have_errors`, `unusual` and `ordinary` of a regular frame, by the flags of its decoder.
_FLAGS = tuple(
    (bool(flags & compiled.TAGGED), bool(flags & compiled.ERROR_CODE), bool(flags & compiled.UNUSUAL), not flags)
    for flags in range(2 * compiled.UNUSUAL)
)


def _read_slow(frame: bytes, kind: FrameKind) -> Message:
    header_layout, body_layout, opaque = kind.header_layout, kind.body_layout, kind.opaque
    header, start, error, decode_warnings, flags = decode(header_layout, frame, 4)
    body: dict[str, Any] = {}
    end = start
    if error is None and body_layout is not None:
        body, end, error, body_warnings, body_flags = decode(body_layout, frame, start)
        flags |= body_flags
        decode_warnings += body_warnings
        if isinstance(error, TooManyElements):
            opaque, error = f"{error.message} in it", None
    message = Message(frame, kind.is_request, kind.api_key, kind.api, kind.version, header, body, start, end,
                      header_layout, body_layout, error, decode_warnings, opaque,
                      tagged=bool(flags & compiled.TAGGED))  # fmt: skip
    message.well_formed = (
        error is None
        and opaque is None
        and end == len(frame)
        and not any(warning.kind == "null" for warning in decode_warnings)
    )
    return message


@dataclass(slots=True)
class Tree:
    """A frame as a tree of spans: the nodes ``size``, ``header`` and ``body``, partial if `error` is set."""

    nodes: list[Node]
    error: DecodeError | None = None
    decode_warnings: list[DecodeWarning] = field(default_factory=list)
    #: The number of nodes.
    size: int = 0
    _by_name: dict[int, dict[str, Node]] = field(default_factory=dict)

    def child(self, siblings: list[Node], name: str) -> Node | None:
        """Return the first node with a name in a list of this tree; later calls for a long list take constant time."""
        if len(siblings) <= _MAX_UNINDEXED_NODES:
            return next((node for node in siblings if node.name == name), None)
        if (by_name := self._by_name.get(id(siblings))) is None:
            by_name = self._by_name[id(siblings)] = {node.name: node for node in reversed(siblings)}
        return by_name.get(name)


#: The most nodes that are searched without an index.
_MAX_UNINDEXED_NODES = 16


def walk_message(message: Message, *, most_nodes: int = MAX_NODES) -> Tree:
    """Decode a message again, with the span of each field in the frame.

    If the body would have more than `most_nodes` nodes, the tree is partial, and its `error` is `TooManyElements`.
    """
    frame = message.frame
    nodes = [Node("size", 0, min(4, len(frame)), int.from_bytes(frame[:4], "big", signed=True))]
    header = walk(message.header_layout, frame, 4)
    nodes.append(Node("header", 4, header.end, children=header.nodes))
    tree = Tree(nodes, header.error, header.decode_warnings)
    if header.error is None and message.layout is not None:
        body = walk(message.layout, frame, message.body_start, most_nodes=most_nodes)
        nodes.append(Node("body", message.body_start, body.end, children=body.nodes))
        tree.error, tree.size = body.error, body.size
        tree.decode_warnings = header.decode_warnings + body.decode_warnings
    return tree
