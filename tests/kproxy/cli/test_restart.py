"""The inspector process dies while clients are connected: they notice nothing; the trace reports what is missing."""

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
    REQUEST,
    Broker,
    Proxy,
    are_complete,
    children,
    inspectors,
    read_trace,
    running,
    state,
    until,
)

FAILED = "the inspector failed: later traffic is missing"
RESTARTED = "the inspector was restarted"

#: Runs kproxy with an inspector that fails when the second piece of data arrives, not while it inspects a frame.
#: The delays before its restarts are divided by DIVISOR.
FAILING = """
import sys
from kproxy.cli import main
from kproxy.proxy.tap_messages import TapData
from kproxy.live.sink import InspectionSink
from kproxy.live import supervision
original_delay = supervision.RestartPolicy.record_failure
supervision.RestartPolicy.record_failure = lambda *args: (delay := original_delay(*args)) and delay / DIVISOR
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
#: Runs kproxy with inspectors that are restarted sooner than usual.
FAST_RESTART = """
import sys
from kproxy.cli import main
from kproxy.live import supervision
supervision.RestartPolicy.record_failure = lambda *args: 0.2
sys.exit(main(sys.argv[1:]))
"""


@pytest.fixture
def broker() -> Iterator[Broker]:
    broker = Broker()
    yield broker
    broker.stop()


def send_requests(client: socket.socket, request_count: int = 1) -> None:
    for _ in range(request_count):
        client.sendall(REQUEST)
        received = b""
        while len(received) < len(ANSWER):
            chunk = client.recv(65536)
            assert chunk
            received += chunk
        assert received == ANSWER


def kill_inspector(proxy: Proxy) -> None:
    [inspector] = inspectors(proxy.process.pid)
    os.kill(inspector, signal.SIGKILL)


def wait_until_inspected(proxy: Proxy, directory: Path, *, connections: int) -> None:
    """Make connections; wait until they are traced completely and the state is stored."""
    previous = count_closes(directory)
    for _ in range(connections):
        proxy.send_requests()
    until(lambda: count_closes(directory) >= previous + connections)
    time.sleep(0.05)


def count_closes(directory: Path) -> int:
    return [line["kind"] for line in read_trace(directory)].count("close")


def count_failures(directory: Path) -> int:
    return [line.get("reason") for line in read_trace(directory)].count(FAILED)


def wait_until_restarted(proxy: Proxy, directory: Path, restart_count: int = 1) -> None:
    until(lambda: len([line for line in read_trace(directory) if is_restart(line)]) == restart_count)


def is_restart(line: dict[str, Any]) -> bool:
    return line["kind"] == "gap" and bool(re.match(f"{RESTARTED}: nothing was inspected for ", line["reason"]))


def count_bytes(lines: list[dict[str, Any]]) -> dict[tuple[str, str], tuple[int, int]]:
    """Return the bytes in frames and the bytes in gaps, by connection and direction."""
    totals: dict[tuple[str, str], list[int]] = defaultdict(lambda: [0, 0])
    for line in lines:
        if line["kind"] in ("request", "response"):
            totals[line["connection_id"], line["kind"]][0] += line["size"]
        elif line["kind"] == "gap" and line["connection_id"]:
            totals[line["connection_id"], line["direction"]][1] += line["bytes"]
    return {key: (inspected, missing) for key, (inspected, missing) in totals.items()}


@pytest.mark.slow
def test_clients_are_unaffected_and_the_gaps_add_up(tmp_path: Path, broker: Broker) -> None:
    trace = tmp_path / "kproxy-trace"
    with (
        running(tmp_path, "--upstream", f"127.0.0.1:{broker.port}", "-q") as proxy,
        proxy.connect() as busy,
        proxy.connect() as idle,
    ):
        send_requests(busy, 3)
        send_requests(idle)
        wait_until_inspected(proxy, trace, connections=1)
        kill_inspector(proxy)
        until(lambda: not inspectors(proxy.process.pid))
        send_requests(busy, 5)
        busy.sendall(REQUEST[:7])
        proxy.send_requests()
        wait_until_restarted(proxy, trace)
        busy.sendall(REQUEST[7:])
        assert busy.recv(65536) == ANSWER
        send_requests(busy)
        send_requests(idle, 2)
        busy.close()
        idle.close()
        wait_until_inspected(proxy, trace, connections=1)
        out, err = proxy.end()
        assert proxy.process.returncode == 4
    lines = read_trace(trace)
    assert are_complete(trace)
    assert {line["code"] for line in lines if line["kind"] == "finding"} == set()
    assert [line["findings"] for line in lines if line.get("findings")] == []
    request_size, response_size = len(REQUEST), len(ANSWER)
    close_lines = {line["connection_id"]: line for line in lines if line["kind"] == "close"}
    byte_counts = count_bytes(lines)
    for (connection_id, direction), (inspected, missing) in byte_counts.items():
        assert inspected + missing == close_lines[connection_id][f"{direction}_bytes"]
    sizes = sorted((line["requests"], line["request_bytes"], line["responses"]) for line in close_lines.values())
    assert sizes == [(1, request_size, 1), (1, request_size, 1), (3, 3 * request_size, 3), (10, 10 * request_size, 10)]
    busy_id = next(id_ for id_, line in close_lines.items() if line["requests"] == 10)
    assert (byte_counts[busy_id, "request"], byte_counts[busy_id, "response"]) == (
        (4 * request_size, 6 * request_size), (5 * response_size, 5 * response_size)
    )  # fmt: skip
    [outage] = [line for line in lines if is_restart(line)]
    [unseen_gap] = [line for line in lines if line["kind"] == "gap" and "came and went unseen" in line["reason"]]
    assert (unseen_gap["bytes"], unseen_gap["frames"]) == (request_size + response_size, 2)
    assert unseen_gap["reason"] == f"{RESTARTED}: 1 connection came and went unseen"
    assert (outage["connection_id"], outage["bytes"]) == ("", 0)
    opened_connections = [
        (line["connection_id"], line.get("midstream", False)) for line in lines if line["kind"] == "open"
    ]
    assert opened_connections.count((busy_id, False)) == opened_connections.count((busy_id, True)) == 1
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
    errors: list[BaseException] = []
    is_over = threading.Event()

    def keep_sending(client: socket.socket, pause_s: float) -> None:
        try:
            while not is_over.is_set():
                send_requests(client, 5)  # compares every byte
                time.sleep(pause_s)
        except BaseException as error:  # noqa: BLE001  # shown by the test
            errors.append(error)

    with running(tmp_path, "--upstream", upstream, "-q", *options, program=["-c", FAST_RESTART]) as proxy:
        with contextlib.ExitStack() as stack:
            clients = [stack.enter_context(proxy.connect()) for _ in range(4)]
            threads = [threading.Thread(target=keep_sending, args=(client, 0.001)) for client in clients]
            for thread in threads:
                thread.start()
            for kill_count in range(3):
                until(lambda: len(inspectors(proxy.process.pid)) == 1)
                time.sleep(0.2)  # some traffic is inspected
                if kill_count < 2:
                    kill_inspector(proxy)
                    until(lambda: not inspectors(proxy.process.pid))
            is_over.set()
            for thread in threads:
                thread.join()
        _, err = proxy.end()
        assert proxy.process.returncode == 4
    assert errors == []
    assert err.count("killed by SIGKILL") == 2
    assert err.count("the inspector runs again") == 2
    assert "Traceback" not in err
    lines = []
    for path in trace_files(trace):
        if path.suffix == ".zst":
            continue
        *complete_lines, last_line = path.read_bytes().split(b"\n")
        assert last_line == b"" or path != max(trace_files(trace), key=lambda file: file.stat().st_mtime)
        for line in complete_lines:
            parse_line(line)
            lines.append(json.loads(line))
    if options == ("--compress",):
        return
    close_lines = {line["connection_id"]: line for line in lines if line["kind"] == "close"}
    assert len(close_lines) == 4
    for (connection_id, direction), (inspected, missing) in count_bytes(lines).items():
        total = close_lines[connection_id][f"{direction}_bytes"]
        assert close_lines[connection_id]["requests"] == close_lines[connection_id]["responses"]
        # Data that was being written at the moment of a kill is in the trace but may also be counted as missing.
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
        earlier_inspectors: set[int] = set()  # an inspector may still be running after its line is in the trace
        for failure_count in range(1, 7):
            until(lambda: set(inspectors(proxy.process.pid)) - earlier_inspectors)
            earlier_inspectors.update(inspectors(proxy.process.pid))
            proxy.send_requests(2)
            until(lambda failure_count=failure_count: count_failures(trace) == failure_count)  # type: ignore[misc]
        until(lambda: all(state(child) == "Z" for child in children(proxy.process.pid)))
        proxy.send_requests(3)
        _, err = proxy.end()
        assert proxy.process.returncode == 4
    messages = [line for line in err.splitlines()[1:] if line.startswith("kproxy: ")]
    reason = (
        "kproxy: the inspector failed (KeyError: 'no such thing'); this is a bug in kproxy: set KPROXY_TRACEBACK=1 for "
        "a traceback"
    )
    assert messages.count(reason) == 6
    assert [float(delay) for delay in re.findall(r"it restarts in ([\d.]+) s", err)] == [0.05, 0.1, 0.2, 0.4, 0.8]
    assert messages[-1] == (
        "kproxy: the inspector stopped (it failed; it has failed 6 times within 60 s): traffic is still relayed, but "
        "no longer traced"
    )
    assert ("Traceback" in err) == traceback
    assert are_complete(trace)


@pytest.mark.slow
def test_proxy_ends_while_a_restart_is_pending(tmp_path: Path, broker: Broker) -> None:
    trace = tmp_path / "kproxy-trace"
    with running(tmp_path, "--upstream", f"127.0.0.1:{broker.port}", "-q") as proxy, proxy.connect() as client:
        send_requests(client)
        wait_until_inspected(proxy, trace, connections=1)
        kill_inspector(proxy)
        until(lambda: not inspectors(proxy.process.pid))
        send_requests(client, 2)
        started_at = time.monotonic()
        _, err = proxy.end()
        assert time.monotonic() - started_at < 5
        assert proxy.process.returncode == 4
    gaps = [
        (line["direction"], line["bytes"], line.get("frames")) for line in read_trace(trace) if line["kind"] == "gap"
    ]
    assert gaps == [("both", 0, None), ("request", 2 * len(REQUEST), 2), ("response", 2 * len(ANSWER), 2)]
    assert read_trace(trace)[-1]["how"] == "shutdown"
    assert "runs again" in err
    assert are_complete(trace)


@pytest.mark.slow
def test_restarts_leak_neither_processes_nor_descriptors(tmp_path: Path, broker: Broker) -> None:
    trace = tmp_path / "kproxy-trace"
    with running(tmp_path, "--upstream", f"127.0.0.1:{broker.port}", "-q", program=["-c", FAST_RESTART]) as proxy:
        wait_until_inspected(proxy, trace, connections=1)
        [spawner] = children(proxy.process.pid)
        initial_counts = count_descriptors(proxy.process.pid), count_descriptors(spawner)
        for restart_count in range(1, 4):
            kill_inspector(proxy)
            wait_until_restarted(proxy, trace, restart_count)
        wait_until_inspected(proxy, trace, connections=1)
        assert children(proxy.process.pid) == [spawner]
        assert len(children(spawner)) == 1
        assert (count_descriptors(proxy.process.pid), count_descriptors(spawner)) == initial_counts
        [inspector] = inspectors(proxy.process.pid)
        proxy.end()
    assert state(spawner) == state(inspector) == "Z"  # a zombie, or gone


def count_descriptors(pid: int) -> int:
    return len(list(Path(f"/proc/{pid}/fd").iterdir()))


@pytest.mark.slow
def test_stopped_inspector_is_not_restarted(tmp_path: Path, broker: Broker) -> None:
    trace = tmp_path / "kproxy-trace"
    with running(tmp_path, "--upstream", f"127.0.0.1:{broker.port}", "-q") as proxy:
        wait_until_inspected(proxy, trace, connections=1)
        [inspector] = inspectors(proxy.process.pid)
        os.kill(inspector, signal.SIGSTOP)
        proxy.send_requests(3)
        time.sleep(1.5)
        assert inspectors(proxy.process.pid) == [inspector]
        os.kill(inspector, signal.SIGCONT)
        _, err = proxy.end()
        assert proxy.process.returncode == 0
    assert "the inspector" not in err
    assert len(read_trace(trace)) == 4 + 8


@pytest.mark.slow
def test_inspector_continues_without_its_spawner_but_is_not_restarted(tmp_path: Path, broker: Broker) -> None:
    trace = tmp_path / "kproxy-trace"
    with running(tmp_path, "--upstream", f"127.0.0.1:{broker.port}", "-q") as proxy:
        [spawner], [inspector] = children(proxy.process.pid), inspectors(proxy.process.pid)
        os.kill(spawner, signal.SIGKILL)
        proxy.wait_for_message("no other one can follow it")
        wait_until_inspected(proxy, trace, connections=1)
        os.kill(inspector, signal.SIGKILL)
        until(lambda: state(inspector) == "Z")
        proxy.send_requests(3)
        _, err = proxy.end()
        assert proxy.process.returncode == 4
    assert err.count("the inspector stopped") == 1
    assert "no longer traced" in err
    assert "Traceback" not in err


@pytest.mark.slow
def test_sample_contains_complete_connections(tmp_path: Path, broker: Broker) -> None:
    with running(tmp_path, "--upstream", f"127.0.0.1:{broker.port}", "-q", "--sample", "30%") as proxy:
        for _ in range(60):
            proxy.send_requests(2)
        _, err = proxy.end()
        assert proxy.process.returncode == 0
    lines = read_trace(tmp_path / "kproxy-trace")
    open_lines = [line for line in lines if line["kind"] == "open"]
    assert 4 <= len(open_lines) <= 36
    assert {line["sample"] for line in open_lines} == {0.3}
    assert len([line for line in lines if line["kind"] in ("request", "response", "close")]) == 5 * len(open_lines)
    assert f"sample: 30% of all connections; {60 - len(open_lines)} connections were left out\n" in err
    assert "inspecting 30% of all connections (--sample); the others are relayed only\n" in err


@pytest.mark.parametrize("share", ["0", "1.5", "101%", "nan", "some"])
def test_invalid_sample_share_prints_one_sentence_and_exits_with_2(kproxy: Any, share: str) -> None:
    result = kproxy("--listen", "0", "--upstream", "127.0.0.1:1", "--sample", share)
    assert result.returncode == 2
    assert result.stderr == (
        f"kproxy: --sample: invalid share of connections '{share}': use a number above 0 up to 1, or a percentage like "
        "10%\n"
    )


@pytest.mark.parametrize("count", ["0", "x", "65"])
def test_rejects_an_invalid_number_of_inspectors(kproxy: Any, count: str) -> None:
    result = kproxy("--listen", "0", "--upstream", "127.0.0.1:1", "--inspectors", count)
    assert result.returncode == 2
    assert result.stderr == f"kproxy: --inspectors: invalid number of processes '{count}': use 1 to 64\n"
