"""benchmarks/startup.py measures each command."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

STARTUP = Path(__file__).parents[1] / "benchmarks" / "startup.py"


@pytest.mark.slow
def test_each_command_is_measured() -> None:
    process = subprocess.run([sys.executable, STARTUP, "1"], capture_output=True, text=True, timeout=300, check=False)
    assert process.returncode == 0, process.stderr
    for name in ("python -c pass", "kproxy --help", r"kproxy dissect, \d+ packets"):
        assert re.search(rf"^{name}: \d+ ms of CPU, peak \d+ MiB$", process.stdout, re.MULTILINE)
