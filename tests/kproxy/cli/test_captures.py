"""The captures match their README, and traces in old formats can be read."""

import json
from pathlib import Path

import pytest

from tests.kproxy.cli.conftest import Run

CAPTURES = Path(__file__).parents[3] / "captures"


def documented_captures() -> list[tuple[str, str]]:
    rows = [row.split("|") for row in (CAPTURES / "README.md").read_text().splitlines() if row.startswith("| `")]
    return [(row[1].strip(" `"), row[4]) for row in rows]


def test_every_capture_is_listed_in_the_readme() -> None:
    assert sorted(name for name, _ in documented_captures()) == sorted(
        path.name for path in CAPTURES.iterdir() if path.is_file() and path.suffix != ".md"
    )


def test_reports_three_extra_bytes_in_a_metadata_request(kproxy: Run) -> None:
    result = kproxy("dissect", CAPTURES / "librdkafka-metadata-three-bytes-too-many.pcap.gz")
    [finding] = [row for row in result.stdout.splitlines() if "L010 compact-vs-fixed" in row]
    assert finding.endswith("(3 bytes too many) [bytes 28..32]")


@pytest.mark.parametrize("name", [path.name for path in CAPTURES.glob("trace-*.jsonl")])
def test_traces_in_every_format_can_be_read(kproxy: Run, name: str) -> None:
    result = kproxy("dissect", "--json", CAPTURES / name)
    assert result.stderr == ""
    output_lines = [json.loads(line) for line in result.stdout.splitlines()]
    trace_lines = [json.loads(line) for line in (CAPTURES / name).read_text().splitlines()]
    assert output_lines == trace_lines
