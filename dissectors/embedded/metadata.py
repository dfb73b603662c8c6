"""Records of KRaft's ``__cluster_metadata`` and of tiered storage's ``__remote_log_metadata``."""

from __future__ import annotations

from dissectors import schemas
from dissectors.embedded.registry import Reader, Rows, embedded, payload_layout
from dissectors.wire.errors import DecodeError
from dissectors.wire.layout import Field, Layout

_COMPONENTS = {"__cluster_metadata": "kafka-metadata", "__remote_log_metadata": "kafka-storage"}

#: Varints on the wire; all current values take one byte.
_PREFIX = (Field("frame_version", "int8"), Field("api_key", "int8"), Field("version", "int8"))
_FRAME_VERSION = 1


def _value_reader(component: str) -> Reader:
    def value_layout(data: bytes, _: Rows) -> Layout | None:
        """Return the layout of frame version, record type and version, and the record.

        Source: Kafka's AbstractApiMessageSerde.
        """
        if len(data) < len(_PREFIX):
            raise DecodeError(f"a record of {len(data)} bytes has no room for its type and version", offset=0)
        frame_version, api_key, version = data[:3]
        if frame_version != _FRAME_VERSION:
            raise DecodeError(f"frame version is {frame_version}, not {_FRAME_VERSION}", offset=0)
        name = schemas.kraft_record(api_key, component)
        if name is None:
            raise DecodeError(f"{component} has no record type {api_key}", offset=1)
        return payload_layout(name, version, *_PREFIX)

    return value_layout


for _topic, _component in _COMPONENTS.items():
    embedded(_topic, "value")(_value_reader(_component))
