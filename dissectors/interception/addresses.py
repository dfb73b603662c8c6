"""AddressRewriter: replaces brokers' addresses in responses."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import NamedTuple, TypeAlias

from dissectors import schemas
from dissectors.connections.events import Direction
from dissectors.interception.interceptor import FORWARD, Action, Replace, RequestHeader
from dissectors.messages.message import api_layouts
from dissectors.schemas.codes import ApiKey
from dissectors.wire.compiled import Irregular
from dissectors.wire.layout import Field, Layout, cached_on_owner
from dissectors.wire.primitives import TEXT_ERRORS, Irregularity, write_uvarint
from dissectors.wire.skip import Skipper, fields_skipper, read_length, skip_tags, skipper, struct_skipper

_NODE_IDS = {"node_id", "broker_id"}
#: The APIs whose responses list all brokers of the cluster.
_APIS_LISTING_ALL_BROKERS = {ApiKey.METADATA, ApiKey.DESCRIBE_CLUSTER}


class BrokerAddress(NamedTuple):
    """A broker and its address, from a response."""

    node_id: int
    host: str
    port: int


#: Takes the addresses of one response, and whether these are all brokers of the cluster. Returns the new host and port
#: of each, None to keep it.
Translate: TypeAlias = Callable[[list[BrokerAddress], bool], list[tuple[str, int] | None]]


class AddressRewriter:
    """Rewrites every host and port that belongs to a node id, and the lengths around them. Nothing else changes.

    The APIs are those whose schemas have a struct with a node id, a host and a port: Metadata, FindCoordinator,
    DescribeCluster, the `node_endpoints` of Produce, Fetch, ShareFetch and ShareAcknowledge, and APIs between
    controllers (Vote, BeginQuorumEpoch, EndQuorumEpoch, FetchSnapshot). Two kinds of addresses stay unchanged: the
    controllers' listeners in DescribeQuorum, which are only displayed, and applications' own addresses in the Streams
    APIs.

    Args:
        translate: Called with all addresses of a response.
        report: Called with the key and version of each API version that is newer than the schemas.
    """

    answers = False

    def __init__(self, translate: Translate, report: Callable[[int, int], None] = lambda key, version: None) -> None:
        self._translate = translate
        self._report = report

    def wants(self, direction: Direction, api_key: int, api_version: int) -> bool:
        """Whether these frames are responses that can contain addresses."""
        if direction is Direction.REQUEST:
            return False
        oldest, newest = _supported_versions().get(api_key, (0, -1))
        if api_version > newest >= 0:
            self._report(api_key, api_version)
            return False
        return oldest <= api_version <= newest

    def on_request(self, frame: bytes, header: RequestHeader) -> Action:
        """Forward every request."""
        return FORWARD

    def on_response(self, frame: bytes, header: RequestHeader) -> Action:
        """Replace the addresses. A response that cannot be read passes unchanged."""
        spans = locate_addresses(frame, header.api_key, header.api_version)
        if not spans:
            return FORWARD
        lists_all_brokers = header.api_key in _APIS_LISTING_ALL_BROKERS
        new_addresses = self._translate([span.address for span in spans], lists_all_brokers)
        changes = [
            (span, new_address)
            for span, new_address in zip(spans, new_addresses, strict=True)
            if new_address is not None
        ]
        changes = [(span, new_address) for span, new_address in changes if new_address != span.address[1:]]
        return Replace(_rewrite_frame(frame, changes)) if changes else FORWARD


class AddressSpan(NamedTuple):
    """The position of an address in a frame, as half-open spans.

    `host` includes the length of the string, whose encoding is `host_length` (see `Field.length`). `tag_sizes` are the
    sizes of the tagged fields around the address, outermost first.
    """

    address: BrokerAddress
    host: tuple[int, int]
    host_length: str
    port: tuple[int, int]
    tag_sizes: tuple[tuple[int, int], ...]


def locate_addresses(frame: bytes, api_key: int, api_version: int) -> list[AddressSpan]:
    """Return the brokers' addresses in a response, in wire order; none if it cannot be read."""
    layouts = api_layouts(api_key, api_version)
    if layouts is None:
        return []
    try:
        body = struct_skipper(layouts.response_header)(frame, 4)
        spans: list[AddressSpan] = []
        _collect_addresses(layouts.response, frame, body, (), spans, is_whole=False)
        return [span for span in spans if span.address.host and span.address.port > 0]
    except Irregular:
        return []


@functools.cache
def _supported_versions() -> dict[int, tuple[int, int]]:
    """Return the oldest and newest version of each API whose response can contain addresses."""
    versions_by_key = {}
    for api in schemas.apis():
        versions = [
            version for version in range(api.min_version, api.max_version + 1) if _can_have_addresses(api.key, version)
        ]
        if versions:
            versions_by_key[api.key] = versions[0], api.max_version
    return versions_by_key


def _can_have_addresses(api_key: int, api_version: int) -> bool:
    layouts = api_layouts(api_key, api_version)
    return layouts is not None and _has_address(layouts.response)


@cached_on_owner
def _has_address(layout: Layout) -> bool:
    """Whether a struct, or one inside it, has the host and port of a node."""
    return _is_address(layout) or any(map(_leads_to_address, (*layout.fields, *layout.tagged)))


@cached_on_owner
def _is_address(layout: Layout) -> bool:
    names = {field.name for field in layout.fields}
    return {"host", "port"} <= names and not names.isdisjoint(_NODE_IDS)


def _leads_to_address(field: Field) -> bool:
    return field.struct is not None and _has_address(field.struct)


@cached_on_owner
def _needed_fields(layout: Layout) -> tuple[Field, ...]:
    """Return the fields of a message up to the last one with addresses, so that e.g. Metadata's topics are not read."""
    if _is_address(layout) or _address_tags(layout):
        return layout.fields
    last = max(index for index, field in enumerate(layout.fields) if _leads_to_address(field))
    return layout.fields[: last + 1]


@cached_on_owner
def _address_tags(layout: Layout) -> dict[int | None, Field]:
    """Return the tagged fields that lead to addresses, by tag."""
    return {field.tag: field for field in layout.tagged if _leads_to_address(field)}


@cached_on_owner
def _skipper_to_tags(layout: Layout) -> Skipper | None:
    """Return a skipper over all plain fields if only tagged fields lead to addresses, as in Produce and Fetch."""
    if _is_address(layout) or any(map(_leads_to_address, layout.fields)):
        return None
    return fields_skipper(layout.fields)


def _collect_addresses(
    layout: Layout,
    data: bytes,
    position: int,
    tag_sizes: tuple[tuple[int, int], ...],
    address_spans: list[AddressSpan],
    *,
    is_whole: bool = True,
) -> int:
    """Add the addresses in a struct to `address_spans`; return the position after it (only if `is_whole`)."""
    if (skip := _skipper_to_tags(layout)) is not None:
        return _collect_tags(layout, data, skip(data, position), tag_sizes, address_spans)
    spans: dict[str, tuple[int, int]] = {}
    host_length = ""
    for field in layout.fields if is_whole else _needed_fields(layout):
        start = position
        if field.name == "host":
            host_length = field.length or ""
        if _leads_to_address(field):
            position = _collect_field(field, data, position, tag_sizes, address_spans)
        else:
            position = skipper(field)(data, position)
        if position > len(data):
            raise Irregularity
        spans[field.name] = start, position
    if _is_address(layout):
        address_spans.append(_address_span(spans, host_length, data, tag_sizes))
    if layout.flexible and _address_tags(layout):
        return _collect_tags(layout, data, position, tag_sizes, address_spans)
    return skip_tags(data, position) if layout.flexible and is_whole else position


def _collect_field(
    field: Field, data: bytes, position: int, tag_sizes: tuple[tuple[int, int], ...], spans: list[AddressSpan]
) -> int:
    assert field.struct is not None
    count = 1
    if field.array:
        count, position = read_length(field.length or "", data, position)
    elif field.length is not None:  # a nullable struct
        count, position = int(data[position] == 1), position + 1
    for _ in range(count):
        position = _collect_addresses(field.struct, data, position, tag_sizes, spans)
    return position


def _collect_tags(
    layout: Layout, data: bytes, position: int, tag_sizes: tuple[tuple[int, int], ...], spans: list[AddressSpan]
) -> int:
    count, position = _read_uvarint(data, position)
    fields_by_tag = _address_tags(layout) if count else {}
    for _ in range(count):
        tag, start = _read_uvarint(data, position)
        size, position = _read_uvarint(data, start)
        if (field := fields_by_tag.get(tag)) is not None:
            _collect_field(field, data, position, (*tag_sizes, (start, position)), spans)
        position += size
        if position > len(data):
            raise Irregularity
    return position


def _read_uvarint(data: bytes, position: int) -> tuple[int, int]:
    value, position = read_length("uvarint", data, position)
    return value + 1, position


def _address_span(
    spans: dict[str, tuple[int, int]], host_length: str, data: bytes, tag_sizes: tuple[tuple[int, int], ...]
) -> AddressSpan:
    (node_id,) = (_read_number(data, span) for name, span in spans.items() if name in _NODE_IDS)
    length, start = read_length(host_length, data, spans["host"][0])
    host = data[start : start + max(length, 0)].decode("utf-8", TEXT_ERRORS)
    address = BrokerAddress(node_id, host, _read_number(data, spans["port"]))
    return AddressSpan(address, spans["host"], host_length, spans["port"], tag_sizes)


def _read_number(data: bytes, span: tuple[int, int]) -> int:
    """Read an int32, or a uint16: the type of ports in APIs between controllers."""
    return int.from_bytes(data[slice(*span)], "big", signed=span[1] - span[0] == 4)


def _rewrite_frame(frame: bytes, changes: list[tuple[AddressSpan, tuple[str, int]]]) -> bytes:
    """Return the frame with these hosts and ports, and with its lengths adjusted."""
    splices: dict[tuple[int, int], bytes] = {}
    for span, (host, port) in changes:
        raw = host.encode("utf-8", TEXT_ERRORS)
        prefix = write_uvarint(len(raw) + 1) if span.host_length == "uvarint" else len(raw).to_bytes(2, "big")
        splices[span.host] = prefix + raw
        splices[span.port] = port.to_bytes(span.port[1] - span.port[0], "big")
    # Inner sizes first: a size that needs one more byte changes the sizes around it.
    for start, end in sorted({size for span, _ in changes for size in span.tag_sizes}, reverse=True):
        size, _ = _read_uvarint(frame, start)
        growth = sum(
            len(new) - (span_end - span_start)
            for (span_start, span_end), new in splices.items()
            if end <= span_start < end + size
        )
        splices[start, end] = write_uvarint(size + growth)
    pieces: list[bytes] = []
    position = 4
    for (start, end), new in sorted(splices.items()):
        pieces += frame[position:start], new
        position = end
    body = b"".join((*pieces, frame[position:]))
    return len(body).to_bytes(4, "big") + body
