"""The findings of kproxy about the conversation between a scripted client and the built-in broker."""

from __future__ import annotations

import asyncio
import itertools
import time
from collections.abc import Iterable, Mapping
from contextlib import suppress
from typing import Any, NamedTuple

from dissectors.connections.events import Direction
from kproxy.broker import Broker
from kproxy.inspection.inspector import Inspector
from kproxy.inspection.record_values import RecordValues
from kproxy.trace.lines import FindingEntry, FindingLine, Line, RequestLine, ResponseLine
from tests.kproxy.frames import request


class Step(NamedTuple):
    """A request. If `answered` is false, the client waits only briefly for a response."""

    api: str
    version: int
    body: Mapping[str, Any]
    answered: bool = True


async def watch_steps(
    quirks: Iterable[str], steps: Iterable[Step], *, record_values: RecordValues | None = None, **options: Any
) -> list[FindingEntry | FindingLine]:
    """Send the steps to a broker with these quirks, over a connection that kproxy inspects; return the findings."""
    inspector = Inspector("test", record_values=record_values)
    timestamps = itertools.count(time.time_ns(), 1_000_000)  # so that no finding depends on the machine's speed
    lines: list[Line] = []
    async with Broker(quirks=tuple(quirks), **options) as broker:
        [port] = broker.ports
        lines += inspector.open(1, "127.0.0.1:50000", f"127.0.0.1:{port}", at=next(timestamps))
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        closed_by = "client"
        for number, step in enumerate(steps, 1):
            frame = request(step.api, step.version, dict(step.body), correlation_id=number, client_id="scripted")
            writer.write(frame)
            lines += inspector.receive_data(1, Direction.REQUEST, frame, at=next(timestamps))
            try:
                async with asyncio.timeout(20 if step.answered else 2):
                    size = await reader.readexactly(4)
                    response = size + await reader.readexactly(int.from_bytes(size, "big"))
            except asyncio.IncompleteReadError as error:
                lines += inspector.receive_data(1, Direction.RESPONSE, error.partial, at=next(timestamps))
                closed_by = "server"
                break
            except TimeoutError:
                timestamps = itertools.count(next(timestamps) + 2_000_000_000, 1_000_000)
                continue
            lines += inspector.receive_data(1, Direction.RESPONSE, response, at=next(timestamps))
        writer.close()
        with suppress(ConnectionError):
            await writer.wait_closed()
        lines += inspector.close(1, at=next(timestamps), by=closed_by, how="fin")
    findings: list[FindingEntry | FindingLine] = []
    for line in lines:
        if isinstance(line, FindingLine):
            findings.append(line)
        elif isinstance(line, RequestLine | ResponseLine):
            findings.extend(line.findings)
    return findings
