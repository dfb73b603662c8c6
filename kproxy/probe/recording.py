"""Sends requests to a broker and records them and their responses as trace lines, as a proxy would."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager

from dissectors import schemas
from dissectors.connections.events import Direction
from dissectors.messages import summary
from dissectors.messages.message import read_response
from dissectors.schemas.codes import Error
from kproxy.client.connection import BrokerConnection, ClientTls, NoResponse, connect
from kproxy.client.exchange import expects_response
from kproxy.client.login import ClientLogin, log_in
from kproxy.client.plan import PlannedRequest
from kproxy.client.request import ClientRequest
from kproxy.client.versions import VersionRanges, fetch_versions_from, newest_version
from kproxy.errors import UserError
from kproxy.inspection.inspector import Inspector
from kproxy.probe.harmless import NOT_FOR_CLIENTS, harmless_values
from kproxy.proxy.address import Address
from kproxy.trace.lines import Detail, Line

#: Requests that are sent on one connection, each after the response to the previous one.
Script = Sequence[ClientRequest]

_MAX_CONNECTIONS = 8  # that are open at the same time
#: Requests that show whether the group's coordinator has been elected, and their errors while it has not.
_COORDINATED = frozenset({"FindCoordinator", "Heartbeat"})
_NOT_READY = frozenset({Error.COORDINATOR_LOAD_IN_PROGRESS, Error.COORDINATOR_NOT_AVAILABLE, Error.NOT_COORDINATOR})
_TRIES, _PAUSE_S = 12, 0.25
_CLIENT_ID = "kproxy-diff"


class RecordedBroker:
    """A broker, and the trace lines of the traffic with it. `timeout_s` is the time limit of a response."""

    def __init__(
        self, address: Address, timeout_s: float, tls: ClientTls | None = None, login: ClientLogin | None = None
    ) -> None:
        self.address, self._timeout_s, self._tls, self._login = address, timeout_s, tls, login
        self.served: VersionRanges = {}
        self.lines: list[Line] = []
        self._inspector = Inspector(str(address), Detail.FULL)
        self._connection_slots = asyncio.Semaphore(_MAX_CONNECTIONS)

    async def learn_versions(self) -> None:
        """Ask for the advertised versions.

        Raises:
            UserError: The broker cannot be reached, or its ApiVersions response is unusable.
        """
        self.served = await fetch_versions_from(self.address, self._timeout_s, self._tls)

    async def wait_until_ready(self) -> None:
        """Wait, at most three seconds, until the broker coordinates groups: a new broker does so only after a while."""
        served = {key: (lowest, lowest) for key, (lowest, _) in self.served.items()}
        requests = [
            request for script in harmless_scripts(served) for request in script if request.api.name in _COORDINATED
        ]
        async with self._connection() as connection:
            for _ in range(_TRIES):
                codes = [code for request in requests for code in await self._receive_error_codes(connection, request)]
                if not _NOT_READY.intersection(codes):
                    return
                await asyncio.sleep(_PAUSE_S)

    async def _receive_error_codes(self, connection: BrokerConnection, request: ClientRequest) -> list[int]:
        connection.send(request.frame(connection.next_correlation_id(), _CLIENT_ID))
        try:
            message = read_response(await connection.receive(), request.api.key, request.version)
        except NoResponse:
            return []
        return [error.code for error in summary.errors(message)]

    async def send(self, number: int, script: Script) -> None:
        """Send the requests on a connection with this number, and continue on a new one after a missing response.

        Raises:
            UserError: The broker cannot be reached, or the login fails.
        """
        remaining = list(script)
        async with self._connection_slots:
            while remaining:
                async with self._connection() as connection:
                    self._add_lines(self._inspector.open(number, "kproxy", str(self.address), at=time.time_ns()))
                    while remaining and await self._send_and_record(number, connection, remaining.pop(0)):
                        pass
                    self._add_lines(self._inspector.close(number, at=time.time_ns()))

    @asynccontextmanager
    async def _connection(self) -> AsyncIterator[BrokerConnection]:
        connection = await connect(self.address, self._timeout_s, self._tls)
        try:
            if self._login is not None:
                await log_in(connection, self._login, self.served)
            yield connection
        finally:
            connection.close()

    async def _send_and_record(self, number: int, connection: BrokerConnection, request: ClientRequest) -> bool:
        """Send a request and wait for its response. Return False if it does not arrive."""
        frame = request.frame(connection.next_correlation_id(), _CLIENT_ID)
        self._add_lines(self._inspector.receive_data(number, Direction.REQUEST, frame, at=time.time_ns()))
        connection.send(frame)
        if not expects_response(frame):
            return True
        try:
            response = await connection.receive()
        except NoResponse:
            return False
        self._add_lines(self._inspector.receive_data(number, Direction.RESPONSE, response, at=time.time_ns()))
        return True

    def _add_lines(self, lines: Sequence[Line]) -> None:
        self.lines += lines


async def send_to_both(a: RecordedBroker, b: RecordedBroker, planned_requests: Sequence[PlannedRequest] | None) -> None:
    """Send the same requests, in versions that both serve, to two brokers: the planned ones, else every harmless one.

    Raises:
        UserError: A broker cannot be reached, or the two have no version of a planned request in common.
    """
    await asyncio.gather(a.learn_versions(), b.learn_versions())
    served = _common_versions(a.served, b.served)
    if planned_requests is None:
        await asyncio.gather(a.wait_until_ready(), b.wait_until_ready())
        scripts = harmless_scripts(served)
    else:
        scripts = [
            [
                request.at(newest_version(request.api, served) if request.version is None else request.version)
                for request in planned_requests
            ]
        ]
    await asyncio.gather(*(broker.send(*script) for script in enumerate(scripts) for broker in (a, b)))


def harmless_scripts(served: VersionRanges) -> list[Script]:
    """Return a script per API that changes nothing: a request in each version that is served and that kproxy knows."""
    scripts: list[Script] = []
    for key, (lowest, highest) in sorted(served.items()):
        api = schemas.api(key)
        if api is not None and api.name not in NOT_FOR_CLIENTS:
            versions = [version for version in api.versions if lowest <= version <= highest]
            scripts.append([ClientRequest(api, version, harmless_values(api, version)) for version in versions])
    return [script for script in scripts if script]


def _common_versions(a: VersionRanges, b: VersionRanges) -> VersionRanges:
    """Return the version ranges that both brokers advertise.

    Raises:
        UserError: There are none.
    """
    ranges = {key: (max(a[key][0], b[key][0]), min(a[key][1], b[key][1])) for key in a if key in b}
    common_ranges = {key: (lowest, highest) for key, (lowest, highest) in ranges.items() if lowest <= highest}
    if not common_ranges:
        raise UserError("the two brokers have no version of any API in common")
    return common_ranges
