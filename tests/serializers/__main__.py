"""Write go.jsonl and java.jsonl next to this file: messages of other projects' serializers, and their decoded values.

``python -m tests.serializers`` needs Go, Java and Maven. The programs are in `go` and `java`; the one in Go registers
its schemas with the registry next to the built-in broker, and go.jsonl also has the resulting records of `_schemas`.
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


async def go_records() -> list[dict[str, Any]]:
    """Return the records of `_schemas`, followed by the messages."""
    async with Broker(ports=None) as broker, serve_registry(TcpAddress("127.0.0.1", 0), broker) as [address]:
        text = await program_output("go", "run", ".", f"http://{address}", directory=HERE / "go")
        topic = broker.cluster.part(Topics).by_name("_schemas")
        assert topic is not None
        log = topic.partitions[0].log
        schema_records = [
            {"topic": "_schemas", "key": as_base64(record["key"]), "value": as_base64(record["value"])}
            for stored_batch in log.batches(0, log.end_offset)
            for batch in decode(stored_batch.data)
            for record in batch["records"]
        ]
    return [*schema_records, *map(json.loads, text.splitlines())]


async def java_records() -> list[dict[str, Any]]:
    """Return the messages, each with its schema."""
    with tempfile.TemporaryDirectory() as directory:
        path = Path(directory) / "path"
        goal = ["dependency:build-classpath", f"-Dmdep.outputFile={path}"]
        await program_output("mvn", "-q", "-B", *goal, directory=HERE / "java")
        utf8 = ["-Dfile.encoding=UTF-8", "-Dstdout.encoding=UTF-8"]
        text = await program_output("java", *utf8, "-cp", path.read_text(), "Serializers.java", directory=HERE / "java")
    return [*map(json.loads, text.splitlines())]


async def program_output(*command: str, directory: Path) -> str:
    """Return the output of a program."""
    process = await asyncio.create_subprocess_exec(*command, cwd=directory, stdout=subprocess.PIPE)
    output, _ = await process.communicate()
    if process.returncode:
        raise SystemExit(f"{command[0]} failed")
    return output.decode()


def as_base64(data: bytes) -> str:
    """Return bytes in base64, as in the programs' output."""
    return base64.b64encode(data).decode()


async def write() -> None:
    """Write both files."""
    for name, make_records in (("go", go_records), ("java", java_records)):
        lines = (json.dumps(record, ensure_ascii=False) + "\n" for record in await make_records())
        (HERE / f"{name}.jsonl").write_text("".join(lines), encoding="utf-8")


if __name__ == "__main__":
    asyncio.run(write())
