"""Real clients use a real Kafka through the proxy: no byte changes, and the trace is complete."""

from __future__ import annotations

import functools
import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from jsonschema import Draft202012Validator

from tests.peers import clients
from tests.peers.forwarder import Forwarder
from tests.peers.lab import Lab
from tests.peers.proxy import Chain
from tests.peers.trace import Line, all_findings, read_lines, traced_frames

pytestmark = pytest.mark.peers

SCHEMA = Path(__file__).parents[2] / "docs" / "trace-1.schema.json"


@dataclass(frozen=True)
class Run:
    """The report of one client, the recorded chain, and the trace."""

    report: dict[str, int]
    chain: Chain

    @functools.cached_property
    def lines(self) -> list[Line]:
        return read_lines(self.chain.proxy.trace)


@pytest.fixture(scope="module", params=clients.CLIENTS)
def run(request: pytest.FixtureRequest, lab: Lab, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Run]:
    client: str = request.param
    if reason := clients.missing(client):
        pytest.skip(reason)
    with lab.chain("PLAIN", tmp_path_factory.mktemp(client), "--payloads", "-q") as chain:
        report = clients.run(client, lab.kafka.release, chain.bootstrap, f"topic-{client}")
        chain.finish()
        yield Run(report, chain)


def test_client_consumes_all_records_that_it_produced(run: Run) -> None:
    assert run.report["produced"] > 0
    assert run.report["consumed"] == run.report["produced"]


def test_both_sides_of_the_proxy_have_the_same_bytes(run: Run) -> None:
    assert connection_hashes(run.chain.front)
    assert connection_hashes(run.chain.front) == connection_hashes(run.chain.back)


def connection_hashes(side: Forwarder) -> list[tuple[str, str]]:
    """Return hashes of each connection's directions, without kproxy's empty connections that check the broker."""
    return sorted(
        (connection.requests.sha256(), connection.responses.sha256())
        for connection in side.connections
        if connection.requests.data
    )


def test_trace_has_a_line_for_each_frame(run: Run) -> None:
    for connection, lines in run.chain.pairs():
        assert traced_frames(lines, "request") == connection.requests.frames()
        assert traced_frames(lines, "response") == connection.responses.frames()


def test_every_line_matches_the_published_schema(run: Run) -> None:
    validator = Draft202012Validator(json.loads(SCHEMA.read_text()))
    invalid = [line for line in run.lines if not validator.is_valid(line)]
    assert invalid == []


def test_every_response_has_a_latency(run: Run) -> None:
    responses = [line for line in run.lines if line["kind"] == "response"]
    assert responses
    assert [line for line in responses if not 0 <= line.get("latency_us", -1) < 60_000_000] == []


def test_every_body_is_decoded(run: Run) -> None:
    frames = [line for line in run.lines if line["kind"] in ("request", "response")]
    assert frames
    assert [line for line in frames if "not_decoded" in line or "body" not in line] == []


def test_healthy_traffic_has_no_warnings(run: Run) -> None:
    # S001: the broker advertises the port of the recorder in front of kproxy, which looks as if it bypassed kproxy.
    known_codes = ("S001",)
    assert [
        finding
        for finding in all_findings(run.lines)
        if finding["severity"] != "info" and finding["code"] not in known_codes
    ] == []


def test_trace_has_no_gaps(run: Run) -> None:
    assert [line for line in run.lines if line["kind"] == "gap"] == []
