"""`--inspectors N`: several processes write the same lines as one."""

import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from kproxy.trace.reader import trace_files
from tests.kproxy.cli.test_relay import ANSWER, REQUEST, Broker, Proxy, children, inspectors, read_trace, running, until
from tests.kproxy.cli.test_restart import count_bytes, send_requests

ROOT = Path(__file__).parents[3]


@pytest.fixture
def broker() -> Iterator[Broker]:
    broker = Broker()
    yield broker
    broker.stop()


def trace_file_lines(directory: Path) -> list[str]:
    return [line for path in trace_files(directory) for line in path.read_text().splitlines()]


def test_three_inspectors_write_the_same_lines_as_one_in_order(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "tests.kproxy.live.several_inspectors", tmp_path]
    process = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert process.returncode == 0, process.stderr
    expected = trace_file_lines(tmp_path / "1")
    assert len({match[1] for line in expected if (match := re.search(r'"client":"(10\.0\.0\.\d+):', line))}) == 4
    assert any('"repeated":' in line for line in expected)
    assert any('"findings":' in line for line in expected)
    assert trace_file_lines(tmp_path / "3") == expected
    first_summary, second_summary = re.split(r"\n(?=\d+ connections)", process.stderr)[
        1:
    ]  # the summaries; the order of tied rows is arbitrary
    assert sorted(second_summary.rstrip().replace("/3", "/1").splitlines()) == sorted(
        first_summary.rstrip().splitlines()
    )


def worker_pids(proxy: Proxy) -> list[int]:
    [inspector] = inspectors(proxy.process.pid)
    return sorted(children(inspector))


def lines_of_client(client: str, lines: list[dict[str, Any]], kind: str) -> list[dict[str, Any]]:
    ids = {line["connection_id"] for line in lines if line["kind"] == "open" and line["client"].startswith(client)}
    return [line for line in lines if line["kind"] == kind and line["connection_id"] in ids]


@pytest.mark.slow
def test_other_worker_continues_when_one_is_killed(tmp_path: Path, broker: Broker) -> None:
    trace = tmp_path / "kproxy-trace"
    with (
        running(tmp_path, "--upstream", f"127.0.0.1:{broker.port}", "-q", "--inspectors", 2) as proxy,
        proxy.connect(source="127.0.0.1") as first_client,
        proxy.connect(source="127.0.0.2") as second_client,
    ):
        send_requests(first_client, 2)
        until(lambda: len(lines_of_client("127.0.0.1:", read_trace(trace), "response")) == 2)
        send_requests(second_client)
        until(lambda: len(lines_of_client("127.0.0.2:", read_trace(trace), "response")) == 1)
        [killed_worker, other_worker] = worker_pids(proxy)
        os.kill(killed_worker, signal.SIGSTOP)
        send_requests(first_client, 3)
        os.kill(killed_worker, signal.SIGKILL)
        proxy.wait_for_message("one of 2 inspectors stopped (killed by SIGKILL) and was restarted: ")
        send_requests(first_client, 2)
        send_requests(second_client, 2)
        until(lambda: len(lines_of_client("127.0.0.2:", read_trace(trace), "response")) == 3)
        assert other_worker in worker_pids(proxy)
        proxy.end()
        assert proxy.process.returncode == 4
    lines = read_trace(trace)
    assert [line.get("midstream", False) for line in lines_of_client("127.0.0.1:", lines, "open")] == [False, True]
    assert len(lines_of_client("127.0.0.2:", lines, "open")) == 1
    assert not lines_of_client("127.0.0.2:", lines, "gap")
    [close_line] = lines_of_client("127.0.0.1:", lines, "close")
    bytes_by_direction = {
        direction: sum(sizes)
        for (connection_id, direction), sizes in count_bytes(lines).items()
        if connection_id == close_line["connection_id"]
    }
    assert bytes_by_direction == {"request": 7 * len(REQUEST), "response": 7 * len(ANSWER)}
    assert (close_line["request_bytes"], close_line["response_bytes"]) == (7 * len(REQUEST), 7 * len(ANSWER))
