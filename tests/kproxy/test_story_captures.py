"""The captures generated from stories are reproducible byte by byte and have only the expected finding."""

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
from tests.kproxy.captures.deviating_responses import DEVIATING_RESPONSES
from tests.kproxy.captures.expectation import BEHAVIOURS, LAYOUTS, Expected, edit, expected_from
from tests.kproxy.captures.recorder import record_story
from tests.kproxy.captures_made import CAPTURES, STORIES

EXPECTED = LAYOUTS | BEHAVIOURS
WITHOUT_FINDINGS = STORIES.keys() - EXPECTED.keys()


def causes_of_story(name: str) -> list[FindingEntry | FindingLine]:
    """Return the causes of findings in a capture; other protocols are inspected only on Kafka's port."""
    ports = frozenset({9092} if name.endswith("-on-kafkas-port") else ())
    path = CAPTURES / f"{name}.pcap.gz"
    return [finding for _, finding in causes_of(path, detail=Detail.FULL, ports=ports)]


def readme_rows() -> dict[str, str]:
    rows = [row.split(" | ") for row in (CAPTURES / "README.md").read_text().splitlines() if row.startswith("| `")]
    return {row[0].strip("| `").removesuffix(".pcap.gz"): row[-1] for row in rows}


@pytest.mark.parametrize("name", STORIES)
def test_capture_equals_the_recording_of_its_story(name: str) -> None:
    # Decompressed data is compared, because zlib and its successors compress differently.
    assert gzip.decompress((CAPTURES / f"{name}.pcap.gz").read_bytes()) == record_story(STORIES[name])


@pytest.mark.parametrize(("name", "expected"), EXPECTED.items(), ids=EXPECTED)
def test_capture_has_exactly_its_expected_finding(name: str, expected: Expected) -> None:
    findings = [
        finding for finding in causes_of_story(name) if finding.severity != "info" or finding.code == expected.code
    ]
    assert [expected_from(finding) for finding in findings] == [expected]
    assert findings[0].message in readme_rows()[name]


@pytest.mark.parametrize("name", sorted(WITHOUT_FINDINGS))
def test_valid_capture_has_no_findings(name: str) -> None:
    assert causes_of_story(name) == []
    assert readme_rows()[name].startswith("nothing")


@pytest.mark.parametrize(("name", "expected"), LAYOUTS.items(), ids=LAYOUTS)
def test_frame_alone_has_the_expected_finding(name: str, expected: Expected) -> None:
    deviating_response = DEVIATING_RESPONSES[name]
    known_api = api_by_name(deviating_response.api)
    assert known_api is not None
    explanation = explain(deviating_response.frame(2), answered_request=(known_api.key, deviating_response.version))
    best_finding, *other_findings = best_first(
        finding_entry(finding, explanation.frame) for finding in explanation.findings
    )
    assert expected_from(best_finding) == expected
    assert {finding.severity for finding in other_findings} <= {"info"}


#: A broker that always writes Metadata in the layout of v3, with throttle_time_ms first.
FIXED = DEVIATING_RESPONSES["metadata-v1-in-the-layout-of-v3"].frame(2)


@pytest.mark.parametrize(
    ("version", "expected_edit", "span", "path"),
    [
        (0, edit("body_version", body_version=3, header=None), [8, 12], "throttle_time_ms"),
        (1, edit("body_version", body_version=3, header=None), [8, 12], "throttle_time_ms"),
        (2, edit("field_from_version", "throttle_time_ms", from_version=3, place=0), [8, 12], "throttle_time_ms"),
        (5, edit("body_version", body_version=4, header=None), [109, 109], "topics[0].partitions[0].offline_replicas"),
        (7, edit("body_version", body_version=4, header=None), [93, 93], "topics[0].partitions[0].leader_epoch"),
        (8, edit("body_version", body_version=4, header=None), [93, 93], "topics[0].partitions[0].leader_epoch"),
    ],
)
def test_fixed_layout_is_diagnosed_for_each_version(
    version: int, expected_edit: object, span: object, path: str
) -> None:
    explanation = explain(FIXED, answered_request=(3, version))
    first, *_ = map(finding_as_json, best_first(finding_entry(finding) for finding in explanation.findings))
    assert (first["edit"], first["span"], first["path"]) == (expected_edit, span, path)


@pytest.mark.parametrize("version", [3, 4])
def test_fixed_layout_is_valid_for_versions_3_and_4(version: int) -> None:
    assert explain(FIXED, answered_request=(3, version)).findings == []


def test_frames_have_the_recorded_sizes() -> None:
    sizes = {name: len(deviating_response.frame(2)) - 4 for name, deviating_response in DEVIATING_RESPONSES.items()}
    assert sizes["find-coordinator-v0-with-fields-of-v1"] == 31
    assert sizes["find-coordinator-v0-with-fields-of-v1-null"] == 31
    assert sizes["find-coordinator-v0-right"] == 25
    [duplicated] = [
        finding for finding in causes_of_story("join-group-v2-throttle-twice") if isinstance(finding, FindingEntry)
    ]
    assert (duplicated.expected, duplicated.got) == ("136 bytes", "140 bytes")


def test_coordinator_frames_have_the_recorded_bytes() -> None:
    def frame_hex(name: str) -> str:
        return DEVIATING_RESPONSES[name].frame(1).hex()

    start, end = "0000001f0000000100000000" + "0000", "00000000" + "0009" + "3132372e302e302e31" + "0000fe6c"
    assert frame_hex("find-coordinator-v0-with-fields-of-v1") == start + "0000" + end
    assert frame_hex("find-coordinator-v0-with-fields-of-v1-null") == start + "ffff" + end
    valid = "0000000100000000000000093132372e302e302e310000fe6c"
    assert frame_hex("find-coordinator-v0-right") == "00000019" + valid
