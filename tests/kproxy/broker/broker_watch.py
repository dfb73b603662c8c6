"""What kproxy says of the conversation between a scripted client and the built-in broker."""

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
    """A request; the answer to one that is not to be `answered` is waited for no longer than it might take."""

    api: str
    version: int
    body: Mapping[str, Any]
    answered: bool = True


async def watched(
    quirks: Iterable[str], steps: Iterable[Step], *, record_values: RecordValues | None = None, **options: Any
) -> list[FindingEntry | FindingLine]:
    """Ask a broker with these quirks one step after the other, on a connection that kproxy looks at; its findings."""
    inspector = Inspector("test", record_values=record_values)
    moments = itertools.count(time.time_ns(), 1_000_000)  # findings are not about the machine
    lines: list[Line] = []
    async with Broker(quirks=tuple(quirks), **options) as broker:
        [port] = broker.ports
        lines += inspector.open(1, "127.0.0.1:50000", f"127.0.0.1:{port}", at=next(moments))
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        by = "client"
        for number, step in enumerate(steps, 1):
            frame = request(step.api, step.version, dict(step.body), correlation_id=number, client_id="scripted")
            writer.write(frame)
            lines += inspector.data(1, Direction.REQUEST, frame, at=next(moments))
            try:
                async with asyncio.timeout(20 if step.answered else 2):
                    size = await reader.readexactly(4)
                    answer = size + await reader.readexactly(int.from_bytes(size, "big"))
            except asyncio.IncompleteReadError as cut:
                lines += inspector.data(1, Direction.RESPONSE, cut.partial, at=next(moments))
                by = "server"
                break
            except TimeoutError:
                moments = itertools.count(next(moments) + 2_000_000_000, 1_000_000)
                continue
            lines += inspector.data(1, Direction.RESPONSE, answer, at=next(moments))
        writer.close()
        with suppress(ConnectionError):
            await writer.wait_closed()
        lines += inspector.close(1, at=next(moments), by=by, how="fin")
    found: list[FindingEntry | FindingLine] = []
    for line in lines:
        if isinstance(line, FindingLine):
            found.append(line)
        elif isinstance(line, RequestLine | ResponseLine):
            found.extend(line.findings)
    return found
