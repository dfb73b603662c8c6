"""`--inspectors N`: the lines of one process, from several."""

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
from tests.kproxy.cli.test_relay import ANSWER, ASKED, Broker, Proxy, children, inspectors, running, traced, until
from tests.kproxy.cli.test_restart import accounted, ask

ROOT = Path(__file__).parents[3]


@pytest.fixture
def broker() -> Iterator[Broker]:
    broker = Broker()
    yield broker
    broker.stop()


def lines(directory: Path) -> list[str]:
    return [line for path in trace_files(directory) for line in path.read_text().splitlines()]


def test_three_write_the_lines_of_one_in_the_same_order(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "tests.kproxy.live.several_inspectors", tmp_path]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    one = lines(tmp_path / "1")
    assert len({match[1] for line in one if (match := re.search(r'"client":"(10\.0\.0\.\d+):', line))}) == 4
    assert any('"repeated":' in line for line in one)
    assert any('"findings":' in line for line in one)
    assert lines(tmp_path / "3") == one
    shown, again = re.split(r"\n(?=\d+ connections)", done.stderr)[1:]  # the summaries: rows with ties have no order
    assert sorted(again.rstrip().replace("/3", "/1").splitlines()) == sorted(shown.rstrip().splitlines())


def workers(proxy: Proxy) -> list[int]:
    [inspector] = inspectors(proxy.process.pid)
    return sorted(children(inspector))


def of(client: str, found: list[dict[str, Any]], kind: str) -> list[dict[str, Any]]:
    ids = {line["connection_id"] for line in found if line["kind"] == "open" and line["client"].startswith(client)}
    return [line for line in found if line["kind"] == kind and line["connection_id"] in ids]


def test_one_of_two_is_killed_and_the_other_continues(tmp_path: Path, broker: Broker) -> None:
    trace = tmp_path / "kproxy-trace"
    with (
        running(tmp_path, "--upstream", f"127.0.0.1:{broker.port}", "-q", "--inspectors", 2) as proxy,
        proxy.connect(source="127.0.0.1") as killed,
        proxy.connect(source="127.0.0.2") as other,
    ):
        ask(killed, 2)
        until(lambda: len(of("127.0.0.1:", traced(trace), "response")) == 2)
        ask(other)
        until(lambda: len(of("127.0.0.2:", traced(trace), "response")) == 1)
        [first, second] = workers(proxy)
        os.kill(first, signal.SIGSTOP)
        ask(killed, 3)
        os.kill(first, signal.SIGKILL)
        proxy.wait_until_said("one of 2 inspectors stopped (killed by SIGKILL) and was restarted: ")
        ask(killed, 2)
        ask(other, 2)
        until(lambda: len(of("127.0.0.2:", traced(trace), "response")) == 3)
        assert second in workers(proxy)
        proxy.end()
        assert proxy.process.returncode == 4
    found = traced(trace)
    assert [line.get("midstream", False) for line in of("127.0.0.1:", found, "open")] == [False, True]
    assert len(of("127.0.0.2:", found, "open")) == 1
    assert not of("127.0.0.2:", found, "gap")
    [ended] = of("127.0.0.1:", found, "close")
    sums = {way: sum(both) for (number, way), both in accounted(found).items() if number == ended["connection_id"]}
    assert sums == {"request": 7 * len(ASKED), "response": 7 * len(ANSWER)}
    assert (ended["request_bytes"], ended["response_bytes"]) == (7 * len(ASKED), 7 * len(ANSWER))
