"""VersionCap: keeps clients from using API versions that kproxy cannot read."""

from __future__ import annotations

from dissectors import schemas
from dissectors.connections.events import Direction
from dissectors.interception.interceptor import FORWARD, Action, Replace, RequestHeader
from dissectors.messages.message import api_layouts
from dissectors.schemas.codes import ApiKey, Error
from dissectors.wire.compiled import Irregular
from dissectors.wire.layout import Layout
from dissectors.wire.skip import read_length, skipper_to, struct_skipper

_HEADER_BYTES = 8  # size and correlation id: ApiVersions has response header version 0 in every version


class VersionCap:
    """Lowers the max version of each API in ApiVersions responses to the newest one in the schemas."""

    answers = False

    def wants(self, direction: Direction, api_key: int, api_version: int) -> bool:
        """Whether these frames are ApiVersions responses."""
        return direction is Direction.RESPONSE and api_key == ApiKey.API_VERSIONS

    def on_request(self, frame: bytes, header: RequestHeader) -> Action:
        """Forward every request."""
        return FORWARD

    def on_response(self, frame: bytes, header: RequestHeader) -> Action:
        """Replace the versions, each an int16. A response that cannot be read passes unchanged."""
        is_refused = frame[_HEADER_BYTES : _HEADER_BYTES + 2] == int(Error.UNSUPPORTED_VERSION).to_bytes(2, "big")
        layouts = api_layouts(
            ApiKey.API_VERSIONS, 0 if is_refused else header.api_version
        )  # KIP-511: refused in version 0
        if layouts is None:
            return FORWARD
        try:
            new_frame = _cap_versions(frame, layouts.response)
        except Irregular:
            return FORWARD
        return FORWARD if new_frame == frame else Replace(new_frame)


def _cap_versions(frame: bytes, layout: Layout) -> bytes:
    new_frame = bytearray(frame)
    (ranges_field,) = (field for field in layout.fields if field.name == "api_keys")
    assert ranges_field.struct is not None
    assert ranges_field.length is not None
    skip = struct_skipper(ranges_field.struct)
    count, position = read_length(ranges_field.length, frame, skipper_to(layout, "api_keys")(frame, _HEADER_BYTES))
    for _ in range(count):
        api_key, lowest, highest = (_read_int16(frame, position + offset) for offset in (0, 2, 4))
        api = schemas.api(api_key)
        if api is not None and lowest <= api.max_version < highest:
            new_frame[position + 4 : position + 6] = api.max_version.to_bytes(2, "big")
        position = skip(frame, position)
    return bytes(new_frame)


def _read_int16(data: bytes, position: int) -> int:
    return int.from_bytes(data[position : position + 2], "big", signed=True)
