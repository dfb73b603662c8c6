"""A broker in a separate process, which tests can kill."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path

_SERVE = """
import asyncio, sys
from pathlib import Path
from kproxy.broker import Broker

async def serve():
    options = {"data": Path(sys.argv[1]), "fsync": sys.argv[2] == "fsync", "topics": {"t": 2}}
    async with Broker(report=lambda sentence: print(sentence, file=sys.stderr, flush=True), **options) as broker:
        print(broker.ports[0], flush=True)
        await asyncio.Event().wait()

asyncio.run(serve())
"""


class RemoteBroker:
    """The port of a broker in another process, in the form that `SocketClient` needs."""

    def __init__(self, port: int) -> None:
        self.ports = (port,)


async def start_broker_process(
    data: Path, *, fsync: bool = False, printed: Path | None = None
) -> tuple[asyncio.subprocess.Process, int]:
    """Start a broker with the topic ``t`` of two partitions; return it and its port. Its reports go to `printed`."""
    with (printed or Path("/dev/null")).open("w") as file:
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-c", _SERVE, str(data), "fsync" if fsync else "no fsync"),
            stdout=asyncio.subprocess.PIPE,
            stderr=file,
        )
    assert process.stdout is not None
    return process, int(await asyncio.wait_for(process.stdout.readline(), 30))
