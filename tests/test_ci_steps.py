""".ci/steps: the order of its output, steps that fail, and processes that must not be left running."""

from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
pytestmark = pytest.mark.skipif(sys.platform != "linux", reason=".ci/run is for Linux")

#: A script that starts a process in another process group, as the relay and engines do, and prints its id.
DETACHED = """
import subprocess, sys
command = [sys.executable, "-c", "import time; time.sleep(600)"]
print(subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True).pid)
"""


def run_script(tmp_path: Path, *lines: str) -> subprocess.CompletedProcess[str]:
    script = tmp_path / "script"
    script.write_text("\n".join(["set -euo pipefail", f"source {ROOT / '.ci' / 'steps'}", *lines]))
    (tmp_path / "temporary").mkdir()
    return subprocess.run(
        ["bash", script],
        env={"PATH": f"{Path(sys.executable).parent}:/usr/bin:/bin", "TMPDIR": str(tmp_path / "temporary")},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


def test_steps_print_in_order_and_the_summary_counts_every_run(tmp_path: Path) -> None:
    result = run_script(
        tmp_path,
        "start slow bash -c 'sleep 0.5; echo output of slow; echo 1 failed, 2 passed in 0.50s'",
        "step quick echo '=== 3 passed, 1 skipped in 2.00s ==='",
        "join slow",
        "print_summary",
    )
    assert (result.returncode, result.stderr) == (0, "")
    lines = result.stdout.splitlines()
    assert lines[:5] == [
        "== quick",
        "=== 3 passed, 1 skipped in 2.00s ===",
        "== slow (ran beside other steps)",
        "output of slow",
        "1 failed, 2 passed in 0.50s",
    ]
    assert [line.split("s  ")[1] for line in lines[5:7]] == ["quick", "slow"]
    assert lines[7:] == ["5 passed, 1 failed, 1 skipped"]


def test_failed_background_step_stops_the_others_and_shows_its_output(tmp_path: Path) -> None:
    start = time.monotonic()
    result = run_script(
        tmp_path, "start fails bash -c 'echo its output; exit 3'", "step sleeps sleep 600", "echo unreached"
    )
    assert time.monotonic() - start < 30
    assert result.returncode == 1
    output, failed, stopped, last = result.stdout.splitlines()[1:]
    assert output == "its output"
    assert failed.endswith(" s  fails")
    assert stopped.endswith(" s  sleeps, stopped")
    assert last == "== fails failed with status 3"


def test_failed_step_shows_its_output_once_and_stops_the_others(tmp_path: Path) -> None:
    result = run_script(tmp_path, "start sleeps sleep 600", "step fails bash -c 'echo its output; exit 3'")
    assert result.returncode == 1
    assert result.stdout.count("its output") == 1
    assert "sleeps, stopped" in result.stdout


def test_step_stops_at_its_first_failed_command(tmp_path: Path) -> None:
    result = run_script(tmp_path, "two() { false; echo unreached; }", "step two two")
    assert result.returncode == 1
    assert "unreached" not in result.stdout


@pytest.mark.parametrize("ending", ["true", "exit 4", "kill -INT $$; sleep 9", "step fails false"])
def test_no_file_or_process_is_left_behind(tmp_path: Path, ending: str) -> None:
    (tmp_path / "detached.py").write_text(DETACHED)
    result = run_script(tmp_path, "start beside sleep 600", f"step detaches python3 {tmp_path / 'detached.py'}", ending)
    pid = result.stdout.splitlines()[1]
    assert list((tmp_path / "temporary").iterdir()) == []
    deadline = time.monotonic() + 10
    while is_running(int(pid)):  # a killed process takes a moment to end
        assert time.monotonic() < deadline
        time.sleep(0.01)


def is_running(pid: int) -> bool:
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(") ")[2][0]
    except OSError:
        return False
    return state != "Z"  # an orphaned zombie may never be reaped
