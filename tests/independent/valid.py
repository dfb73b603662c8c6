"""Find false alarms in valid frames: all rows of Kafka's classes, including extreme values, and all captures."""

from __future__ import annotations

import gzip
import json
from base64 import b64decode
from collections.abc import Iterator
from pathlib import Path

from dissectors.diagnosis import KnownDeviations, examine
from dissectors.messages.message import Message, read_request, read_response
from kproxy.trace.lines import Detail, RequestLine, ResponseLine
from tests.kproxy.capture_results import DATA, lines_of

#: Messages that 3.9.1 wrote in a layout that 4.4.0 changed without a new version.
_CHANGED = ("ReadShareGroupStateSummaryResponse",)


def kafka_messages() -> Iterator[Message]:
    for file in ("corpus-tame", "corpus-seed1"):
        with gzip.open(DATA / f"{file}.jsonl.gz", "rt", encoding="utf-8") as lines:
            for row in map(json.loads, lines):
                if "frame_hex" in row and not (row["api"] in _CHANGED and row["release"] == "3.9.1"):
                    frame = bytes.fromhex(row["frame_hex"])
                    if row["type"] == "request":
                        yield read_request(frame)
                    else:
                        yield read_response(frame, row["api_key"], row["version"])


def captured_messages(paths: list[Path] | None = None) -> Iterator[Message]:
    """Yield the well-formed frames from captures of real clients."""
    for path in paths or sorted((DATA / "pcap").glob("*.pcap.gz")):
        for line in lines_of(path, detail=Detail.RAW):
            if isinstance(line, RequestLine | ResponseLine) and line.frame and line.api_key is not None:
                frame = b64decode(line.frame)
                version = line.api_version or 0
                message = (
                    read_request(frame)
                    if isinstance(line, RequestLine)
                    else read_response(frame, line.api_key, version)
                )
                if message.well_formed:
                    yield message


def false_alarms(messages: Iterator[Message]) -> tuple[int, int, list[str]]:
    """Return the number of frames, the number of frames with an unusual value, and all diagnoses."""
    count = unusual = 0
    alarms = []
    for message in messages:
        count += 1
        unusual += message.unusual
        diagnosis = examine(message, None, KnownDeviations(), "").diagnosis
        if diagnosis is not None:
            alarms.append(
                f"{message.api} v{message.version} {message.frame.hex()[:400]}: {diagnosis.confidence} {diagnosis.edit}"
            )
    return count, unusual, alarms


if __name__ == "__main__":
    for source in (captured_messages, kafka_messages):
        count, unusual, alarms = false_alarms(source())
        print(source.__name__, count, unusual, len(alarms), *alarms[:30], sep="\n")  # noqa: T201
