"""A trace that cannot be written or is deleted is reported in messages, metrics, /healthz, summary and exit status."""

from __future__ import annotations

import os
import resource
import shutil
import signal
from pathlib import Path
from typing import Any

import pytest

from tests.kproxy.cli.test_http import ServingProxy, serving
from tests.kproxy.cli.test_relay import Broker, Proxy, broker, inspectors, read_trace, until

pytestmark = pytest.mark.slow

__all__ = ["broker"]  # a fixture

UNLIMITED = resource.RLIM_INFINITY
#: Runs kproxy with less time between attempts to write the trace.
FAST_RETRY = """
import sys
from kproxy.cli import main
from kproxy.trace import writer
writer.RETRY_NS = 1
sys.exit(main(sys.argv[1:]))
"""


def limit_file_size(proxy: Proxy, size: int) -> None:
    """Limit the size of files that the trace writer can write, to simulate a full disk without root."""
    [writer] = inspectors(proxy.process.pid)
    resource.prlimit(writer, resource.RLIMIT_FSIZE, (size, UNLIMITED))


def trace_metrics(served: ServingProxy) -> dict[str, float]:
    names = ("kproxy_trace_writing", "kproxy_trace_lost_lines_total", "kproxy_gap_frames_total")
    return {name: value for (name, _), value in served.metrics().items() if name in names}


def trace_health(served: ServingProxy) -> tuple[int, Any, Any]:
    status, report = served.health()
    return status, report.get("trace"), report.get("trace_lost_lines")


def gaps(directory: Path) -> list[object]:
    return [line["frames"] for line in read_trace(directory) if line["kind"] == "gap"]


@pytest.mark.parametrize("options", [(), ("--strict-trace", "--inspectors", 2)], ids=["plain", "strict"])
def test_full_disk_is_reported_everywhere(tmp_path: Path, broker: Broker, options: tuple[object, ...]) -> None:
    with serving(tmp_path, broker.port, "--trace", "t", *options) as served:
        assert trace_health(served) == (200, "written", 0)
        limit_file_size(served.proxy, 0)
        served.proxy.send_requests(3)
        served.proxy.wait_for_message("trace stopped: t: File too large; traffic is still relayed")
        until(lambda: trace_health(served) == (200, "not written: File too large", 8))
        until(
            lambda: (
                trace_metrics(served)
                == {"kproxy_trace_writing": 0, "kproxy_trace_lost_lines_total": 8, "kproxy_gap_frames_total": 8}
            )
        )
        _, err = served.proxy.end()
    assert served.proxy.process.returncode == 4, err
    assert err.count("trace stopped") == 1
    assert "8 trace lines are missing" in err
    assert "there is no trace of this run in t" in err
    assert "trace: t" not in err
    assert not read_trace(tmp_path / "t")


def test_trace_resumes_once_the_disk_has_space_but_is_incomplete(tmp_path: Path, broker: Broker) -> None:
    with serving(tmp_path, broker.port, "--trace", "t", program=("-c", FAST_RETRY)) as served:
        limit_file_size(served.proxy, 0)
        served.proxy.send_requests()
        served.proxy.wait_for_message("trace stopped")
        until(lambda: trace_health(served)[2] == 4)
        limit_file_size(served.proxy, UNLIMITED)
        served.proxy.wait_for_message("the trace is being written again; 4 lines are missing")
        assert trace_health(served) == (200, "written", 4)
        assert gaps(tmp_path / "t") == [4]
        _, err = served.proxy.end()
    assert served.proxy.process.returncode == 4
    assert "4 trace lines are missing" in err
    assert "trace: t" in err


def test_removed_directory_is_recreated_and_reported(tmp_path: Path, broker: Broker) -> None:
    directory = tmp_path / "t"
    with serving(tmp_path, broker.port, "--trace", "t") as served:
        served.proxy.send_requests()
        until(lambda: len(read_trace(directory)) == 4)
        shutil.rmtree(directory)
        served.proxy.wait_for_message("was deleted: 4 lines are lost; the trace continues in t, in a new file")
        until(lambda: trace_metrics(served).get("kproxy_gap_frames_total") == 4)
        assert trace_metrics(served)["kproxy_trace_writing"] == 1
        assert trace_health(served) == (200, "written", 4)
        served.proxy.send_requests()
        _, err = served.proxy.end()
    assert served.proxy.process.returncode == 4
    assert (gaps(directory), len(read_trace(directory))) == ([4], 5)
    assert "4 trace lines are missing: the trace could not be written, or was deleted" in err
    assert "trace: t" in err


def test_inspector_restarts_without_its_directory(tmp_path: Path, broker: Broker) -> None:
    directory = tmp_path / "t"
    with serving(tmp_path, broker.port, "--trace", "t") as served:
        directory.rmdir()
        directory.write_text("")
        served.proxy.send_requests()
        until(lambda: trace_health(served)[1:] == ("not written: Not a directory", 4))
        os.kill(*inspectors(served.proxy.process.pid), signal.SIGKILL)
        served.proxy.wait_for_message("the inspector runs again")
        served.proxy.send_requests()
        until(lambda: trace_health(served)[1:] == ("not written: Not a directory", 9))  # including a gap line
        directory.unlink()
        _, err = served.proxy.end()
    assert served.proxy.process.returncode == 4
    assert "9 trace lines are missing" in err
    assert gaps(directory) == [9]


def test_moved_directory_loses_no_lines_and_summary_names_both_directories(tmp_path: Path, broker: Broker) -> None:
    with serving(tmp_path, broker.port, "--trace", "t") as served:
        served.proxy.send_requests()
        until(lambda: len(read_trace(tmp_path / "t")) == 4)
        (tmp_path / "t").rename(tmp_path / "moved")
        served.proxy.wait_for_message("the trace continues in t")
        served.proxy.send_requests()
        _, err = served.proxy.end()
    assert served.proxy.process.returncode == 0, err
    assert [len(read_trace(tmp_path / name)) for name in ("moved", "t")] == [4, 4]
    assert f"trace: {tmp_path}/moved/date=" in err


def test_no_trace_omits_trace_health_and_metrics(tmp_path: Path, broker: Broker) -> None:
    with serving(tmp_path, broker.port, "--no-trace") as served:
        served.proxy.send_requests()
        assert trace_health(served) == (200, None, None)
        assert not {name for name, _ in served.metrics() if name.startswith("kproxy_trace")}
