"""Valid traffic, namely real captures and frames written by Kafka, has no findings of severity warning or above.

Where a real client or broker misbehaves in a capture, the finding is listed here with the reason.
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

#: (capture, code) -> why the finding is correct.
CORRECT_FINDINGS = {
    ("confluent-3.9.1", "L010"): "librdkafka 2.16 writes an empty topic list as an int32 (captures/README.md)",
    ("confluent-4.3.1", "L010"): "the same",
    ("sasl-scram256-confluent-4.3.1", "L010"): "the same",
    ("sasl-scram512-wrongpass-kafka-python-4.3.1", "X008"): "a wrong password, which the client tries seven times",
}


def is_incompatible(row: dict[str, Any]) -> bool:
    """Return whether a row belongs to an early-access API of 3.9.1 that later changed without a new version number."""
    return row["release"] == "3.9.1" and row["api"] == "ReadShareGroupStateSummaryResponse"


@pytest.mark.parametrize(
    "path", sorted([*(DATA / "pcap").glob("*.pcap.gz"), *(DATA / "bugs").glob("none--*")]), ids=lambda path: path.name
)
def test_real_captures_have_no_findings(path: Path) -> None:
    name = path.name.removesuffix(".pcap.gz")
    reported = [
        f"{finding.code} {finding.message}"
        for _, finding in findings_of(path)
        if finding.severity != "info" and (name, finding.code) not in CORRECT_FINDINGS
    ]
    assert reported == []


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "step"),
    [
        ("corpus-tame", 12),
        ("corpus-seed1", 15),
        pytest.param("corpus-tame", 1, marks=pytest.mark.wide),
        pytest.param("corpus-seed1", 1, marks=pytest.mark.wide),
    ],
)
def test_frames_written_by_kafka_have_no_findings(name: str, step: int) -> None:
    reported: Counter[str] = Counter()
    with gzip.open(DATA / f"{name}.jsonl.gz", "rt") as rows:
        for row in map(json.loads, islice(rows, 0, None, step)):
            if row["type"] in ("request", "response") and not is_incompatible(row):
                reported.update(
                    f"{finding.code} {row['api']}" for finding in findings_of_frame(row) if is_reported(finding)
                )
    for throttle_row in [row for row in reported if row.startswith("S036 ")]:
        del reported[throttle_row]  # throttle times in the corpora are random numbers, mostly several days
    assert not reported


def is_reported(finding: Finding) -> bool:
    """Return whether a finding in a valid frame counts; family E does not, as error codes in the corpora are random."""
    return finding.severity != "info" and finding.code[0] != "E"


def findings_of_frame(row: dict[str, Any]) -> list[Finding]:
    """Return the rules' findings in a single frame, as `kproxy explain` does."""
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
