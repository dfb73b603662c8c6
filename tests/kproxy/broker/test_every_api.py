"""Every API at every version that the broker serves, inspected by kproxy."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from dissectors.connections.events import Direction
from kproxy.broker.errors import Error
from kproxy.inspection.inspector import Inspector
from kproxy.trace.lines import FindingEntry, FindingLine, Line, RequestLine, ResponseLine
from tests.kproxy.broker.every_api import APIS, OPTIONS, WITH_LOGIN, ApiClient, needs_login
from tests.kproxy.broker.socket_client import SocketClient, broker_client

#: Families of findings about requests that a broker refuses.
REFUSALS = ("E", "G")

#: Errors that a correct single broker must return.
REFUSED = {
    "AlterReplicaLogDirs": Error.LOG_DIR_NOT_FOUND,
    "ElectLeaders": Error.ELECTION_NOT_NEEDED,
    "OffsetCommit": Error.UNKNOWN_MEMBER_ID,  # version 0 names no member, but the group has members
    "UnregisterBroker": Error.BROKER_ID_NOT_REGISTERED,
}


class WatchedClient(SocketClient):
    """A client with one connection that an inspector reads; `lines` holds the trace lines."""

    def __init__(self, client: SocketClient, inspector: Inspector, number: int) -> None:
        super().__init__(client.broker, "test")
        self.lines = inspector.open(number, "127.0.0.1:50000", f"127.0.0.1:{client.broker.ports[0]}", at=time.time_ns())
        self._inspect: Callable[[Direction, bytes], None] = lambda direction, data: self.lines.extend(
            inspector.receive_data(number, direction, data, at=time.time_ns())
        )
        self.inspector = inspector
        self.number = number

    async def streams(self, node: int) -> Any:
        reader, writer = await super().streams(node)
        return _WatchedReader(reader, self._inspect), _WatchedWriter(writer, self._inspect)

    async def close(self) -> None:
        await self.hang_up()
        self.lines += self.inspector.close(self.number, at=time.time_ns(), by="client", how="fin")


class _WatchedReader:
    def __init__(self, reader: asyncio.StreamReader, inspect: Callable[[Direction, bytes], None]) -> None:
        self._reader = reader
        self._inspect = inspect

    async def readexactly(self, count: int) -> bytes:
        data = await self._reader.readexactly(count)
        self._inspect(Direction.RESPONSE, data)
        return data


class _WatchedWriter:
    def __init__(self, writer: asyncio.StreamWriter, inspect: Callable[[Direction, bytes], None]) -> None:
        self._writer = writer
        self._inspect = inspect

    def write(self, data: bytes) -> None:
        self._writer.write(data)
        self._inspect(Direction.REQUEST, data)

    async def drain(self) -> None:
        await self._writer.drain()


def serious_findings(lines: list[Line]) -> list[str]:
    """Return the findings above severity info, and all findings about layouts."""
    findings: list[FindingEntry | FindingLine] = []
    for line in lines:
        if isinstance(line, FindingLine):
            findings.append(line)
        elif isinstance(line, RequestLine | ResponseLine):
            findings.extend(line.findings)
    return [
        f"{finding.code} {finding.message}"
        for finding in findings
        if finding.severity != "info" or finding.code.startswith("L")
    ]


def codes(value: Any) -> Iterator[int]:
    """Yield every error code in a response."""
    if isinstance(value, dict):
        for name, inner in value.items():
            if name == "error_code":
                yield inner
            else:
                yield from codes(inner)
    elif isinstance(value, list):
        for element in value:
            yield from codes(element)


@pytest.mark.parametrize("api", sorted(APIS))
async def test_every_version_gets_a_response_without_findings(api: str) -> None:
    async with broker_client(**(WITH_LOGIN if needs_login(api) else OPTIONS)) as client:
        for version in APIS[api]:
            watched = WatchedClient(client, Inspector("test"), version)
            response = await ApiClient(watched, f"{api}-{version}").request(api, version)
            await watched.close()
            assert [text for text in serious_findings(watched.lines) if text[:1] not in REFUSALS] == [], version
            assert set(codes(response)) <= {Error.NONE, REFUSED.get(api)}, version
