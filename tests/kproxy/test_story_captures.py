"""The captures in captures/ that are made from stories: remade byte for byte, and each with its one finding."""

from __future__ import annotations

import gzip

import pytest

from dissectors.schemas import api_by_name
from kproxy.inspection.event_lines import finding_entry
from kproxy.inspection.explain import explain
from kproxy.trace.lines import Detail, FindingEntry, FindingLine
from kproxy.verdict.as_json import finding_as_json
from kproxy.verdict.ranking import best_first
from tests.kproxy.capture_results import causes_of
from tests.kproxy.captures.departed import DEPARTED
from tests.kproxy.captures.expectation import BEHAVIOURS, LAYOUTS, Expected, edit, seen
from tests.kproxy.captures.recorder import record_story
from tests.kproxy.captures_made import CAPTURES, STORIES

EXPECTED = LAYOUTS | BEHAVIOURS
SILENT = STORIES.keys() - EXPECTED.keys()


def told(name: str) -> list[FindingEntry | FindingLine]:
    """The causes of findings in a capture. What is not Kafka is looked at on Kafka's port only."""
    ports = frozenset({9092} if name.endswith("-on-kafkas-port") else ())
    path = CAPTURES / f"{name}.pcap.gz"
    return [finding for _, finding in causes_of(path, detail=Detail.FULL, ports=ports)]


def readme() -> dict[str, str]:
    rows = [row.split(" | ") for row in (CAPTURES / "README.md").read_text().splitlines() if row.startswith("| `")]
    return {row[0].strip("| `").removesuffix(".pcap.gz"): row[-1] for row in rows}


@pytest.mark.parametrize("name", STORIES)
def test_a_capture_is_what_its_story_makes(name: str) -> None:
    # Decompressed: zlib and its successors do not compress alike.
    assert gzip.decompress((CAPTURES / f"{name}.pcap.gz").read_bytes()) == record_story(STORIES[name])


@pytest.mark.parametrize(("name", "expected"), EXPECTED.items(), ids=EXPECTED)
def test_a_capture_has_the_one_finding(name: str, expected: Expected) -> None:
    found = [finding for finding in told(name) if finding.severity != "info" or finding.code == expected.code]
    assert [seen(finding) for finding in found] == [expected]
    assert found[0].message in readme()[name]


@pytest.mark.parametrize("name", sorted(SILENT))
def test_a_right_capture_is_silent(name: str) -> None:
    assert told(name) == []
    assert readme()[name].startswith("nothing")


@pytest.mark.parametrize(("name", "expected"), LAYOUTS.items(), ids=LAYOUTS)
def test_the_frame_alone_is_enough(name: str, expected: Expected) -> None:
    layout_problems = DEPARTED[name]
    found = api_by_name(layout_problems.api)
    assert found is not None
    explained = explain(layout_problems.frame(2), answered_request=(found.key, layout_problems.version))
    first, *rest = best_first(finding_entry(finding, explained.frame) for finding in explained.findings)
    assert seen(first) == expected
    assert {finding.severity for finding in rest} <= {"info"}


#: A broker that writes Metadata in the layout of v3, with throttle_time_ms first, whatever it was asked for.
FIXED = DEPARTED["metadata-v1-in-the-layout-of-v3"].frame(2)


@pytest.mark.parametrize(
    ("version", "written", "span", "path"),
    [
        (0, edit("body_version", body_version=3, header=None), [8, 12], "throttle_time_ms"),
        (1, edit("body_version", body_version=3, header=None), [8, 12], "throttle_time_ms"),
        (2, edit("field_from_version", "throttle_time_ms", from_version=3, place=0), [8, 12], "throttle_time_ms"),
        (5, edit("body_version", body_version=4, header=None), [109, 109], "topics[0].partitions[0].offline_replicas"),
        (7, edit("body_version", body_version=4, header=None), [93, 93], "topics[0].partitions[0].leader_epoch"),
        (8, edit("body_version", body_version=4, header=None), [93, 93], "topics[0].partitions[0].leader_epoch"),
    ],
)
def test_one_fixed_layout_whatever_the_version(version: int, written: object, span: object, path: str) -> None:
    explained = explain(FIXED, answered_request=(3, version))
    first, *_ = map(finding_as_json, best_first(finding_entry(finding) for finding in explained.findings))
    assert (first["edit"], first["span"], first["path"]) == (written, span, path)


@pytest.mark.parametrize("version", [3, 4])
def test_a_fixed_layout_is_right_for_its_own_versions(version: int) -> None:
    assert explain(FIXED, answered_request=(3, version)).findings == []


def test_the_sizes_are_those_of_the_frames_that_were_seen() -> None:
    sizes = {name: len(layout_problems.frame(2)) - 4 for name, layout_problems in DEPARTED.items()}
    assert sizes["find-coordinator-v0-with-fields-of-v1"] == 31
    assert sizes["find-coordinator-v0-with-fields-of-v1-null"] == 31
    assert sizes["find-coordinator-v0-right"] == 25
    [twice] = [each for each in told("join-group-v2-throttle-twice") if isinstance(each, FindingEntry)]
    assert (twice.expected, twice.got) == ("136 bytes", "140 bytes")


def test_the_bytes_of_the_coordinator_that_were_seen() -> None:
    def sent(name: str) -> str:
        return DEPARTED[name].frame(1).hex()

    start, end = "0000001f0000000100000000" + "0000", "00000000" + "0009" + "3132372e302e302e31" + "0000fe6c"
    assert sent("find-coordinator-v0-with-fields-of-v1") == start + "0000" + end
    assert sent("find-coordinator-v0-with-fields-of-v1-null") == start + "ffff" + end
    right = "0000000100000000000000093132372e302e302e310000fe6c"
    assert sent("find-coordinator-v0-right") == "00000019" + right
