"""Right traffic is silent: no finding of severity warning or above on real captures and on Kafka's own frames.

Where a real client or broker misbehaves in a capture, the finding stands here with why it is right.
"""

from __future__ import annotations

import gzip
import json
from collections import Counter
from itertools import islice
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from dissectors import rules
from dissectors.connections.events import RequestReceived, ResponseReceived
from dissectors.findings import Finding
from dissectors.messages.message import read_request, read_response
from dissectors.trackers.state import ConnectionState, RunState
from tests.kproxy.capture_results import DATA, findings_of

#: (capture, code) -> why that finding is right.
RIGHT = {
    ("confluent-3.9.1", "L010"): "librdkafka 2.16 writes an empty topic list as an int32 (captures/README.md)",
    ("confluent-4.3.1", "L010"): "the same",
    ("sasl-scram256-confluent-4.3.1", "L010"): "the same",
    ("sasl-scram512-wrongpass-kafka-python-4.3.1", "X008"): "a wrong password, which the client tries seven times",
}


def is_incompatible(row: dict[str, Any]) -> bool:
    """Early access in 3.9.1 that a later release changed under the same version number."""
    return row["release"] == "3.9.1" and row["api"] == "ReadShareGroupStateSummaryResponse"


@pytest.mark.parametrize(
    "path", sorted([*(DATA / "pcap").glob("*.pcap.gz"), *(DATA / "bugs").glob("none--*")]), ids=lambda path: path.name
)
def test_real_captures_are_silent(path: Path) -> None:
    name = path.name.removesuffix(".pcap.gz")
    loud = [
        f"{finding.code} {finding.message}"
        for _, finding in findings_of(path)
        if finding.severity != "info" and (name, finding.code) not in RIGHT
    ]
    assert loud == []


@pytest.mark.parametrize(
    ("name", "step"),
    [
        ("corpus-tame", 3),
        ("corpus-seed1", 15),
        pytest.param("corpus-tame", 1, marks=pytest.mark.wide),
        pytest.param("corpus-seed1", 1, marks=pytest.mark.wide),
    ],
)
def test_frames_that_kafka_wrote_are_silent(name: str, step: int) -> None:
    loud: Counter[str] = Counter()
    with gzip.open(DATA / f"{name}.jsonl.gz", "rt") as rows:
        for row in map(json.loads, islice(rows, 0, None, step)):
            if row["type"] in ("request", "response") and not is_incompatible(row):
                loud.update(f"{finding.code} {row['api']}" for finding in findings(row) if is_loud(finding))
    for throttled in [row for row in loud if row.startswith("S036 ")]:
        del loud[throttled]  # throttle times are random numbers here, most of them days
    assert not loud


def is_loud(finding: Finding) -> bool:
    """Whether a finding in a right frame is wrong. The corpora have any error code, which family E reports."""
    return finding.severity != "info" and finding.code[0] != "E"


def findings(row: dict[str, Any]) -> list[Finding]:
    """What the rules say of a lone frame, as `kproxy explain` has them."""
    event, connection_state = (
        lone_event(bytes.fromhex(row["frame_hex"]), row),
        ConnectionState(RunState(rules.trackers())),
    )
    connection_state.observe(event)
    return rules.check(event, connection_state)


def lone_event(frame: bytes, row: dict[str, Any]) -> RequestReceived | ResponseReceived:
    if row["type"] == "request":
        return RequestReceived(0, 0, len(frame) - 4, read_request(frame))
    message = read_response(frame, row["api_key"], row["version"])
    unseen = replace(read_request(b""), api=message.api, api_key=message.api_key, version=message.version)
    return ResponseReceived(0, 0, len(frame) - 4, message.correlation_id, message, RequestReceived(0, 0, 0, unseen))
