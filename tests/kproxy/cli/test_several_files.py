"""Several inputs of `kproxy dissect`: headings show the file and day of the rows; a summary covers all files."""

import json
import re
from pathlib import Path

import pytest

from dissectors.connections.events import Direction
from kproxy.inspection.inspector import Inspector
from kproxy.trace.encoding import append_line
from tests.kproxy.cli.conftest import Run
from tests.kproxy.frames import request, response

PCAPS = Path(__file__).parents[2] / "data" / "pcap"
FIRST, SECOND = PCAPS / "kcat-4.3.1.pcap.gz", PCAPS / "kafka-python-4.3.1.pcap.gz"
MIDNIGHT = 1_714_521_600_000_000_000  # 2024-05-01
_OPEN = re.compile(r"(#\d+) \+ open ")
_PERIOD = r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d to (\d{4}-\d\d-\d\d )?\d\d:\d\d:\d\d, "


def write_trace(path: Path, *times: int) -> Path:
    """Write a trace with one connection: a Metadata request and its response at each of these times (ns)."""
    inspector, data = Inspector("node-1"), bytearray()
    lines = inspector.open(0, "127.0.0.1:50000", "127.0.0.1:9092", at=times[0])
    for number, at in enumerate(times):
        lines += inspector.receive_data(0, Direction.REQUEST, request("Metadata", 12, {}, correlation_id=number), at=at)
        lines += inspector.receive_data(
            0, Direction.RESPONSE, response("Metadata", 12, {}, correlation_id=number), at=at
        )
    for line in lines:
        append_line(line, data)
    path.write_bytes(data)
    return path


def test_every_file_has_a_heading_and_connection_numbers_are_unique(kproxy: Run) -> None:
    result = kproxy("dissect", FIRST, SECOND, FIRST)
    rows = result.stdout.splitlines()
    headings = [row for row in rows if re.fullmatch(r"\S+  \d{4}-\d\d-\d\d UTC", row)]
    assert [row.split("  ")[0] for row in headings] == [str(FIRST), str(SECOND), str(FIRST)]
    numbers = _OPEN.findall(result.stdout)
    assert len(numbers) == len(set(numbers)) > 3
    file_summaries = [row for row in rows if re.search(r": " + _PERIOD, row)]
    assert len(file_summaries) == 3
    assert file_summaries[0] == file_summaries[2]
    assert re.fullmatch(
        re.escape(f"{FIRST}: ") + _PERIOD + r"\d+ packets, \d+ connections?, \d+ frames", file_summaries[0]
    )


def test_shows_dates_of_rows_in_traces_of_several_days(kproxy: Run, tmp_path: Path) -> None:
    trace = write_trace(tmp_path / "node.jsonl", MIDNIGHT - 2_000_000_000, MIDNIGHT)
    rows = kproxy("dissect", trace, trace).stdout.splitlines()
    middle = rows.index("")
    assert rows[:middle] == rows[middle + 1 :]
    assert rows[0] == f"{trace}  2024-04-30 UTC"
    [day_row] = [number for number, row in enumerate(rows[:middle]) if row == "2024-05-01"]
    times = [(number > day_row, row[:12]) for number, row in enumerate(rows[:middle]) if re.match(r"\d\d:", row)]
    assert times == [(False, "23:59:58.000")] * 3 + [(True, "00:00:00.000")] * 2
    assert rows[middle - 1] == f"{trace}: 2024-04-30 23:59:58 to 2024-05-01 00:00:00, 1 connection, 4 frames"


@pytest.mark.slow
def test_ends_with_a_summary_of_all_files(kproxy: Run) -> None:
    frame_counts = [
        int(re.findall(r"(\d+) frames", kproxy("dissect", "--findings", path).stdout)[-1]) for path in (FIRST, SECOND)
    ]
    result = kproxy("dissect", FIRST, SECOND)
    [summary] = [line for line in result.stderr.splitlines() if line.startswith("2 files, ")]
    assert summary.endswith(f" connections, {sum(frame_counts)} frames")
    assert re.search(r"^API +versions +requests", result.stderr, re.MULTILINE)
    assert re.search(r"^Metadata ", result.stderr, re.MULTILINE)
    assert "clients: " in result.stderr


def test_file_without_a_matching_line_has_no_heading(kproxy: Run, tmp_path: Path) -> None:
    trace = write_trace(tmp_path / "node.jsonl", MIDNIGHT)
    result = kproxy("dissect", "-f", "api=Metadata and time<2024-05-02", FIRST, trace)
    assert str(FIRST) not in result.stdout
    assert result.stdout.startswith(f"{trace}  2024-05-01 UTC\n")
    assert kproxy("dissect", "-f", "api=LeaderAndIsr", FIRST, trace).stdout == ""


@pytest.mark.slow
def test_single_file_and_other_formats_have_no_heading(kproxy: Run) -> None:
    result = kproxy("dissect", FIRST)
    assert str(FIRST) not in result.stdout
    assert result.stderr == ""
    for options in (["--json"], ["--fields", "api"]):
        result = kproxy("dissect", *options, FIRST, SECOND)
        assert str(FIRST) not in result.stdout
        assert result.stderr == ""


def test_connection_ids_in_json_are_unique(kproxy: Run, tmp_path: Path) -> None:
    (tmp_path / "copy").mkdir()
    copy = tmp_path / "copy" / FIRST.name
    copy.write_bytes(FIRST.read_bytes())
    first_lines = [json.loads(line) for line in kproxy("dissect", "--json", FIRST).stdout.splitlines()]
    lines = [json.loads(line) for line in kproxy("dissect", "--json", FIRST, copy).stdout.splitlines()]
    assert lines[: len(first_lines)] == first_lines
    opened_ids = [line["connection_id"] for line in lines if line["kind"] == "open"]
    assert len(opened_ids) == len(set(opened_ids)) == 2 * sum(line["kind"] == "open" for line in first_lines)
