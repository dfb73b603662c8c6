"""Clients: identity, API versions used, and whether they work with Kafka 4."""

from __future__ import annotations

import heapq
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from dissectors.bounded import MAX_NAME_LENGTH, EvictionCountingDict
from dissectors.connections.addresses import host_of
from dissectors.error_counts import ErrorCounts
from dissectors.messages.message import api_name
from dissectors.schemas import removed_versions
from kproxy.browse.overviews.kafka4 import (
    MAX_SERVERS,
    HighestVersions,
    Kafka4Verdict,
    RemovedApiUse,
    RemovedVersion,
    judge,
)
from kproxy.counting.counts import Severities, SeverityCounts
from kproxy.trace.lines import CloseLine, FindingLine, GapLine, Line, OpenLine, RequestLine, ResponseLine, StallLine

#: Maximum number of clients that are listed, and how many are dropped at once when it is exceeded.
MAX_CLIENTS = 10_000
_AT_ONCE = 1_000
#: Maximum number of pairs of API and version kept per client.
MAX_VERSIONS = 100
#: Maximum number of client ids cached per connection.
_MAX_PER_CONNECTION = 16

_API_VERSIONS = 18
_UNSUPPORTED_VERSION = 35
#: The code of the finding that a request's version is lower than the server's lowest.
_BELOW_ADVERTISED = "V002"

_Software = tuple[str | None, str | None]
_Key = tuple[str | None, str | None, str | None, str]
_NO_SOFTWARE: Final[_Software] = None, None


@dataclass(frozen=True, slots=True)
class ApiUse:
    """The lowest and highest version of an API that a client uses, and the number of requests."""

    api: str
    lowest: int
    highest: int
    requests: int


@dataclass(frozen=True, slots=True)
class Client:
    """Connections with the same client id, software name and version (KIP-511), and host.

    `negotiates`: the client sends ApiVersions. `refusals` counts responses with an error, `errors` responses by error.
    `repeated` counts repeats of findings already reported, `findings` the others. `last_at` is ns since the epoch,
    `first_row` and `last_row` are rows of the index. `verdict` is about Kafka 4 (`kproxy.browse.overviews.kafka4`),
    `reason` explains it in a sentence, `old` lists the removed versions in use.
    """

    client_id: str | None
    software_name: str | None
    software_version: str | None
    host: str
    connections: int
    requests: int
    request_bytes: int
    response_bytes: int
    apis: tuple[ApiUse, ...]
    more_versions: bool
    negotiates: bool
    refusals: int
    errors: tuple[tuple[str, int], ...]
    findings: Severities
    repeated: int
    first_row: int
    last_row: int
    last_at: int
    verdict: Kafka4Verdict
    reason: str
    old: tuple[RemovedVersion, ...]


@dataclass(slots=True)
class _State:
    """The state of a client.

    `listed` becomes false when it is dropped; `complete` is true if the trace has the start of one of its connections.
    """

    key: _Key
    first_row: int
    last_row: int
    last_at: int
    listed: bool = True
    complete: bool = False
    connections: int = 0
    requests: int = 0
    request_bytes: int = 0
    response_bytes: int = 0
    versions: dict[tuple[int, int], int] = field(default_factory=dict)
    more_versions: bool = False
    old: dict[int, RemovedApiUse] = field(default_factory=dict)
    errors: ErrorCounts = field(default_factory=ErrorCounts)
    findings: SeverityCounts = field(default_factory=SeverityCounts)
    repeated: int = 0


@dataclass(slots=True)
class _Connection:
    """A connection and its client; `complete` becomes false when part of it is missing from the trace."""

    server: HighestVersions | None = None
    host: str = ""
    complete: bool = False
    sent_api_versions: bool = False
    software: _Software = _NO_SOFTWARE
    client_id: str | None = None
    client: _State | None = None
    clients: dict[str | None, _State] = field(default_factory=dict)


class Clients:
    """Collects the clients in the lines of a trace.

    If there are more than `MAX_CLIENTS`, only the most recently seen are listed; `others` counts the dropped clients.
    """

    def __init__(self) -> None:
        self.others = 0
        self._clients: dict[_Key, _State] = {}
        self._connections: EvictionCountingDict[str, _Connection] = EvictionCountingDict(MAX_CLIENTS)
        # The clients of connections that have ended, by connection id.
        self._ended: EvictionCountingDict[str, _State] = EvictionCountingDict(MAX_CLIENTS)
        # The software of a client id and host, as far as it is known; `_NO_SOFTWARE` if there are several.
        self._software: EvictionCountingDict[tuple[str | None, str], _Software] = EvictionCountingDict(MAX_CLIENTS)
        self._servers: EvictionCountingDict[str, HighestVersions] = EvictionCountingDict(MAX_CLIENTS)
        self._negotiating: EvictionCountingDict[tuple[str | None, str], None] = EvictionCountingDict(MAX_CLIENTS)
        self._removed = removed_versions.lowest_served()

    def observe(self, line: Line, row: int, at: int) -> None:
        """Process the next line, given its row in the index and its time in ns."""
        if isinstance(line, GapLine):
            self._mark_incomplete(line)
            return
        if isinstance(line, StallLine):
            return
        if isinstance(line, FindingLine):
            open_connection = self._connections.get(line.connection_id)
            client = open_connection.client if open_connection is not None else self._ended.get(line.connection_id)
            if client is not None:
                client.findings.add((line,))
            return
        connection = self._connections.get(line.connection_id)
        if connection is None:
            connection = self._connections[line.connection_id] = _Connection()
        else:
            self._connections.move_to_end(line.connection_id)
        if isinstance(line, RequestLine):
            self._observe_request(connection, line, row, at)
        elif isinstance(line, ResponseLine):
            self._observe_response(connection, line, row, at)
        elif isinstance(line, OpenLine):
            self._connections[line.connection_id] = _Connection(complete=not line.midstream)
        elif isinstance(line, CloseLine):
            del self._connections[line.connection_id]
            if connection.client is not None:
                connection.client.repeated += sum(repeat.count for repeat in line.repeated)
                self._ended[line.connection_id] = connection.client

    def _mark_incomplete(self, gap: GapLine) -> None:
        """Record that requests may be missing: on one connection, or if the trace itself lacks lines, on all."""
        for connection_id in [gap.connection_id] if gap.connection_id else list(self._connections):
            if gap.direction != "response" and (connection := self._connections.get(connection_id)) is not None:
                connection.complete = False

    def _observe_request(self, connection: _Connection, line: RequestLine, row: int, at: int) -> None:
        key, version = line.api_key, line.api_version
        if key is None or version is None:
            return  # a SASL token
        if line.software_name is not None:
            _set_software(connection, line.software_name, line.software_version or "")
        client = self._update_client(connection, line, row, at)
        client.requests += 1
        client.request_bytes += line.size
        if key == _API_VERSIONS and not connection.sent_api_versions:
            connection.sent_api_versions = True
            self._negotiating[client.key[0], client.key[3]] = None
        key_and_version = key, version
        count = client.versions.get(key_and_version)
        if count is not None:
            client.versions[key_and_version] = count + 1
        elif len(client.versions) < MAX_VERSIONS:
            client.versions[key_and_version] = 1
        else:
            client.more_versions = True
        if key in self._removed and removed_versions.is_removed(key, version):
            _record_removed_version(client, connection, line, key, version, row)
        if line.findings:
            client.findings.add(line.findings)

    def _observe_response(self, connection: _Connection, line: ResponseLine, row: int, at: int) -> None:
        key, version = line.api_key, line.api_version
        if key is None or version is None:
            return  # its request is unknown
        client = self._update_client(connection, line, row, at)
        client.response_bytes += line.size
        if line.findings:
            client.findings.add(line.findings)
        if line.errors:
            client.errors.add(line.errors)
            if any(error.code == _UNSUPPORTED_VERSION for error in line.errors):
                if key in client.old and removed_versions.is_removed(key, version):
                    client.old[key].refused_by = line.server
                return
        if key in self._removed and connection.server is not None:
            highest = connection.server.highest
            if version > highest.get(key, -1):
                highest[key] = version

    def _update_client(self, connection: _Connection, line: RequestLine | ResponseLine, row: int, at: int) -> _State:
        """Return the client of a frame, after noting when it was last seen."""
        client = connection.client
        if client is None or line.client_id != connection.client_id or not client.listed:
            client = self._switch_client(connection, line, row, at)
        client.last_row = row
        client.last_at = at
        return client

    def _switch_client(self, connection: _Connection, line: RequestLine | ResponseLine, row: int, at: int) -> _State:
        """Make the client of a frame the current one of its connection, and return it."""
        if connection.server is None:
            connection.host = host_of(line.client)
            connection.server = self._servers.touch(line.server, lambda: HighestVersions(line.server))
        client_id = line.client_id and line.client_id[:MAX_NAME_LENGTH]
        client = connection.clients.get(client_id)
        if client is None or not client.listed:
            key = self._key(connection, client_id)
            client = self._clients.get(key) or self._add_client(key, row, at)
            client.complete = client.complete or connection.complete
            client.connections += 1
            if len(connection.clients) == _MAX_PER_CONNECTION:
                connection.clients.clear()
            connection.clients[client_id] = client
        connection.client_id, connection.client = client_id, client
        return client

    def _key(self, connection: _Connection, client_id: str | None) -> _Key:
        """Return the key of a client.

        A connection whose start is missing from the trace, and with it the name of the software, counts for the client
        with the same id and host whose software is known.
        """
        software, host = connection.software, connection.host
        if software == _NO_SOFTWARE:
            if not connection.complete:
                software = self._software.get((client_id, host), _NO_SOFTWARE)
            return client_id, *software, host
        key = (client_id, *software, host)
        if self._software.touch((client_id, host), lambda: software) != software:
            self._software[client_id, host] = _NO_SOFTWARE
        elif key not in self._clients:
            unnamed = self._clients.get((client_id, *_NO_SOFTWARE, host))
            if unnamed is not None and not unnamed.complete:
                del self._clients[unnamed.key]
                unnamed.key = key
                self._clients[key] = unnamed
        return key

    def _add_client(self, key: _Key, row: int, at: int) -> _State:
        if len(self._clients) >= MAX_CLIENTS:
            for state in heapq.nsmallest(_AT_ONCE, self._clients.values(), key=lambda state: state.last_row):
                state.listed = False
                del self._clients[state.key]
            self.others += _AT_ONCE
        state = self._clients[key] = _State(key, row, row, at)
        return state

    def rows(self) -> list[Client]:
        """Return the clients in order of first appearance."""
        return [self._client(state) for state in sorted(self._clients.values(), key=lambda state: state.first_row)]

    def _client(self, state: _State) -> Client:
        client_id, name, version, host = state.key
        negotiates = (client_id, host) in self._negotiating
        current = {key for key, version in state.versions if not removed_versions.is_removed(key, version)}
        for use in state.old.values():
            use.uses_newer = use.api_key in current
        judgement = judge(list(state.old.values()), negotiates, (name, version))
        return Client(
            client_id=client_id,
            software_name=name,
            software_version=version,
            host=host,
            connections=state.connections,
            requests=state.requests,
            request_bytes=state.request_bytes,
            response_bytes=state.response_bytes,
            apis=_summarise_apis(state.versions),
            more_versions=state.more_versions,
            negotiates=negotiates,
            refusals=state.errors.responses,
            errors=state.errors.row(),
            findings=state.findings.row(),
            repeated=state.repeated,
            first_row=state.first_row,
            last_row=state.last_row,
            last_at=state.last_at,
            verdict=judgement.verdict,
            reason=judgement.reason,
            old=judgement.old,
        )


def _set_software(connection: _Connection, name: str, version: str) -> None:
    """Record the software name and version; a change on one connection makes it a different client."""
    software = name[:MAX_NAME_LENGTH], version[:MAX_NAME_LENGTH]
    if software != connection.software:
        connection.software, connection.client = software, None
        connection.clients.clear()


def _record_removed_version(
    client: _State, connection: _Connection, line: RequestLine, key: int, version: int, row: int
) -> None:
    """Record that a request uses a version that Kafka 4 has removed."""
    use = client.old.get(key)
    if use is None:
        use = client.old[key] = RemovedApiUse(api_name(key), key, version, row)
    use.version, use.row = min(use.version, version), row
    use.without_negotiation = use.without_negotiation or (connection.complete and not connection.sent_api_versions)
    if connection.server is not None and len(use.servers) < MAX_SERVERS:
        use.servers[connection.server.address] = connection.server
    if any(finding.code == _BELOW_ADVERTISED for finding in line.findings):
        use.refused_by = line.server


def _summarise_apis(versions: Mapping[tuple[int, int], int]) -> tuple[ApiUse, ...]:
    """Summarise the versions of each API, sorted by API name."""
    versions_by_key: dict[int, list[int]] = {}
    for key, version in versions:
        versions_by_key.setdefault(key, []).append(version)
    uses = [
        ApiUse(
            api_name(key),
            min(versions_of_key),
            max(versions_of_key),
            sum(versions[key, version] for version in versions_of_key),
        )
        for key, versions_of_key in versions_by_key.items()
    ]
    return tuple(sorted(uses, key=lambda use: use.api))
