"""Diagnose frames of all schemas, written under every kind of edit, with everyday values and with recorded ones.

A case counts if the edit leaves a trace: the frame differs from the right one, and the right layout cannot read it to
its last byte. A case is named if the diagnosis names the edit, or one that writes the same bytes. If two edits make
layouts of the same shape (which of two neighbours of the same type is missing?), the bytes of most values do not tell
them apart: the table has both counts. `KPROXY_ALL_VERSIONS=1 pytest -m wide -s
tests/dissectors/diagnosis/test_schema_wide.py` prints the table for every API, version and direction.
"""

from __future__ import annotations

import os
from collections import Counter, defaultdict
from collections.abc import Iterator
from random import Random
from typing import Any, NamedTuple

import pytest

from dissectors import schemas
from dissectors.diagnosis import Diagnosis, diagnose
from dissectors.diagnosis.candidates import Candidate, single_edits
from dissectors.diagnosis.diagnose import right_layout
from dissectors.edits import Edit, EditError, frame_layout, write
from dissectors.messages.message import Message, api_layouts, read_request, read_response
from dissectors.wire.errors import EncodeError
from dissectors.wire.layout import Layout
from tests.dissectors.diagnosis.captured_values import Recorded
from tests.dissectors.diagnosis.cluster_values import Realistic

MESSAGES = [
    (api.key, version, is_request) for api in schemas.apis() for version in api.versions for is_request in (True, False)
]

#: Whether to try both kinds of values with all versions, as for the table of docs/diagnosis.md.
ALL_VERSIONS = "KPROXY_ALL_VERSIONS" in os.environ

#: How often new values are tried until an edit leaves a trace.
TRIES = 4


class Case(NamedTuple):
    edit: Edit
    layout: Layout
    values: dict[str, Any]
    frame: bytes
    message: Message


def cases(
    key: int, version: int, is_request: bool, random: Random, source: type[Realistic] = Realistic
) -> Iterator[Case | str]:
    """Yield a case for each kind of edit that the message can have, or only the kind if no values left a trace."""
    layouts = api_layouts(key, version)
    assert layouts is not None
    header_and_body = (
        (layouts.request_header, layouts.request) if is_request else (layouts.response_header, layouts.response)
    )
    kafka_layout = frame_layout(*header_and_body)
    kinds: dict[str, list[Candidate]] = defaultdict(list)
    for candidate in single_edits(kafka_layout, version):
        kinds[candidate.edit.kind].append(candidate)
    for kind, candidates in kinds.items():
        attempts = (
            make_case(random.choice(candidates), kafka_layout, key, version, is_request, random, source)
            for _ in range(TRIES)
        )
        yield next((attempt for attempt in attempts if attempt is not None), kind)


def make_case(
    candidate: Candidate,
    kafka_layout: Layout,
    key: int,
    version: int,
    is_request: bool,
    random: Random,
    source_type: type[Realistic] = Realistic,
) -> Case | None:
    """Return a frame written under an edit, or None if the edit leaves no trace."""
    source = source_type(random.getrandbits(32))
    body_layout = kafka_layout.fields[1].struct
    written_body = candidate.layout.fields[1].struct
    assert body_layout is not None
    assert written_body is not None
    body = source.values(body_layout)
    source.complete(written_body, body)
    header: dict[str, Any] = {"correlation_id": random.randint(0, 200)}
    if is_request:
        header |= {"request_api_key": key, "request_api_version": version, "client_id": source.client_id(body)}
    values = {"header": header, "body": body}
    try:
        frame = write(candidate.edit, kafka_layout, values)
        if frame == write(None, kafka_layout, values):
            return None
    except EncodeError:
        return None  # a value that the edited layout cannot hold, e.g. in a narrower integer
    message = read_request(frame) if is_request else read_response(frame, key, version)
    if message.well_formed:
        return None
    return Case(candidate.edit, kafka_layout, values, frame, message)


def shape(layout: Layout) -> tuple[object, ...]:
    """Return the structure of a layout without the names of its fields."""
    fields = [
        (
            field.type,
            field.array,
            field.nullable,
            field.length,
            field.element_length,
            field.writes,
            field.struct and shape(field.struct),
        )
        for field in layout.fields
    ]
    return (*fields, layout.flexible, layout.tag_fault)


def writes_same_bytes(edit: Edit, case: Case) -> bool:
    try:
        return write(edit, case.layout, case.values) == case.frame
    except (EditError, EncodeError):
        return False


def makes_same_shape(edit: Edit, case: Case) -> bool:
    return shape(edit.apply(case.layout)) == shape(case.edit.apply(case.layout))


def named_edits(diagnosis: Diagnosis | None) -> list[Edit]:
    return [] if diagnosis is None else [diagnosis.edit, *(rival.edit for rival in diagnosis.rivals)]


class Tally:
    """Counts by kind of edit."""

    def __init__(self) -> None:
        self.kinds: dict[str, Counter[str]] = defaultdict(Counter)
        self.sure = self.sure_and_right = 0
        self.missed: list[str] = []

    def add(self, case: Case | str) -> None:
        if isinstance(case, str):
            self.kinds[case]["no trace"] += 1
            return
        count = self.kinds[case.edit.kind]
        count["cases"] += 1
        diagnosis = diagnose(case.message)
        edits = named_edits(diagnosis)
        ranks = [rank for rank, edit in enumerate(edits) if writes_same_bytes(edit, case)]
        shapes = [rank for rank, edit in enumerate(edits) if rank in ranks or makes_same_shape(edit, case)]
        count["first"] += 0 in ranks
        count["three"] += any(rank < 3 for rank in ranks)
        count["first shape"] += 0 in shapes
        count["three shapes"] += any(rank < 3 for rank in shapes)
        if diagnosis is not None and diagnosis.confidence >= 0.95:
            self.sure += 1
            self.sure_and_right += 0 in ranks
        if 0 not in ranks:
            self.missed.append(f"{case.message.api} v{case.message.version} {case.edit.as_json()}: {edits[:3]}")

    def share(self, column: str) -> float:
        return sum(count[column] for count in self.kinds.values()) / sum(
            count["cases"] for count in self.kinds.values()
        )

    def __str__(self) -> str:
        rows = ["| kind of edit | cases | no trace | first | in three | first, by shape | in three, by shape |",
                "|---|---|---|---|---|---|---|"]  # fmt: skip
        columns = ("first", "three", "first shape", "three shapes")
        for kind, count in sorted(self.kinds.items()):
            shares = " | ".join(f"{count[name] / max(count['cases'], 1):.1%}" for name in columns)
            rows.append(f"| `{kind}` | {count['cases']} | {count['no trace']} | {shares} |")
        total = " | ".join(f"{self.share(name):.1%}" for name in columns)
        cases = sum(count["cases"] for count in self.kinds.values())
        rows.append(f"| all | {cases} | {sum(count['no trace'] for count in self.kinds.values())} | {total} |")
        rows.append(f"\nOf {self.sure} diagnoses of a confidence of 95 % or more, {self.sure_and_right} are right.")
        return "\n".join(rows)


def run_cases(messages: list[tuple[int, int, bool]], seed: int, source: type[Realistic]) -> Tally:
    tally, random = Tally(), Random(seed)
    for key, version, is_request in messages:
        for case in cases(key, version, is_request, random, source):
            tally.add(case)
    print(f"\n{tally}")  # noqa: T201  # show the table
    return tally


def check_shares(tally: Tally, min_first_share: float, min_top_three_share: float) -> None:
    """Check the shares, by bytes, against their minimum, and that nearly all sure diagnoses are right."""
    missed_cases = "\n".join(tally.missed[:40])
    assert tally.share("first") >= min_first_share, missed_cases
    assert tally.share("three") >= min_top_three_share, missed_cases
    assert tally.sure_and_right / tally.sure >= 0.99, missed_cases


@pytest.mark.slow
def test_sample_of_the_schemas_is_diagnosed() -> None:
    check_shares(run_cases(MESSAGES[::17], seed=5, source=Realistic), min_first_share=0.96, min_top_three_share=0.99)


@pytest.mark.wide
@pytest.mark.parametrize(("source", "half"), [(Realistic, 0), (Recorded, 1)])
def test_every_api_version_and_direction_is_diagnosed(source: type[Realistic], half: int) -> None:
    """Each kind of values is in every second version: the versions between differ little."""
    messages = [message for index, message in enumerate(MESSAGES) if ALL_VERSIONS or index // 2 % 2 == half]
    check_shares(run_cases(messages, 1, source), min_first_share=0.975, min_top_three_share=0.995)


def test_well_formed_frames_have_no_diagnosis() -> None:
    for key, version, is_request in MESSAGES[::7]:
        layouts = api_layouts(key, version)
        assert layouts is not None
        header, body = (
            (layouts.request_header, layouts.request) if is_request else (layouts.response_header, layouts.response)
        )
        values = {
            "header": {"request_api_key": key, "request_api_version": version},
            "body": Realistic(key).values(body),
        }
        frame = write(None, frame_layout(header, body), values)
        message = read_request(frame) if is_request else read_response(frame, key, version)
        assert right_layout(message) is not None
        assert diagnose(message) is None, frame.hex()
