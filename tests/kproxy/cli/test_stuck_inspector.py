"""A stopped or busy inspector is reported, and it never delays the shutdown of the proxy."""

import contextlib
import itertools
import json
import os
import re
import signal
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.kproxy.cli.test_relay import (
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

#: Runs kproxy with an inspector that never finishes a request with a body; kproxy notices this quickly.
BUSY = """
import sys
from pathlib import Path
from dissectors.connections.events import RequestReceived
from dissectors.trackers.state import ConnectionState
from kproxy.cli import main
from kproxy.live import inspector_watch
inspector_watch.STUCK_AFTER_S = 2.0
observe = ConnectionState.observe
def spin(self, event):
    if type(event) is RequestReceived:
        Path("busy").touch()
        while True:
            pass
    return observe(self, event)
ConnectionState.observe = spin
sys.exit(main(sys.argv[1:]))
"""
#: Runs a kproxy that notices quickly that its inspector is stopped.
PLAIN = """
import sys
from kproxy.cli import main
from kproxy.live import inspector_watch
inspector_watch.STUCK_AFTER_S = 2.0
sys.exit(main(sys.argv[1:]))
"""
#: Runs a kproxy whose inspector needs 0.1 s for each message with data.
SLOW = """
import sys, time
from kproxy.cli import main
from kproxy.live.message_inspection import MessageInspection
from kproxy.proxy.tap_messages import TapData
lines = MessageInspection.lines
def wait(self, message):
    time.sleep(0.1 * isinstance(message, TapData))
    return lines(self, message)
MessageInspection.lines = wait
sys.exit(main(sys.argv[1:]))
"""
NOT_RESPONDING = "the inspector has not responded for "


@pytest.fixture
def broker() -> Iterator[Broker]:
    broker = Broker()
    yield broker
    broker.stop()


@contextlib.contextmanager
def start_proxy(
    tmp_path: Path, broker: Broker, *args: str, program: str, end_timeout: float = 3
) -> Iterator[tuple[Proxy, list[int]]]:
    """Run a proxy; yield it and all its other processes, and check that none of them is left at the end."""
    with running(
        tmp_path, "--upstream", f"127.0.0.1:{broker.port}", "--end-timeout", end_timeout, *args, program=("-c", program)
    ) as proxy:
        inspector_count = int(args[args.index("--inspectors") + 1]) if "--inspectors" in args else 1
        if program == PLAIN:
            proxy.send_requests()
            until(lambda: is_written(tmp_path / "kproxy-trace"))  # so that the inspector knows the connection
        until(lambda: len(descendants(proxy.process.pid)) == (2 if inspector_count == 1 else 2 + inspector_count))
        processes = descendants(proxy.process.pid)
        try:
            yield proxy, processes
            until(lambda: all(state(process) == "Z" for process in processes))
        finally:
            for process in processes:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(process, signal.SIGKILL)


def descendants(pid: int) -> list[int]:
    return [descendant for child in children(pid) for descendant in (child, *descendants(child))]


def keep_busy(proxy: Proxy) -> None:
    """Send a request through the relay, and wait until the inspector is busy with it."""
    proxy.send_requests()
    until(lambda: Path(f"/proc/{proxy.process.pid}/cwd/busy").exists())


def is_written(trace: Path) -> bool:
    return any(path.is_file() and path.stat().st_size for path in trace.rglob("*"))


def stop_inspector(proxy: Proxy) -> None:
    """Stop the inspector, then send a request."""
    [inspector] = inspectors(proxy.process.pid)
    os.kill(inspector, signal.SIGSTOP)
    proxy.send_requests()


def stop_workers(proxy: Proxy) -> None:
    [inspector] = inspectors(proxy.process.pid)
    for worker in children(inspector):
        os.kill(worker, signal.SIGSTOP)
    proxy.send_requests()


STUCK = [
    pytest.param(BUSY, keep_busy, (), id="busy"),
    pytest.param(PLAIN, stop_inspector, (), id="stopped"),
    pytest.param(BUSY, keep_busy, ("--inspectors", "2"), id="busy-worker"),
    pytest.param(PLAIN, stop_inspector, ("--inspectors", "2"), id="stopped-of-two"),
    pytest.param(PLAIN, stop_workers, ("--inspectors", "2"), id="stopped-workers"),
]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("program", "block_inspector", "args", "signal_number"),
    [
        pytest.param(*case.values, signal_number, id=f"{case.id}-{signal_number.name}", marks=case.marks)
        for case, signal_number in zip(STUCK, itertools.cycle((signal.SIGTERM, signal.SIGINT)), strict=False)
    ],
)
def test_shutdown_does_not_wait_and_the_trace_reports_the_gap(
    tmp_path: Path,
    broker: Broker,
    program: str,
    block_inspector: Callable[[Proxy], None],
    args: tuple[str, ...],
    signal_number: int,
) -> None:
    with start_proxy(tmp_path, broker, *args, program=program) as (proxy, _):
        block_inspector(proxy)
        started_at = time.monotonic()
        _, err = proxy.end(signal_number)
        assert time.monotonic() - started_at < 5
        assert proxy.process.returncode == 4
    assert re.search(
        r"the inspector did not finish in time: \d+ bytes \(\d+ frames\) of \d+ connections? were not "
        r"inspected; the trace in kproxy-trace has gap lines about them",
        err,
    ), err
    assert "Traceback" not in err
    directory = tmp_path / "kproxy-trace"
    assert are_complete(directory), sorted(directory.rglob("*"))
    lines = read_trace(directory)
    gaps = [line for line in lines if line["kind"] == "gap"]
    assert sum(int(str(line["bytes"])) for line in gaps if line["connection_id"]) >= len(REQUEST), gaps
    assert lines[-1]["kind"] == "close"


@pytest.mark.slow
def test_slow_inspector_shows_its_summary_and_leaves_the_rest(tmp_path: Path, broker: Broker) -> None:
    with start_proxy(tmp_path, broker, "-q", program=SLOW, end_timeout=6) as (proxy, _):
        for _ in range(60):
            proxy.send_requests()
        _, err = proxy.end(signal.SIGINT)
    assert proxy.process.returncode == 4
    [uninspected_bytes] = re.findall(r"the inspector did not finish in time: (\d+) bytes", err)
    [(connections, frames)] = re.findall(r"(\d+) connections, (\d+) frames", err)
    assert 0 < int(connections) < 60
    assert 0 < int(frames) < 120
    assert "restarted" not in err
    lines = read_trace(tmp_path / "kproxy-trace")
    missing_bytes = sum(int(str(line["bytes"])) for line in lines if line["kind"] == "gap")
    assert missing_bytes == int(uninspected_bytes) > 0
    assert sum(line["kind"] in ("request", "response") for line in lines) == int(frames)


@pytest.mark.slow
@pytest.mark.parametrize(("program", "block_inspector", "args"), STUCK[:3])
def test_no_process_survives_a_killed_proxy(
    tmp_path: Path, broker: Broker, program: str, block_inspector: Callable[[Proxy], None], args: tuple[str, ...]
) -> None:
    with start_proxy(tmp_path, broker, *args, program=program, end_timeout=1) as (proxy, _):
        block_inspector(proxy)
        proxy.process.kill()
        proxy.process.wait()
    lines = read_trace(tmp_path / "kproxy-trace")
    reason = "the inspector had not finished 1 s after the relay had ended, and was killed"
    assert [line["reason"] for line in lines if line["kind"] == "gap"] == [reason]
    assert are_complete(tmp_path / "kproxy-trace")


@pytest.mark.slow
def test_busy_worker_ends_with_its_inspector(tmp_path: Path, broker: Broker) -> None:
    with start_proxy(tmp_path, broker, "--inspectors", "2", program=BUSY) as (proxy, _):
        [inspector] = inspectors(proxy.process.pid)
        workers = children(inspector)
        keep_busy(proxy)
        os.kill(inspector, signal.SIGKILL)
        until(lambda: all(state(worker) == "Z" for worker in workers))
        proxy.end()


@pytest.mark.slow
def test_second_signal_ends_the_proxy_immediately(tmp_path: Path, broker: Broker) -> None:
    with start_proxy(tmp_path, broker, program=PLAIN, end_timeout=60) as (proxy, _):
        stop_inspector(proxy)
        proxy.process.send_signal(signal.SIGTERM)
        until(lambda: not is_listening(proxy.port))
        started_at = time.monotonic()
        proxy.end(signal.SIGTERM)
        assert proxy.process.returncode == 4
        assert time.monotonic() - started_at < 8


def is_listening(port: int) -> bool:
    try:
        socket.create_connection(("127.0.0.1", port), timeout=10).close()
    except ConnectionError:
        return False
    return True


@pytest.mark.slow
@pytest.mark.parametrize("spawner_signal", [signal.SIGSTOP, signal.SIGKILL])
def test_no_process_survives_if_the_spawner_is_also_stopped_or_killed(
    tmp_path: Path, broker: Broker, spawner_signal: int
) -> None:
    with start_proxy(tmp_path, broker, program=PLAIN) as (proxy, processes):
        stop_inspector(proxy)
        os.kill(processes[0], spawner_signal)
        until(lambda: state(processes[0]) in "TZ")
        _, err = proxy.end()
        assert proxy.process.returncode == 4
        assert "the inspector" in err


@pytest.mark.slow
def test_stopped_spawner_ends_after_the_relay_is_killed(tmp_path: Path, broker: Broker) -> None:
    with start_proxy(tmp_path, broker, program=PLAIN, end_timeout=1) as (proxy, processes):
        stop_inspector(proxy)
        os.kill(processes[0], signal.SIGSTOP)
        until(lambda: state(processes[0]) == "T")
        proxy.process.kill()


@pytest.mark.slow
@pytest.mark.parametrize(("program", "block_inspector", "args"), STUCK[1:3])
def test_reports_where_the_inspector_is_stuck_and_when_it_continues(
    tmp_path: Path, broker: Broker, program: str, block_inspector: Callable[[Proxy], None], args: tuple[str, ...]
) -> None:
    with start_proxy(tmp_path, broker, *args, "--http", "127.0.0.1:0", program=program, end_timeout=1) as (proxy, _):
        proxy.wait_for_message("health and metrics on ")
        url = re.findall(r"http://\S+", "".join(proxy.printed))[-1]
        assert get_json(f"{url}/healthz")["inspector"] == "running"
        block_inspector(proxy)
        proxy.wait_for_message(NOT_RESPONDING)
        if program == BUSY:
            assert re.search(r"at a frame of [A-Z]\w+ of connection 1[ :]", proxy.printed[-1]), proxy.printed
        health = get_json(f"{url}/healthz")
        assert (health["status"], health["inspector"]) == ("ok", "not responding")
        assert health["inspector_lag_s"] >= 0.9
        metrics = get_text(f"{url}/metrics")
        assert float(re.findall(r"^kproxy_inspector_lag_seconds (\S+)", metrics, re.M)[0]) >= 0.9
        assert "kproxy_inspector_up 0.0" in metrics
        if program == PLAIN:
            for descendant in descendants(proxy.process.pid):
                os.kill(descendant, signal.SIGCONT)
            proxy.wait_for_message("the inspector responds again after ")
            assert get_json(f"{url}/healthz")["inspector"] == "running"
            # The lag is 0 once the inspector has inspected the pending data.
            until(lambda: get_json(f"{url}/healthz")["inspector_lag_s"] == 0.0)
            proxy.end()
            assert proxy.process.returncode == 0
        else:
            proxy.end()


def get_json(url: str) -> dict[str, object]:
    return json.loads(get_text(url))  # type: ignore[no-any-return]


def get_text(url: str) -> str:
    with urllib.request.urlopen(url, timeout=10) as response:
        return response.read().decode()  # type: ignore[no-any-return]


@pytest.mark.slow
def test_reports_a_stopped_inspector_without_traffic_but_not_an_idle_one(tmp_path: Path, broker: Broker) -> None:
    with start_proxy(tmp_path, broker, program=PLAIN) as (proxy, _):
        time.sleep(2.5)  # wait for a report that must not come
        [inspector] = inspectors(proxy.process.pid)
        os.kill(inspector, signal.SIGSTOP)
        proxy.wait_for_message(NOT_RESPONDING)
        assert sum(NOT_RESPONDING in line for line in proxy.printed) == 1
        os.kill(inspector, signal.SIGCONT)
        proxy.wait_for_message("responds again")
        _, err = proxy.end()
        assert (proxy.process.returncode, err.count(NOT_RESPONDING)) == (0, 1)


@pytest.mark.slow
@pytest.mark.parametrize("value", ["0", "nan"])
def test_rejects_an_invalid_end_timeout(tmp_path: Path, value: str) -> None:
    result = subprocess.run(
        [sys.executable, "-m", "kproxy", "--listen", "0", "--upstream", "--end-timeout", value],
        cwd=tmp_path, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert (result.returncode, "--end-timeout" in result.stderr) == (2, True), result.stderr
