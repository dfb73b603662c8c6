"""Clients: which they are, what they use, and whether Kafka 4 will serve them."""

from __future__ import annotations

import heapq
from collections.abc import Mapping
from dataclasses import dataclass, field

from dissectors.connections.addresses import host_of
from dissectors.messages.message import api_name
from dissectors.schemas import removed_versions
from dissectors.schemas.codes import ApiKey, Error
from kproxy.browse.overviews.kafka4 import MOST_SERVERS, HighestVersions, Kafka4Verdict, OldUse, Use, judge
from kproxy.counting.bounded_dict import Recent
from kproxy.counting.counts import ErrorCounts, Severities, SeverityCounts
from kproxy.counting.names import MAX_NAME_LENGTH
from kproxy.trace.lines import CloseLine, GapLine, Line, OpenLine, RequestLine, ResponseLine, StallLine

#: Clients that are listed, and how many are let go at once when there are more.
MOST = 10_000
_AT_ONCE = 1_000
#: Pairs of API and version of a client that are kept.
MOST_VERSIONS = 100
#: Client ids of a connection that are told apart without looking them up.
_MOST_ON_A_CONNECTION = 16

_API_VERSIONS = int(ApiKey.API_VERSIONS)  # compared for each line
_UNSUPPORTED_VERSION = int(Error.UNSUPPORTED_VERSION)
#: The finding that says of a request that its server serves later versions only.
_BELOW_ADVERTISED = "V002"

_Key = tuple[str | None, str | None, str | None, str]


@dataclass(frozen=True, slots=True)
class ApiUse:
    """The versions of an API that a client uses, from `lowest` to `highest`, and with how many requests."""

    api: str
    lowest: int
    highest: int
    requests: int


@dataclass(frozen=True, slots=True)
class Client:
    """What has one client id, says that it is the same software, and comes from one host.

    `negotiates`: it asks ApiVersions. `refusals` counts responses with an error, `errors` how many carry which.
    `repeated` counts findings that were told before, `findings` are the others. `last_at` is ns since the epoch,
    `first_row` and `last_row` are rows of the index. `verdict` is about Kafka 4 (`kproxy.browse.overviews.kafka4`),
    `reason` a sentence, `old` what it is about.
    """

    client_id: str | None
    software_name: str | None
    software_version: str | None
    host: str
    connections: int
    requests: int
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
    old: tuple[OldUse, ...]


@dataclass(slots=True)
class _State:
    """What is known of a client; `listed` until it is let go."""

    key: _Key
    first_row: int
    last_row: int
    last_at: int
    listed: bool = True
    connections: int = 0
    requests: int = 0
    versions: dict[tuple[int, int], int] = field(default_factory=dict)
    more_versions: bool = False
    old: dict[int, Use] = field(default_factory=dict)
    errors: ErrorCounts = field(default_factory=ErrorCounts)
    findings: SeverityCounts = field(default_factory=SeverityCounts)
    repeated: int = 0


@dataclass(slots=True)
class _Connection:
    """Who is on a connection. `whole`: all of it was seen up to now. `asked`: ApiVersions, on it."""

    server: HighestVersions | None = None
    host: str = ""
    whole: bool = False
    asked: bool = False
    software: tuple[str | None, str | None] = None, None
    client_id: str | None = None
    client: _State | None = None
    clients: dict[str | None, _State] = field(default_factory=dict)


class Clients:
    """Takes the lines of a trace; `rows` are the clients.

    Of more than `MOST` those seen last are listed; `others` counts the ones that were let go.
    """

    def __init__(self) -> None:
        self.others = 0
        self._clients: dict[_Key, _State] = {}
        self._connections: Recent[str, _Connection] = Recent(MOST)
        self._servers: Recent[str, HighestVersions] = Recent(MOST)
        self._askers: Recent[tuple[str | None, str], None] = Recent(MOST)
        self._removed = removed_versions.lowest_served()

    def take(self, line: Line, row: int, at: int) -> None:
        """Take the next line; its row in the index, and its time in ns."""
        if isinstance(line, GapLine):
            self._miss(line)
            return
        if isinstance(line, StallLine):
            return
        connection = self._connections.get(line.connection_id)
        if connection is None:
            connection = self._connections[line.connection_id] = _Connection()
        else:
            self._connections.move_to_end(line.connection_id)
        if isinstance(line, RequestLine):
            self._request(connection, line, row, at)
        elif isinstance(line, ResponseLine):
            self._response(connection, line, row, at)
        elif isinstance(line, OpenLine):
            self._connections[line.connection_id] = _Connection(whole=not line.midstream)
        elif isinstance(line, CloseLine):
            del self._connections[line.connection_id]
            if connection.client is not None:
                connection.client.repeated += sum(repeat.count for repeat in line.repeated)
        elif connection.client is not None:
            connection.client.findings.add((line,))

    def _miss(self, gap: GapLine) -> None:
        """Requests may have gone by unseen: on a connection, or if the trace lacks lines, on any."""
        for connection_id in [gap.connection_id] if gap.connection_id else list(self._connections):
            if gap.direction != "response" and (connection := self._connections.get(connection_id)) is not None:
                connection.whole = False

    def _request(self, connection: _Connection, line: RequestLine, row: int, at: int) -> None:
        key, version = line.api_key, line.api_version
        if key is None or version is None:
            return  # a SASL token
        if line.software_name is not None:
            _announce(connection, line.software_name, line.software_version or "")
        client = self._client(connection, line, row, at)
        client.requests += 1
        if key == _API_VERSIONS and not connection.asked:
            connection.asked = True
            self._askers[client.key[0], client.key[3]] = None
        used = key, version
        count = client.versions.get(used)
        if count is not None:
            client.versions[used] = count + 1
        elif len(client.versions) < MOST_VERSIONS:
            client.versions[used] = 1
        else:
            client.more_versions = True
        if key in self._removed and removed_versions.is_removed(key, version):
            _use_old(client, connection, line, key, version, row)
        if line.findings:
            client.findings.add(line.findings)

    def _response(self, connection: _Connection, line: ResponseLine, row: int, at: int) -> None:
        key, version = line.api_key, line.api_version
        if key is None or version is None:
            return  # nobody knows what it answers
        client = self._client(connection, line, row, at)
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

    def _client(self, connection: _Connection, line: RequestLine | ResponseLine, row: int, at: int) -> _State:
        """The client of a frame."""
        client = connection.client
        if client is None or line.client_id != connection.client_id or not client.listed:
            client = self._introduce(connection, line, row, at)
        client.last_row = row
        client.last_at = at
        return client

    def _introduce(self, connection: _Connection, line: RequestLine | ResponseLine, row: int, at: int) -> _State:
        """A client that speaks on a connection for the first time, or again after another one."""
        if connection.server is None:
            connection.host = host_of(line.client)
            connection.server = self._servers.touch(line.server, lambda: HighestVersions(line.server))
        name = line.client_id and line.client_id[:MAX_NAME_LENGTH]
        client = connection.clients.get(name)
        if client is None or not client.listed:
            key = (name, *connection.software, connection.host)
            client = self._clients.get(key) or self._new(key, row, at)
            client.connections += 1
            if len(connection.clients) == _MOST_ON_A_CONNECTION:
                connection.clients.clear()
            connection.clients[name] = client
        connection.client_id, connection.client = name, client
        return client

    def _new(self, key: _Key, row: int, at: int) -> _State:
        if len(self._clients) >= MOST:
            for state in heapq.nsmallest(_AT_ONCE, self._clients.values(), key=lambda state: state.last_row):
                state.listed = False
                del self._clients[state.key]
            self.others += _AT_ONCE
        made = self._clients[key] = _State(key, row, row, at)
        return made

    def rows(self) -> list[Client]:
        """The clients, in the order in which they were first seen."""
        return [self._row(state) for state in self._clients.values()]

    def _row(self, state: _State) -> Client:
        client_id, name, version, host = state.key
        asks = (client_id, host) in self._askers
        current = {key for key, version in state.versions if not removed_versions.is_removed(key, version)}
        for use in state.old.values():
            use.keeps_up = use.api_key in current
        judgement = judge(list(state.old.values()), asks, (name, version))
        return Client(
            client_id=client_id,
            software_name=name,
            software_version=version,
            host=host,
            connections=state.connections,
            requests=state.requests,
            apis=_apis(state.versions),
            more_versions=state.more_versions,
            negotiates=asks,
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


def _announce(connection: _Connection, name: str, version: str) -> None:
    """A client says what software it is: it is another one than before, if it said something else or nothing."""
    software = name[:MAX_NAME_LENGTH], version[:MAX_NAME_LENGTH]
    if software != connection.software:
        connection.software, connection.client = software, None
        connection.clients.clear()


def _use_old(client: _State, connection: _Connection, line: RequestLine, key: int, version: int, row: int) -> None:
    """A client uses a version that is removed."""
    use = client.old.get(key)
    if use is None:
        use = client.old[key] = Use(api_name(key), key, version, row)
    use.version, use.row = min(use.version, version), row
    use.unasked = use.unasked or (connection.whole and not connection.asked)
    if connection.server is not None and len(use.servers) < MOST_SERVERS:
        use.servers[connection.server.address] = connection.server
    if any(finding.code == _BELOW_ADVERTISED for finding in line.findings):
        use.refused_by = line.server


def _apis(versions: Mapping[tuple[int, int], int]) -> tuple[ApiUse, ...]:
    """The versions by API, in the order of names."""
    found: dict[int, list[int]] = {}
    for key, version in versions:
        found.setdefault(key, []).append(version)
    uses = [
        ApiUse(api_name(key), min(each), max(each), sum(versions[key, version] for version in each))
        for key, each in found.items()
    ]
    return tuple(sorted(uses, key=lambda use: use.api))
