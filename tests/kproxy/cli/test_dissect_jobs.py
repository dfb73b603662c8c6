"""`kproxy dissect -j`: the output, the messages and the status are those of one process."""

import shutil
from pathlib import Path

import pytest

from tests.kproxy.cli.conftest import Run

ROOT = Path(__file__).parents[3]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Captures with findings and without, without Kafka, a trace, and a file that is damaged."""
    right = ROOT / "captures/find-coordinator-v0-right.pcap.gz"
    for path in {right, *sorted((ROOT / "captures").glob("*.pcap.gz"))[::4]}:
        shutil.copy(path, tmp_path)
    shutil.copy(ROOT / "captures/trace-1.jsonl", tmp_path)
    (tmp_path / "damaged.pcap").write_bytes(b"no capture")
    return tmp_path


@pytest.mark.parametrize(
    "options",
    [
        ["--json"],
        ["--json", "--port", "9092", "--ignore", "L"],
        ["--fields", "kind,connection_id,api,findings.code"],
        ["--fields", "connection_id,api,latency_us", "-f", "api=Metadata"],
    ],
    ids=" ".join,
)
def test_several_processes_write_the_output_of_one(kproxy: Run, folder: Path, options: list[str]) -> None:
    alone, together = (kproxy("dissect", *options, "-j", jobs, folder) for jobs in ("1", "2"))
    assert alone.stdout.count("\n") > 10
    assert "damaged.pcap is not a capture file" in alone.stderr
    assert (together.stdout, together.stderr, together.returncode) == (alone.stdout, alone.stderr, alone.returncode)


def test_unreadable_file_ends_the_run_after_the_files_before_it(kproxy: Run, folder: Path) -> None:
    names = [folder / "find-coordinator-v0-right.pcap.gz", folder / "damaged.pcap", folder / "trace-1.jsonl"]
    alone, together = (kproxy("dissect", "--json", "-j", jobs, *names) for jobs in ("1", "2"))
    assert alone.stdout
    assert (together.stdout, together.stderr, together.returncode) == (alone.stdout, alone.stderr, 2)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["-j", "0", "--json"], "invalid number of jobs 0: use 1 or more"),
        (["-j", "2"], "-j needs --json or --fields"),
        (["-j", "2", "--findings", "--json"], "-j needs --json or --fields"),
    ],
    ids=" ".join,
)
def test_rejects_invalid_jobs(kproxy: Run, folder: Path, options: list[str], message: str) -> None:
    done = kproxy("dissect", *options, folder)
    assert (done.returncode, done.stdout) == (2, "")
    assert message in done.stderr
