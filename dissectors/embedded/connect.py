"""Kafka Connect's group protocol between workers: eager (version 0), compatible (1) and sessioned (2)."""

from __future__ import annotations

from dissectors.embedded.registry import VERSION, Rows, embedded, payload_of_layout, read_version
from dissectors.wire.layout import Field, Layout, cached_on_owner, define

_CONNECTOR = (
    Field("connector", "string", length="int16"),
    Field("tasks", "int32", array=True, length="int32"),  # -1 is the connector itself
)
_URL_AND_OFFSET = (Field("url", "string", length="int16"), Field("config_offset", "int64"))
_ALLOCATION = Field("allocation", "bytes", nullable=True, length="int32")
_ASSIGNMENT_HEADER = (
    Field("error", "int16"),
    Field("leader", "string", length="int16"),
    Field("leader_url", "string", length="int16"),
    Field("config_offset", "int64"),
)


def _connectors_field(name: str, *, nullable: bool) -> Field:
    struct = Layout("ConnectorAssignment", _CONNECTOR)
    return Field(name, "struct", array=True, nullable=nullable, length="int32", struct=struct)


_EAGER_STATE = Layout("ConnectWorkerState", _URL_AND_OFFSET)
_STATE = Layout("ConnectWorkerState", (*_URL_AND_OFFSET, _ALLOCATION))
_EAGER_ASSIGNMENT = Layout("ConnectAssignment", (*_ASSIGNMENT_HEADER, _connectors_field("assignment", nullable=False)))
_ASSIGNMENT = Layout(
    "ConnectAssignment",
    (
        *_ASSIGNMENT_HEADER,
        _connectors_field("assignment", nullable=True),
        _connectors_field("revoked", nullable=True),
        Field("delay", "int32", default=0),
    ),
)
define("ConnectWorkerState", {0: _EAGER_STATE, 1: _STATE, 2: _STATE})
define("ConnectAssignment", {0: _EAGER_ASSIGNMENT, 1: _ASSIGNMENT, 2: _ASSIGNMENT})


@cached_on_owner
def _payload_layout(message: Layout) -> Layout:
    return payload_of_layout(message, VERSION)


def worker_state(data: bytes) -> Layout:
    """Return the layout of a worker's URL, its offset in the config topic, and its current connectors and tasks.

    Source: Kafka's ConnectProtocol and IncrementalCooperativeConnectProtocol; KIP-415, KIP-507.
    """
    return _payload_layout(_STATE if read_version(data) > 0 else _EAGER_STATE)


def assignment(data: bytes) -> Layout:
    """Return the layout of a worker's assigned connectors and tasks; from version 1 on also of the revoked ones."""
    return _payload_layout(_ASSIGNMENT if read_version(data) > 0 else _EAGER_ASSIGNMENT)


@embedded("ConnectWorkerState", "data.allocation")
def allocation(data: bytes, _: Rows) -> Layout | None:
    """Return the layout of a worker's current assignment; None without data."""
    return assignment(data) if data else None
