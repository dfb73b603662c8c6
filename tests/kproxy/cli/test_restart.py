"""The inspector's process dies while clients work: they notice nothing, and the trace says what is missing."""

import contextlib
import json
import os
import re
import signal
import socket
import threading
import time
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from kproxy.trace.encoding import parse_line
from kproxy.trace.reader import trace_files
from tests.kproxy.cli.test_relay import (
    ANSWER,
    ASKED,
    Broker,
    Proxy,
    are_whole,
    children,
    inspectors,
    running,
    state,
    traced,
    until,
)

FAILED = "the inspector failed: later traffic is missing"
RESTARTED = "the inspector was restarted"

#: Runs kproxy with an inspector that fails when the second piece of data arrives: not at a frame. {} is a divisor of
#: the times until it is restarted.
FAILING = """
import sys
from kproxy.cli import main
from kproxy.proxy.tap_messages import TapData
from kproxy.live.sink import InspectionSink
from kproxy.live import supervision
delay = supervision.RestartPolicy.delay
supervision.RestartPolicy.delay = lambda *args: (found := delay(*args)) and found / DIVISOR
seen, observe = [], InspectionSink.observe
def fail(self, message):
    if isinstance(message, TapData):
        seen.append(message)
    if len(seen) == 2:
        raise KeyError("no such thing")
    return observe(self, message)
InspectionSink.observe = fail
sys.exit(main(sys.argv[1:]))
"""
#: Runs kproxy with inspectors that are restarted sooner than it does.
SOON = """
import sys
from kproxy.cli import main
from kproxy.live import supervision
supervision.RestartPolicy.delay = lambda *args: 0.2
sys.exit(main(sys.argv[1:]))
"""


@pytest.fixture
def broker() -> Iterator[Broker]:
    broker = Broker()
    yield broker
    broker.stop()


def ask(client: socket.socket, times: int = 1) -> None:
    for _ in range(times):
        client.sendall(ASKED)
        received = b""
        while len(received) < len(ANSWER):
            chunk = client.recv(65536)
            assert chunk
            received += chunk
        assert received == ANSWER


def kill(proxy: Proxy) -> None:
    [inspector] = inspectors(proxy.process.pid)
    os.kill(inspector, signal.SIGKILL)


def wait_until_inspected(proxy: Proxy, directory: Path, *, connections: int) -> None:
    """Make connections, and wait until they are traced completely and the state is stored."""
    previous = count_closes(directory)
    for _ in range(connections):
        proxy.ask()
    until(lambda: count_closes(directory) >= previous + connections)
    time.sleep(0.05)


def count_closes(directory: Path) -> int:
    return [line["kind"] for line in traced(directory)].count("close")


def wait_until_restarted(proxy: Proxy, directory: Path, times: int = 1) -> None:
    until(lambda: len([line for line in traced(directory) if is_restart(line)]) == times)


def is_restart(line: dict[str, Any]) -> bool:
    return line["kind"] == "gap" and bool(re.match(f"{RESTARTED}: nothing was inspected for ", line["reason"]))


def accounted(lines: list[dict[str, Any]]) -> dict[tuple[str, str], tuple[int, int]]:
    """Bytes of each direction of each connection: those in frames, and those in gaps."""
    totals: dict[tuple[str, str], list[int]] = defaultdict(lambda: [0, 0])
    for line in lines:
        if line["kind"] in ("request", "response"):
            totals[line["connection_id"], line["kind"]][0] += line["size"]
        elif line["kind"] == "gap" and line["connection_id"]:
            totals[line["connection_id"], line["direction"]][1] += line["bytes"]
    return {key: (inspected, missing) for key, (inspected, missing) in totals.items()}


def test_clients_are_unaffected_and_the_gaps_add_up(tmp_path: Path, broker: Broker) -> None:
    trace = tmp_path / "kproxy-trace"
    with (
        running(tmp_path, "--upstream", f"127.0.0.1:{broker.port}", "-q") as proxy,
        proxy.connect() as busy,
        proxy.connect() as idle,
    ):
        ask(busy, 3)
        ask(idle)
        wait_until_inspected(proxy, trace, connections=1)
        kill(proxy)
        until(lambda: not inspectors(proxy.process.pid))
        ask(busy, 5)
        busy.sendall(ASKED[:7])
        proxy.ask()
        wait_until_restarted(proxy, trace)
        busy.sendall(ASKED[7:])
        assert busy.recv(65536) == ANSWER
        ask(busy)
        ask(idle, 2)
        busy.close()
        idle.close()
        wait_until_inspected(proxy, trace, connections=1)
        out, err = proxy.end()
        assert proxy.process.returncode == 4
    lines = traced(trace)
    assert are_whole(trace)
    assert {line["code"] for line in lines if line["kind"] == "finding"} == set()
    assert [line["findings"] for line in lines if line.get("findings")] == []
    request_size, response_size = len(ASKED), len(ANSWER)
    ends = {line["connection_id"]: line for line in lines if line["kind"] == "close"}
    byte_counts = accounted(lines)
    for (connection_id, direction), (inspected, missing) in byte_counts.items():
        assert inspected + missing == ends[connection_id][f"{direction}_bytes"]
    sizes = sorted((line["requests"], line["request_bytes"], line["responses"]) for line in ends.values())
    assert sizes == [(1, request_size, 1), (1, request_size, 1), (3, 3 * request_size, 3), (10, 10 * request_size, 10)]
    busy_id = next(id_ for id_, line in ends.items() if line["requests"] == 10)
    assert (byte_counts[busy_id, "request"], byte_counts[busy_id, "response"]) == (
        (4 * request_size, 6 * request_size), (5 * response_size, 5 * response_size)
    )  # fmt: skip
    [outage] = [line for line in lines if is_restart(line)]
    [unseen] = [line for line in lines if line["kind"] == "gap" and "came and went unseen" in line["reason"]]
    assert (unseen["bytes"], unseen["frames"]) == (request_size + response_size, 2)
    assert unseen["reason"] == f"{RESTARTED}: 1 connection came and went unseen"
    assert (outage["connection_id"], outage["bytes"]) == ("", 0)
    opened = [(line["connection_id"], line.get("midstream", False)) for line in lines if line["kind"] == "open"]
    assert opened.count((busy_id, False)) == opened.count((busy_id, True)) == 1
    assert "kproxy: the inspector stopped (killed by SIGKILL): traffic is still relayed; it restarts in 1 s\n" in err
    assert re.search(r"kproxy: the inspector runs again after 1\.\d s: \d+ bytes \(\d+ frames\) of \d connections", err)
    assert re.search(r"since \d\d:\d\d:\d\d UTC: the inspector was restarted once\n", err)
    assert "were not inspected" not in out


@pytest.mark.slow
@pytest.mark.parametrize("options", [(), ("--strict-trace",), ("--compress",)])
def test_inspector_restarts_after_repeated_kills_under_load(
    tmp_path: Path, broker: Broker, options: tuple[str, ...]
) -> None:
    trace = tmp_path / "kproxy-trace"
    upstream = f"127.0.0.1:{broker.port}"
    failed: list[BaseException] = []
    ended = threading.Event()

    def work(client: socket.socket, pause: float) -> None:
        try:
            while not ended.is_set():
                ask(client, 5)  # compares every byte
                time.sleep(pause)
        except BaseException as error:  # noqa: BLE001  # shown by the test
            failed.append(error)

    with running(tmp_path, "--upstream", upstream, "-q", *options, program=["-c", SOON]) as proxy:
        with contextlib.ExitStack() as stack:
            clients = [stack.enter_context(proxy.connect()) for _ in range(4)]
            threads = [threading.Thread(target=work, args=(client, 0.001)) for client in clients]
            for thread in threads:
                thread.start()
            for times in range(3):
                until(lambda: len(inspectors(proxy.process.pid)) == 1)
                time.sleep(0.2)  # some traffic is inspected
                if times < 2:
                    kill(proxy)
                    until(lambda: not inspectors(proxy.process.pid))
            ended.set()
            for thread in threads:
                thread.join()
        _, err = proxy.end()
        assert proxy.process.returncode == 4
    assert failed == []
    assert err.count("killed by SIGKILL") == 2
    assert err.count("the inspector runs again") == 2
    assert "Traceback" not in err
    lines = []
    for path in trace_files(trace):
        if path.suffix == ".zst":
            continue
        *whole, torn = path.read_bytes().split(b"\n")
        assert torn == b"" or path != max(trace_files(trace), key=lambda file: file.stat().st_mtime)
        for line in whole:
            parse_line(line)
            lines.append(json.loads(line))
    if options == ("--compress",):
        return
    ends = {line["connection_id"]: line for line in lines if line["kind"] == "close"}
    assert len(ends) == 4
    for (connection_id, direction), (inspected, missing) in accounted(lines).items():
        total = ends[connection_id][f"{direction}_bytes"]
        assert ends[connection_id]["requests"] == ends[connection_id]["responses"]
        # What was being written at the moment of a kill is in the trace, and may be counted as missing too.
        assert total <= inspected + missing <= total * 1.2, (connection_id, direction)


@pytest.mark.slow
@pytest.mark.parametrize("traceback", [False, True])
def test_inspector_that_fails_repeatedly_is_not_restarted(
    tmp_path: Path, broker: Broker, monkeypatch: pytest.MonkeyPatch, traceback: bool
) -> None:
    trace = tmp_path / "kproxy-trace"
    if traceback:
        monkeypatch.setenv("KPROXY_TRACEBACK", "1")
    program = ["-c", FAILING.replace("DIVISOR", "20")]
    with running(tmp_path, "--upstream", f"127.0.0.1:{broker.port}", "-q", program=program) as proxy:
        earlier: set[int] = set()  # inspectors: one may not have ended when its line is in the trace
        for times in range(1, 7):
            until(lambda: set(inspectors(proxy.process.pid)) - earlier)
            earlier.update(inspectors(proxy.process.pid))
            proxy.ask(2)
            until(lambda times=times: len([line for line in traced(trace) if line.get("reason") == FAILED]) == times)  # type: ignore[misc]
        until(lambda: all(state(child) == "Z" for child in children(proxy.process.pid)))
        proxy.ask(3)
        _, err = proxy.end()
        assert proxy.process.returncode == 4
    messages = [line for line in err.splitlines()[1:] if line.startswith("kproxy: ")]
    reason = (
        "kproxy: the inspector failed (KeyError: 'no such thing'); this is a bug in kproxy: set KPROXY_TRACEBACK=1 for "
        "a traceback"
    )
    assert messages.count(reason) == 6
    assert [float(found) for found in re.findall(r"it restarts in ([\d.]+) s", err)] == [0.05, 0.1, 0.2, 0.4, 0.8]
    assert messages[-1] == (
        "kproxy: the inspector stopped (it failed; it has failed 6 times within 60 s): traffic is still relayed, but "
        "no longer traced"
    )
    assert ("Traceback" in err) == traceback
    assert are_whole(trace)


@pytest.mark.slow
def test_proxy_ends_while_a_restart_is_pending(tmp_path: Path, broker: Broker) -> None:
    trace = tmp_path / "kproxy-trace"
    with running(tmp_path, "--upstream", f"127.0.0.1:{broker.port}", "-q") as proxy, proxy.connect() as client:
        ask(client)
        wait_until_inspected(proxy, trace, connections=1)
        kill(proxy)
        until(lambda: not inspectors(proxy.process.pid))
        ask(client, 2)
        started_at = time.monotonic()
        _, err = proxy.end()
        assert time.monotonic() - started_at < 5
        assert proxy.process.returncode == 4
    gaps = [(line["direction"], line["bytes"], line.get("frames")) for line in traced(trace) if line["kind"] == "gap"]
    assert gaps == [("both", 0, None), ("request", 2 * len(ASKED), 2), ("response", 2 * len(ANSWER), 2)]
    assert traced(trace)[-1]["how"] == "shutdown"
    assert "runs again" in err
    assert are_whole(trace)


@pytest.mark.slow
def test_restarts_leak_neither_processes_nor_descriptors(tmp_path: Path, broker: Broker) -> None:
    trace = tmp_path / "kproxy-trace"
    with running(tmp_path, "--upstream", f"127.0.0.1:{broker.port}", "-q", program=["-c", SOON]) as proxy:
        wait_until_inspected(proxy, trace, connections=1)
        [spawner] = children(proxy.process.pid)
        initial = count_descriptors(proxy.process.pid), count_descriptors(spawner)
        for times in range(1, 4):
            kill(proxy)
            wait_until_restarted(proxy, trace, times)
        wait_until_inspected(proxy, trace, connections=1)
        assert children(proxy.process.pid) == [spawner]
        assert len(children(spawner)) == 1
        assert (count_descriptors(proxy.process.pid), count_descriptors(spawner)) == initial
        [inspector] = inspectors(proxy.process.pid)
        proxy.end()
    assert state(spawner) == state(inspector) == "Z"  # or gone


def count_descriptors(pid: int) -> int:
    return len(list(Path(f"/proc/{pid}/fd").iterdir()))


@pytest.mark.slow
def test_stopped_inspector_is_not_restarted(tmp_path: Path, broker: Broker) -> None:
    trace = tmp_path / "kproxy-trace"
    with running(tmp_path, "--upstream", f"127.0.0.1:{broker.port}", "-q") as proxy:
        wait_until_inspected(proxy, trace, connections=1)
        [inspector] = inspectors(proxy.process.pid)
        os.kill(inspector, signal.SIGSTOP)
        proxy.ask(3)
        time.sleep(1.5)
        assert inspectors(proxy.process.pid) == [inspector]
        os.kill(inspector, signal.SIGCONT)
        _, err = proxy.end()
        assert proxy.process.returncode == 0
    assert "the inspector" not in err
    assert len(traced(trace)) == 4 + 8


@pytest.mark.slow
def test_inspector_continues_without_its_spawner_but_is_not_restarted(tmp_path: Path, broker: Broker) -> None:
    trace = tmp_path / "kproxy-trace"
    with running(tmp_path, "--upstream", f"127.0.0.1:{broker.port}", "-q") as proxy:
        [spawner], [inspector] = children(proxy.process.pid), inspectors(proxy.process.pid)
        os.kill(spawner, signal.SIGKILL)
        proxy.wait_until_said("no other one can follow it")
        wait_until_inspected(proxy, trace, connections=1)
        os.kill(inspector, signal.SIGKILL)
        until(lambda: state(inspector) == "Z")
        proxy.ask(3)
        _, err = proxy.end()
        assert proxy.process.returncode == 4
    assert err.count("the inspector stopped") == 1
    assert "no longer traced" in err
    assert "Traceback" not in err


def test_sample_contains_complete_connections(tmp_path: Path, broker: Broker) -> None:
    with running(tmp_path, "--upstream", f"127.0.0.1:{broker.port}", "-q", "--sample", "30%") as proxy:
        for _ in range(60):
            proxy.ask(2)
        _, err = proxy.end()
        assert proxy.process.returncode == 0
    lines = traced(tmp_path / "kproxy-trace")
    opened = [line for line in lines if line["kind"] == "open"]
    assert 4 <= len(opened) <= 36
    assert {line["sample"] for line in opened} == {0.3}
    assert len([line for line in lines if line["kind"] in ("request", "response", "close")]) == 5 * len(opened)
    assert f"sample: 30% of all connections; {60 - len(opened)} connections were left out\n" in err
    assert "inspecting 30% of all connections (--sample); the others are relayed only\n" in err


@pytest.mark.parametrize("share", ["0", "1.5", "101%", "nan", "some"])
def test_invalid_share_is_one_sentence_and_status_2(kproxy: Any, share: str) -> None:
    done = kproxy("--listen", "0", "--upstream", "127.0.0.1:1", "--sample", share)
    assert done.returncode == 2
    assert done.stderr == (
        f"kproxy: --sample: invalid share of connections '{share}': use a number above 0 up to 1, or a percentage like "
        "10%\n"
    )


@pytest.mark.parametrize("given", ["0", "x", "65"])
def test_rejects_an_invalid_number_of_inspectors(kproxy: Any, given: str) -> None:
    done = kproxy("--listen", "0", "--upstream", "127.0.0.1:1", "--inspectors", given)
    assert done.returncode == 2
    assert done.stderr == f"kproxy: --inspectors: invalid number of processes '{given}': use 1 to 64\n"
