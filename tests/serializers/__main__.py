"""Writes go.jsonl and java.jsonl beside this file: what other projects' serializers write, and what it decodes to.

``python -m tests.serializers`` needs Go, Java and Maven. The programs are in `go` and `java`; the former registers its
schemas with the registry next to the built-in broker, whose records of `_schemas` the file has too.
"""

from __future__ import annotations

import asyncio
import base64
import json
import subprocess
import tempfile
from pathlib import Path
from typing import Any

from dissectors.records import decode
from kproxy.broker import Broker
from kproxy.broker.topics import Topics
from kproxy.live.registry_endpoint import serve_registry
from kproxy.proxy.address import TcpAddress

HERE = Path(__file__).parent


async def go() -> list[dict[str, Any]]:
    """The records of `_schemas`, then the messages."""
    async with Broker(ports=None) as broker, serve_registry(TcpAddress("127.0.0.1", 0), broker) as [address]:
        text = await output("go", "run", ".", f"http://{address}", directory=HERE / "go")
        topic = broker.cluster.part(Topics).named("_schemas")
        assert topic is not None
        log = topic.partitions[0].log
        stored = [
            {"topic": "_schemas", "key": encoded(record["key"]), "value": encoded(record["value"])}
            for each in log.batches(0, log.end_offset)
            for batch in decode(each.data)
            for record in batch["records"]
        ]
    return [*stored, *map(json.loads, text.splitlines())]


async def java() -> list[dict[str, Any]]:
    """The messages, each with its schema."""
    with tempfile.TemporaryDirectory() as directory:
        path = Path(directory) / "path"
        goal = ["dependency:build-classpath", f"-Dmdep.outputFile={path}"]
        await output("mvn", "-q", "-B", *goal, directory=HERE / "java")
        utf8 = ["-Dfile.encoding=UTF-8", "-Dstdout.encoding=UTF-8"]
        text = await output("java", *utf8, "-cp", path.read_text(), "Serializers.java", directory=HERE / "java")
    return [*map(json.loads, text.splitlines())]


async def output(*command: str, directory: Path) -> str:
    """What a program prints."""
    process = await asyncio.create_subprocess_exec(*command, cwd=directory, stdout=subprocess.PIPE)
    printed, _ = await process.communicate()
    if process.returncode:
        raise SystemExit(f"{command[0]} failed")
    return printed.decode()


def encoded(data: bytes) -> str:
    """Base64, as in the programs' output."""
    return base64.b64encode(data).decode()


async def write() -> None:
    """Write both files."""
    for name, make in (("go", go), ("java", java)):
        lines = (json.dumps(each, ensure_ascii=False) + "\n" for each in await make())
        (HERE / f"{name}.jsonl").write_text("".join(lines), encoding="utf-8")


if __name__ == "__main__":
    asyncio.run(write())
