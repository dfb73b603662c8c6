"""Exchanges to break: from Kafka's own classes, from captures of real clients, and written under layout edits."""

from __future__ import annotations

import functools
import gzip
import json
from base64 import b64decode
from collections import defaultdict
from collections.abc import Iterator
from random import Random
from typing import NamedTuple

from kproxy.trace.lines import Detail, RequestLine, ResponseLine
from tests.dissectors.diagnosis.broken import Mutations
from tests.dissectors.embedded.samples import FRAMES
from tests.fuzz.mutations import mutate
from tests.kproxy.capture_results import DATA, lines_of
from tests.kproxy.frames import with_length_prefix

#: The number of exchanges per chunk that are written under layout edits; writing them is slow, so a chunk reuses them.
_EDITED = 300


class Exchange(NamedTuple):
    """A request and its response, with their length prefixes; `key` and `version` are those of the request."""

    key: int
    version: int
    request: bytes
    response: bytes


@functools.cache
def _kafka_exchanges() -> list[Exchange]:
    """Return exchanges of every API and version from Kafka's classes, with everyday values and with extreme ones."""
    requests: dict[tuple[int, int], list[bytes]] = defaultdict(list)
    responses: dict[tuple[int, int], list[bytes]] = defaultdict(list)
    for file in ("corpus-tame", "corpus-seed1"):
        with gzip.open(DATA / f"{file}.jsonl.gz", "rt", encoding="utf-8") as lines:
            for row in map(json.loads, lines):
                if "frame_hex" in row:
                    frames_by_version = requests if row["type"] == "request" else responses
                    frames_by_version[row["api_key"], row["version"]].append(bytes.fromhex(row["frame_hex"]))
    return [
        Exchange(*api, request, response)
        for api, request_frames in requests.items()
        for request, response in zip(request_frames, responses[api], strict=False)
    ]


@functools.cache
def _captured_exchanges() -> list[Exchange]:
    return [
        exchange
        for path in sorted((DATA / "pcap").glob("*.pcap.gz"))
        for exchange in _exchanges_of_capture(lines_of(path, detail=Detail.RAW))
    ]


def _exchanges_of_capture(lines: Iterator[object]) -> Iterator[Exchange]:
    pending: dict[tuple[str, int | None], RequestLine] = {}
    for line in lines:
        if isinstance(line, RequestLine) and line.frame:
            pending[line.connection_id, line.correlation_id] = line
        elif isinstance(line, ResponseLine) and line.frame:
            request = pending.pop((line.connection_id, line.correlation_id), None)
            if request is not None and request.api_key is not None and request.frame:
                yield Exchange(
                    request.api_key, request.api_version or 0, b64decode(request.frame), b64decode(line.frame)
                )


@functools.cache
def _internal_topic_exchanges() -> list[Exchange]:
    """Return exchanges with embedded group protocols or coordinator records; the other side is from Kafka's classes."""
    by_version = {(exchange.key, exchange.version): exchange for exchange in _kafka_exchanges()}
    exchanges = []
    for row in FRAMES.values():
        key, version, frame = row["api_key"], row["version"], bytes.fromhex(row["frame"])
        if (counterpart := by_version.get((key, version))) is not None:
            exchanges.append(
                counterpart._replace(request=frame) if row["request"] else counterpart._replace(response=frame)
            )
    return exchanges


class Source:
    """A source of broken exchanges; the same seed gives the same exchanges."""

    def __init__(self, seed: str) -> None:
        self._random = random = Random(seed)
        edited = Mutations(random.getrandbits(32))
        self._edited = []
        for _ in range(_EDITED):
            request, broken = edited.exchange()
            sides = (broken.frame, with_length_prefix(bytes(8))) if broken.is_request else (request, broken.frame)
            self._edited.append(Exchange(broken.key, broken.version, *sides))
        self._sources = (*(_kafka_exchanges(), _captured_exchanges(), self._edited) * 3, _internal_topic_exchanges())

    def exchange(self, correlation_id: int) -> Exchange:
        """Return the next exchange, with up to four mutations of its request, its response or both."""
        random = self._random
        key, version, request, response = self._pick()
        other_exchange = self._pick()
        id_bytes = correlation_id.to_bytes(4, "big")
        request = request[4:8] + id_bytes + request[12:]
        response = id_bytes + response[8:]
        choice = random.random()
        if choice < 0.5:
            request = mutate(random, request, other_exchange.request[4:], 8)
        if choice > 0.4:
            response = mutate(random, response, other_exchange.response[4:], 4)
        return Exchange(key, version, with_length_prefix(request), with_length_prefix(response))

    def _pick(self) -> Exchange:
        return self._random.choice(self._random.choice(self._sources))
