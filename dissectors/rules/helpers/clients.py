"""Names of clients in findings about their habits."""

from __future__ import annotations

from dissectors.connections.addresses import host_of
from dissectors.trackers.state import ConnectionState
from dissectors.trackers.versions import MAX_NAME_SHOWN


def client_label(connection: ConnectionState) -> str:
    """Return the client of a connection as the subject of a sentence: ``client 'app' at 10.0.0.9``."""
    name = connection.client_id
    return f"client {name[:MAX_NAME_SHOWN]!r} at {host_of(connection.client)}" if name else (
        f"a client without an id at {host_of(connection.client)}"
    )  # fmt: skip
