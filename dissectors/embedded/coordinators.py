"""Record keys and values in the topics of the group, transaction and share coordinators."""

from __future__ import annotations

from dissectors import schemas
from dissectors.embedded.registry import VERSION, Reader, Rows, embedded, payload_layout, read_version
from dissectors.wire.errors import DecodeError
from dissectors.wire.layout import Field, Layout

_RECORD_TYPE = Field("record_type", "int16")
#: The topics with these records, and the Kafka component that writes each.
COMPONENTS = {
    "__consumer_offsets": "kafka-group-coordinator",
    "__transaction_state": "kafka-transaction-coordinator",
    "__share_group_state": "kafka-share-coordinator",
}


def record_names(topic: str, key: bytes) -> tuple[str, str] | None:
    """Return the names of the key and value messages of a record in a coordinator's topic; None for other topics."""
    component = COMPONENTS.get(topic)
    if component is None or len(key) < 2:
        return None
    return schemas.coordinator_record(component, read_version(key))


def _key_reader(component: str) -> Reader:
    def key_layout(data: bytes, _: Rows) -> Layout | None:
        """Return the layout of the record type and the key after it.

        Source: Kafka's CoordinatorRecordSerde.
        """
        record_type = read_version(data)
        names = schemas.coordinator_record(component, record_type)
        if names is None:
            raise DecodeError(f"{component} has no record type {record_type}", offset=0)
        return payload_layout(names[0], 0, _RECORD_TYPE)

    return key_layout


def _value_reader(component: str) -> Reader:
    def value_layout(data: bytes, rows: Rows) -> Layout | None:
        """Return the layout of the version and the value for the key's record type; None without such a key."""
        key = rows[-1]["key"]
        names = schemas.coordinator_record(component, read_version(key)) if key and len(key) > 1 else None
        return payload_layout(names[1], read_version(data), VERSION) if names else None

    return value_layout


for _topic, _component in COMPONENTS.items():
    embedded(_topic, "key")(_key_reader(_component))
    embedded(_topic, "value")(_value_reader(_component))
