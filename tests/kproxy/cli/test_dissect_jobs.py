"""`kproxy dissect -j` has the same output, messages and exit status as one process."""

import shutil
from pathlib import Path

import pytest

from tests.kproxy.cli.conftest import Run

ROOT = Path(__file__).parents[3]


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    """A directory with captures (with findings, without findings, without Kafka), a trace, and a damaged file."""
    correct_capture = ROOT / "captures/find-coordinator-v0-right.pcap.gz"
    for path in {correct_capture, *sorted((ROOT / "captures").glob("*.pcap.gz"))[::4]}:
        shutil.copy(path, tmp_path)
    shutil.copy(ROOT / "captures/trace-1.jsonl", tmp_path)
    (tmp_path / "damaged.pcap").write_bytes(b"no capture")
    return tmp_path


@pytest.mark.slow
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
def test_several_processes_write_the_same_output_as_one(kproxy: Run, directory: Path, options: list[str]) -> None:
    sequential, parallel = (kproxy("dissect", *options, "-j", jobs, directory) for jobs in ("1", "2"))
    assert sequential.stdout.count("\n") > 10
    assert "damaged.pcap is not a capture file" in sequential.stderr
    assert (parallel.stdout, parallel.stderr, parallel.returncode) == (
        sequential.stdout,
        sequential.stderr,
        sequential.returncode,
    )


@pytest.mark.slow
def test_unreadable_file_ends_the_run_after_the_files_before_it(kproxy: Run, directory: Path) -> None:
    names = [directory / "find-coordinator-v0-right.pcap.gz", directory / "damaged.pcap", directory / "trace-1.jsonl"]
    sequential, parallel = (kproxy("dissect", "--json", "-j", jobs, *names) for jobs in ("1", "2"))
    assert sequential.stdout
    assert (parallel.stdout, parallel.stderr, parallel.returncode) == (sequential.stdout, sequential.stderr, 2)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["-j", "0", "--json"], "invalid number of jobs 0: use 1 or more"),
        (["-j", "2"], "-j needs --json or --fields"),
        (["-j", "2", "--findings", "--json"], "-j needs --json or --fields"),
    ],
    ids=" ".join,
)
def test_rejects_an_invalid_number_of_jobs(kproxy: Run, directory: Path, options: list[str], message: str) -> None:
    result = kproxy("dissect", *options, directory)
    assert (result.returncode, result.stdout) == (2, "")
    assert message in result.stderr
