"""Every API at every version that the broker serves, asked while kproxy looks on."""

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
from tests.kproxy.broker.every_api import APIS, OPTIONS, WITH_LOGIN, Client, logs_in
from tests.kproxy.broker.socket_client import Asking, asked

#: Families of findings about what a broker refuses.
REFUSALS = ("E", "G")

#: What one broker without anything wrong in it has to refuse.
REFUSED = {
    "AlterReplicaLogDirs": Error.LOG_DIR_NOT_FOUND,
    "ElectLeaders": Error.ELECTION_NOT_NEEDED,
    "OffsetCommit": Error.UNKNOWN_MEMBER_ID,  # version 0 says no member, and the group has some
    "UnregisterBroker": Error.BROKER_ID_NOT_REGISTERED,
}


class Watched(Asking):
    """A client with one connection, which an inspector sees; `lines` is what that says."""

    def __init__(self, ask: Asking, inspector: Inspector, number: int) -> None:
        super().__init__(ask.broker, "test")
        self.lines = inspector.open(number, "127.0.0.1:50000", f"127.0.0.1:{ask.broker.ports[0]}", at=time.time_ns())
        self._see: Callable[[Direction, bytes], None] = lambda direction, data: self.lines.extend(
            inspector.data(number, direction, data, at=time.time_ns())
        )
        self.inspector = inspector
        self.number = number

    async def streams(self, node: int) -> Any:
        reader, writer = await super().streams(node)
        return _Reader(reader, self._see), _Writer(writer, self._see)

    async def bye(self) -> None:
        await self.hang_up()
        self.lines += self.inspector.close(self.number, at=time.time_ns(), by="client", how="fin")


class _Reader:
    def __init__(self, reader: asyncio.StreamReader, see: Callable[[Direction, bytes], None]) -> None:
        self._reader = reader
        self._see = see

    async def readexactly(self, count: int) -> bytes:
        data = await self._reader.readexactly(count)
        self._see(Direction.RESPONSE, data)
        return data


class _Writer:
    def __init__(self, writer: asyncio.StreamWriter, see: Callable[[Direction, bytes], None]) -> None:
        self._writer = writer
        self._see = see

    def write(self, data: bytes) -> None:
        self._writer.write(data)
        self._see(Direction.REQUEST, data)

    async def drain(self) -> None:
        await self._writer.drain()


def loud(lines: list[Line]) -> list[str]:
    """Findings of warning and above, and any about a layout."""
    found: list[FindingEntry | FindingLine] = []
    for line in lines:
        if isinstance(line, FindingLine):
            found.append(line)
        elif isinstance(line, RequestLine | ResponseLine):
            found.extend(line.findings)
    return [f"{each.code} {each.message}" for each in found if each.severity != "info" or each.code.startswith("L")]


def codes(value: Any) -> Iterator[int]:
    """Every error code of an answer."""
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
async def test_every_version_is_answered_without_a_finding(api: str) -> None:
    async with asked(**(WITH_LOGIN if logs_in(api) else OPTIONS)) as ask:
        for version in APIS[api]:
            watched = Watched(ask, Inspector("test"), version)
            answer = await Client(watched, f"{api}-{version}").ask(api, version)
            await watched.bye()
            assert [text for text in loud(watched.lines) if text[:1] not in REFUSALS] == [], version
            assert set(codes(answer)) <= {Error.NONE, REFUSED.get(api)}, version
