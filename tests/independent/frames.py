"""Valid frames from Kafka's classes and from captures, and broken versions of them."""

from __future__ import annotations

import gzip
import json
import struct
from base64 import b64decode
from collections.abc import Callable, Iterator
from copy import deepcopy
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import Any

from kproxy.trace.lines import Detail, RequestLine, ResponseLine
from tests.independent.breakages import FAMILIES, Frame, Unfit
from tests.independent.definitions import Reader, Values, definitions, message, shape, shared_message, write
from tests.independent.values import Source
from tests.kproxy.capture_results import DATA, lines_of

_CORPUS = Path(__file__).parents[1] / "data" / "corpus-tame.jsonl.gz"
_TRIES = 6


@dataclass
class ValidFrame:
    """A valid frame, given by its values; `where` is its source."""

    name: str
    key: int
    version: int
    header_version: int
    values: Values
    where: str

    @property
    def is_request(self) -> bool:
        return self.name.endswith("Request")


@dataclass
class Case:
    """A broken frame and the valid frame; `values` contains every field of either frame.

    If an embedded payload is broken, the case also has the correct and the broken payload.
    """

    family: str
    valid: ValidFrame
    original: bytes
    broken: bytes
    values: Values
    shape: str = ""
    payload_name: str = ""
    payload: bytes = b""
    broken_payload: bytes = b""
    payload_values: Values = field(default_factory=dict)


def encode_frame(frame: Frame) -> bytes:
    """Return the bytes of a frame with its length prefix."""
    header_bytes, body = write(frame.header, frame.values["header"]), write(frame.body, frame.values["body"])
    if frame.prefix == "correlation_id":
        header_bytes = header_bytes[:4] + header_bytes
    data = header_bytes + body
    if frame.prefix == "size":
        data = struct.pack(">i", len(data)) + data
    return struct.pack(">i", len(data)) + data


def new_frame(valid: ValidFrame, random: Random) -> Frame:
    header = "RequestHeader" if valid.is_request else "ResponseHeader"
    return Frame(valid.name, valid.version, valid.header_version, message(header, valid.header_version),
                 message(valid.name, valid.version), deepcopy(valid.values), random)  # fmt: skip


def kafka_frames() -> Iterator[ValidFrame]:
    """Yield frames that Kafka's classes wrote for every API, version and direction, with realistic values."""
    with gzip.open(_CORPUS, "rt", encoding="utf-8") as lines:
        for number, line in enumerate(lines):
            row = json.loads(line)
            if "frame_hex" not in row or row["api"] not in definitions() or row["style"] == "sparse":
                continue
            tree = shared_message(row["api"], row["version"])
            try:
                body = Reader(bytes.fromhex(row["body_hex"])).struct(tree)
            except ValueError:
                continue  # a layout that 4.4.0 changed under the same version
            source = Source(Random(number))
            header: Values = {"correlation_id": number % 300 + 1}
            if row["type"] == "request":
                header |= {"request_api_key": row["api_key"], "request_api_version": row["version"],
                           "client_id": source.text("client_id", 0)}  # fmt: skip
            body.pop("_tags", None)
            values = {"header": header, "body": source.with_realistic_values(tree, body)}
            yield ValidFrame(row["api"], row["api_key"], row["version"], row["header_version"], values, f"row {number}")


def captured_frames() -> Iterator[ValidFrame]:
    """Yield frames that real clients and brokers sent."""
    headers = {(row["api"], row["version"]): row["header_version"] for row in _rows()}
    seen_frames = set()
    for path in sorted((DATA / "pcap").glob("*.pcap.gz")):
        for line in lines_of(path, detail=Detail.RAW):
            if not isinstance(line, RequestLine | ResponseLine) or not line.frame or line.frame in seen_frames:
                continue
            seen_frames.add(line.frame)
            name = f"{line.api}{'Request' if isinstance(line, RequestLine) else 'Response'}"
            key, version = line.api_key, line.api_version
            if key is not None and version is not None and (name, version) in headers:
                yield from _parse_frame(name, key, version, headers[name, version], b64decode(line.frame), path.name)


def _parse_frame(
    name: str, key: int, version: int, header_version: int, frame: bytes, source: str
) -> Iterator[ValidFrame]:
    header = "RequestHeader" if name.endswith("Request") else "ResponseHeader"
    header_tree, body_tree = shared_message(header, header_version), shared_message(name, version)
    reader = Reader(frame, 4)
    try:
        values = {"header": reader.struct(header_tree)}
        values["body"] = reader.struct(body_tree)
    except (ValueError, struct.error):
        return
    valid = ValidFrame(name, key, version, header_version, values, source)
    same_frame = Frame(name, version, header_version, header_tree, body_tree, values, Random(0))
    if reader.pos == len(frame) and encode_frame(same_frame) == frame:
        yield valid


def _rows() -> Iterator[dict[str, Any]]:
    with gzip.open(_CORPUS, "rt", encoding="utf-8") as lines:
        yield from (row for row in map(json.loads, lines) if "frame_hex" in row)


def break_frame(valid: ValidFrame, family: str, breakage: Callable[[Frame], None], seed: int) -> Case | None:
    """Return the frame broken in this way, or None if the breakage does not apply or changes no byte."""
    for attempt in range(_TRIES):
        frame = new_frame(valid, Random(seed * 1000 + attempt))
        try:
            original = encode_frame(frame)
            breakage(frame)
            if frame.values.pop("changed", False):  # the breakage added a value: keep it in the original too
                original = encode_frame(_restore(frame, valid))
            data = encode_frame(frame)
        except (Unfit, OverflowError, struct.error):
            continue
        except (TypeError, AttributeError, KeyError):
            continue  # the layout does not allow null
        if data != original:
            return Case(family, valid, original, data, frame.values, shape(frame.body))
    return None


def _restore(frame: Frame, valid: ValidFrame) -> Frame:
    restored = new_frame(valid, frame.random)
    restored.values = frame.values
    return restored


def cases(valid_frames: list[ValidFrame], cases_per_family: int, seed: int) -> Iterator[Case]:
    """Yield up to `cases_per_family` cases of each family, spread over APIs and versions."""
    for family, breakages in FAMILIES.items():
        for number, breakage in enumerate(breakages):
            random = Random(f"{seed} {family} {number}")
            shuffled_frames = random.sample(valid_frames, len(valid_frames))
            case_count, used_versions = 0, set()
            maximum = max(cases_per_family // len(breakages), 1)
            for index, valid in enumerate(shuffled_frames):
                if case_count >= maximum:
                    break
                if (valid.name, valid.version) in used_versions:
                    continue
                if case := break_frame(valid, family, breakage, seed * 100_000 + index):
                    case_count += 1
                    used_versions.add((valid.name, valid.version))
                    yield case
