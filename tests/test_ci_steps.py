""".ci/steps: steps that fail, alone and beside others, and what is left of them."""

from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
pytestmark = pytest.mark.skipif(sys.platform != "linux", reason=".ci/run is for Linux")

#: A process that leaves its group, as the relay and engines do. It prints its number.
LEAVES = """
import subprocess, sys
command = [sys.executable, "-c", "import time; time.sleep(600)"]
print(subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True).pid)
"""


def run(tmp_path: Path, *lines: str) -> subprocess.CompletedProcess[str]:
    script = tmp_path / "script"
    script.write_text("\n".join(["set -euo pipefail", f"source {ROOT / '.ci' / 'steps'}", *lines]))
    (tmp_path / "made").mkdir()
    return subprocess.run(
        ["bash", script],
        env={"PATH": f"{Path(sys.executable).parent}:/usr/bin:/bin", "TMPDIR": str(tmp_path / "made")},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


def test_steps_print_in_their_order_and_the_sum_counts_every_run(tmp_path: Path) -> None:
    done = run(
        tmp_path,
        "start slow bash -c 'sleep 0.5; echo slow says; echo 1 failed, 2 passed in 0.50s'",
        "step quick echo '=== 3 passed, 1 skipped in 2.00s ==='",
        "join slow",
        "summary",
    )
    assert (done.returncode, done.stderr) == (0, "")
    lines = done.stdout.splitlines()
    assert lines[:5] == [
        "== quick",
        "=== 3 passed, 1 skipped in 2.00s ===",
        "== slow, which ran beside others",
        "slow says",
        "1 failed, 2 passed in 0.50s",
    ]
    assert [line.split("s  ")[1] for line in lines[5:7]] == ["quick", "slow"]
    assert lines[7:] == ["5 passed, 1 failed, 1 skipped"]


def test_a_step_that_fails_beside_another_ends_both_and_shows_its_output(tmp_path: Path) -> None:
    began = time.monotonic()
    done = run(tmp_path, "start fails bash -c 'echo what it said; exit 3'", "step sleeps sleep 600", "echo unreached")
    assert time.monotonic() - began < 30
    assert done.returncode == 1
    said, failed, stopped, last = done.stdout.splitlines()[1:]
    assert said == "what it said"
    assert failed.endswith(" s  fails")
    assert stopped.endswith(" s  sleeps, stopped")
    assert last == "== fails failed with status 3"


def test_a_step_that_fails_shows_its_output_once_and_ends_what_runs_beside_it(tmp_path: Path) -> None:
    done = run(tmp_path, "start sleeps sleep 600", "step fails bash -c 'echo what it said; exit 3'")
    assert done.returncode == 1
    assert done.stdout.count("what it said") == 1
    assert "sleeps, stopped" in done.stdout


def test_a_step_ends_at_its_first_command_that_fails(tmp_path: Path) -> None:
    done = run(tmp_path, "two() { false; echo unreached; }", "step two two")
    assert done.returncode == 1
    assert "unreached" not in done.stdout


@pytest.mark.parametrize("ending", ["true", "exit 4", "kill -INT $$; sleep 9", "step fails false"])
def test_nothing_is_left_however_it_ends(tmp_path: Path, ending: str) -> None:
    (tmp_path / "leaves.py").write_text(LEAVES)
    done = run(tmp_path, "start beside sleep 600", f"step leaves python3 {tmp_path / 'leaves.py'}", ending)
    pid = done.stdout.splitlines()[1]
    assert list((tmp_path / "made").iterdir()) == []
    assert not _runs(int(pid))


def _runs(pid: int) -> bool:
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(") ")[2][0]
    except OSError:
        return False
    return state != "Z"  # nobody may be there to collect it
