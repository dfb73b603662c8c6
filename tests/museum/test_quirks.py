"""The quirk of a case makes the built-in broker show the same bug to the same client."""

from __future__ import annotations

import asyncio
from contextlib import AsyncExitStack
from dataclasses import dataclass, field

import pytest

from dissectors.connections.events import Direction
from dissectors.records.encode import encode
from kproxy.broker import Broker
from kproxy.inspection.inspector import Inspector
from kproxy.trace.lines import FindingLine, Line, RequestLine, ResponseLine
from tests.kproxy.frames import request
from tests.kproxy.stories import MS, StoryPlayer
from tests.museum.cases import CASES, Case

QUIRKS = {name: case for name, case in CASES.items() if case.quirk}


class _RecordingInspector(Inspector):
    """An inspector that records the requests of a story, each with its connection number and time."""

    def __init__(self) -> None:
        super().__init__("story")
        self.sent: list[tuple[int, bytes, int]] = []

    def receive_data(self, number: int, direction: Direction, data: bytes, *, at: int) -> list[Line]:
        """Record a request."""
        if direction is Direction.REQUEST:
            self.sent.append((number, data, at))
        return super().receive_data(number, direction, data, at=at)


@dataclass
class _Client:
    """Connections to the built-in broker, as kproxy sees them."""

    port: int
    stack: AsyncExitStack
    inspector: Inspector = field(default_factory=lambda: Inspector("museum"))
    lines: list[Line] = field(default_factory=list)
    streams: dict[int, tuple[asyncio.StreamReader, asyncio.StreamWriter]] = field(default_factory=dict)

    async def exchange(self, number: int, frame: bytes, at: int) -> None:
        """Send a request on the given connection, and wait for the response or the end of the connection."""
        if number not in self.streams:
            reader, writer = await asyncio.open_connection("127.0.0.1", self.port)
            self.stack.callback(writer.close)
            self.streams[number] = reader, writer
            server = f"127.0.0.1:{self.port}"
            self.lines += self.inspector.open(number, f"127.0.0.1:{50000 + number}", server, at=at)
        reader, writer = self.streams[number]
        writer.write(frame)
        self.lines += self.inspector.receive_data(number, Direction.REQUEST, frame, at=at)
        try:
            async with asyncio.timeout(20):
                size = await reader.readexactly(4)
                response = size + await reader.readexactly(int.from_bytes(size, "big"))
        except asyncio.IncompleteReadError:
            self.lines += self.inspector.close(number, at=at + MS // 2, by="server", how="fin")
        else:
            self.lines += self.inspector.receive_data(number, Direction.RESPONSE, response, at=at + MS // 2)


@pytest.mark.parametrize("case", QUIRKS.values(), ids=QUIRKS)
async def test_built_in_broker_shows_the_bug(case: Case) -> None:
    assert case.story is not None
    assert case.quirk is not None
    story = _RecordingInspector()
    StoryPlayer(story).play(case.story)
    records = encode([{"records": [{"timestamp": 1_600_000_000_000, "value": b"a"}]}])
    data = [{"name": "orders", "partition_data": [{"index": 0, "records": records}]}]
    async with AsyncExitStack() as stack:
        broker = await stack.enter_async_context(Broker(quirks=(case.quirk,), topics={"orders": 1}))
        [port] = broker.ports
        setup_client = _Client(port, stack)
        await setup_client.exchange(
            0, request("Produce", 3, {"acks": -1, "timeout_ms": 1000, "topic_data": data}), at=0
        )
        client = _Client(port, stack)
        for number, frame, sent_at in story.sent:
            await client.exchange(number, frame, sent_at)
    codes = set()
    for line in client.lines:
        if isinstance(line, FindingLine):
            codes.add(line.code)
        elif isinstance(line, RequestLine | ResponseLine):
            codes |= {finding.code for finding in line.findings}
    assert case.finding.code in codes
