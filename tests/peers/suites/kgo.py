"""The tests of franz-go's client, kgo, from the module version that tests/peers/go requires."""

from __future__ import annotations

import os
import re
import subprocess
from pathlib import Path

from tests.peers.processes import dies_with_us
from tests.peers.toolchains import GO, cache

PACKAGE = "github.com/twmb/franz-go/pkg/kgo"
#: The number of records in kgo's tests of groups and transactions; the default is half a million.
RECORDS = 20_000


def version() -> str:
    """Return the release that tests/peers/go requires."""
    match = re.search(r"^\tgithub.com/twmb/franz-go v(\S+)$", (GO / "go.mod").read_text(), re.MULTILINE)
    assert match is not None
    return match[1]


def run(bootstrap: str, directory: Path, *, timeout: float) -> dict[str, str]:
    """Run the suite; return the outcome of each test.

    Args:
        bootstrap: HOST:PORT.
        directory: The directory for the output.
        timeout: The time limit.
    """
    program = cache() / "go" / "kgo.test"
    subprocess.run(["go", "test", "-mod=readonly", "-c", "-o", program, PACKAGE], cwd=GO, check=True, timeout=600)
    list_command = ["go", "list", "-mod=readonly", "-f", "{{.Dir}}", PACKAGE]
    source = subprocess.run(list_command, cwd=GO, check=True, capture_output=True, text=True).stdout.strip()
    environment = {
        "KGO_SEEDS": bootstrap, "KGO_TEST_RF": "1", "KGO_TEST_RECORDS": str(RECORDS), "KGO_LOG_LEVEL": "none",
    }  # fmt: skip
    printed = directory / "kgo.txt"
    with printed.open("wb") as output:
        subprocess.run(
            dies_with_us([str(program), "-test.v", f"-test.timeout={timeout:.0f}s"]),
            cwd=source, env=os.environ | environment, stdin=subprocess.DEVNULL, stdout=output, stderr=output,
        )  # fmt: skip
    matches = re.findall(
        r"^(?:=== RUN +|--- (\w+): )(\w+)(?: \(.*)?$", printed.read_text(errors="replace"), re.MULTILINE
    )
    outcomes = {"PASS": "passed", "": "did not end"}
    return {name: outcomes.get(outcome, outcome) for outcome, name in matches}
