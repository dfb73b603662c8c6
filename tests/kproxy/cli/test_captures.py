"""The captures match their README, and traces of old formats open."""

import json
from pathlib import Path

import pytest

from tests.kproxy.cli.conftest import Run

CAPTURES = Path(__file__).parents[3] / "captures"


def stories() -> list[tuple[str, str]]:
    rows = [row.split("|") for row in (CAPTURES / "README.md").read_text().splitlines() if row.startswith("| `")]
    return [(row[1].strip(" `"), row[4]) for row in rows]


def test_every_capture_is_listed_in_the_readme() -> None:
    assert sorted(name for name, _ in stories()) == sorted(
        path.name for path in CAPTURES.iterdir() if path.is_file() and path.suffix != ".md"
    )


def test_reports_three_extra_bytes_in_a_metadata_request(kproxy: Run) -> None:
    done = kproxy("dissect", CAPTURES / "librdkafka-metadata-three-bytes-too-many.pcap.gz")
    [finding] = [row for row in done.stdout.splitlines() if "L010 compact-vs-fixed" in row]
    assert finding.endswith("(3 bytes too many) [bytes 28..32]")


@pytest.mark.parametrize("name", [path.name for path in CAPTURES.glob("trace-*.jsonl")])
def test_trace_of_every_format_opens(kproxy: Run, name: str) -> None:
    done = kproxy("dissect", "--json", CAPTURES / name)
    assert done.stderr == ""
    written = [json.loads(line) for line in done.stdout.splitlines()]
    stored = [json.loads(line) for line in (CAPTURES / name).read_text().splitlines()]
    assert written == stored
