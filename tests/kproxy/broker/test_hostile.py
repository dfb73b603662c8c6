"""Bytes that nobody should send, at one broker: afterwards it is as it was."""

from __future__ import annotations

import asyncio
import gc
import gzip
import json
import random
import socket
import struct
import tracemalloc
from collections.abc import AsyncIterator, Iterator
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from typing import Any

import pytest

from dissectors import schemas
from kproxy.broker.connection import MAX_FRAME_BYTES
from tests.kproxy.broker.asking import Asking, asked
from tests.kproxy.broker.every_api import APIS, OPTIONS, Client
from tests.kproxy.captured import DATA
from tests.kproxy.frames import framed, request

ASKED = request("ApiVersions", 0, {})
WEDGES = [b"", b"\xff\xff\xff\xff", b"\x7f\xff\xff\xff", b"\xff\xff\xff\xff\x0f", b"\x80\x00", b"\xff", b"\x02", b"\0"]


def corpus() -> Iterator[bytes]:
    """Requests that Kafka's own classes wrote, without their length prefixes."""
    for name in ("corpus-tame", "corpus-seed1"):
        with gzip.open(DATA / f"{name}.jsonl.gz", "rt") as rows:
            for row in map(json.loads, rows):
                if row["type"] == "request" and row["api"].removesuffix("Request") in APIS:
                    yield bytes.fromhex(row["frame_hex"])[4:]


def damaged(frame: bytes, chance: random.Random) -> bytes:
    """The frame with up to three edits; its API and version stay, so that the body is looked at."""
    for _ in range(chance.randrange(4)):
        at = chance.randrange(4, len(frame) + 1)
        frame = frame[:at] + chance.choice(WEDGES) + frame[at + chance.choice([0, 1, 2, 4]) :]
    return frame


def is_served(frame: bytes) -> bool:
    """Whether the broker has that API and version; else it would only close the connection."""
    key, version = struct.unpack(">hh", frame[:4])
    api = schemas.api(key)
    return api is not None and version in APIS.get(api.name, ())


@asynccontextmanager
async def besieged(**options: Any) -> AsyncIterator[Asking]:
    """A broker that clients do wrong to. Nothing of them is left, and it has made no mistake of its own."""
    said: list[str] = []
    async with asked(said=said, **(OPTIONS | options)) as ask:
        before = asyncio.all_tasks()
        yield ask
        [server] = ask.broker._servers.values()
        await ask.hang_up()
        async with asyncio.timeout(20):
            while server.connections or asyncio.all_tasks() - before:
                await asyncio.sleep(0.01)
        await answers(ask)
    assert [each for each in said if "bug" in each or "cannot be written" in each] == []


async def answers(ask: Asking) -> None:
    """A right client is answered."""
    assert (await ask.another()("ApiVersions", 0))["error_code"] == 0
