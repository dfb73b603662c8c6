"""Measure how often the first edit that kproxy reports reproduces a frame that was broken without kproxy's code.

python -m tests.independent.accuracy [CASES] [SEED]
"""

from __future__ import annotations

import json
import os
import sys
from collections import Counter, defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, field
from itertools import chain
from pathlib import Path

from dissectors.diagnosis.diagnose import right_layout
from dissectors.edits import LOOSE_KINDS, Edit, EditError, frame_layout, write
from dissectors.embedded.payload_formats import layouts_as_stated
from dissectors.messages.diagnosis_result import Diagnosis
from dissectors.messages.message import read_request, read_response
from dissectors.wire.errors import EncodeError
from dissectors.wire.layout import Field, Layout
from kproxy.inspection.explain import explain
from tests.independent.frames import Case, captured_frames, kafka_frames
from tests.independent.frames import cases as frame_cases
from tests.independent.payloads import cases as payload_cases
from tests.independent.plausible_values import leaves_no_trace


def diagnoses(case: Case) -> list[Diagnosis]:
    """Return the diagnoses that `kproxy explain` reports for a broken frame, without its request."""
    answered = None if case.valid.is_request else (case.valid.key, case.valid.version)
    explanation = explain(case.broken, answered)
    return [finding.problem.diagnosis for finding in explanation.findings if finding.problem.diagnosis is not None]


def right_layout_of(case: Case) -> Layout:
    """Return Kafka's layout of the frame, to which the edits are applied."""
    frame = case.original
    parsed = read_request(frame) if case.valid.is_request else read_response(frame, case.valid.key, case.valid.version)
    layout = right_layout(parsed)
    assert layout is not None
    return layout


def reproduces(edit: Edit, layout: Layout, case: Case) -> bool:
    """Return whether a writer with this edit sends the broken bytes for the values of the original."""
    try:
        return reproduces_in_payload(edit, case) if case.payload else write(edit, layout, case.values) == case.broken
    except (EditError, EncodeError):
        return False


def reproduces_in_payload(edit: Edit, case: Case) -> bool:
    """Return whether a writer with this edit sends the broken payload for the values of the original one."""
    if edit.kind != "embedded_layout":
        return False
    detail = dict(edit.detail)
    if detail["edit"].kind == "embedded_layout":
        return reproduces_in_payload(detail["edit"], case)
    header, body, _ = layouts_as_stated(detail["payload"], case.payload)
    return write(detail["edit"], frame_layout(header, body), case.payload_values)[4:] == case.broken_payload


def are_twins(edit: Edit, layout: Layout, case: Case) -> bool:
    """Return whether a writer with another edit of this family, to a field of the same type, could send these bytes.

    For example, one of two neighbouring int32 fields is missing: only the likelihood of the values shows which one.
    """
    if edit.kind in LOOSE_KINDS:
        return False
    if case.payload:
        while edit.kind == "embedded_layout":
            detail = dict(edit.detail)
            name, edit = detail["payload"], detail["edit"]
        header, body, _ = layouts_as_stated(name, case.payload)
        layout = frame_layout(header, body)
    try:
        written = edit.apply(layout).fields[1].struct
    except EditError:
        return False
    return written is not None and shape(written) == case.shape


def shape(struct_layout: Layout) -> str:
    """Return the types of a struct on the wire, in the notation of `tests.independent.definitions.shape`."""
    kinds = {"uvarint": "c", "int16": "i16", "int32": "i32", "uvarint-1": "c-1", "uvarint+1": "c+1"}

    def field_shape(field: Field) -> str:
        inner = f"{{{shape(field.struct)}}}" if field.struct else field.type
        length = "" if field.struct and not field.array else kinds.get(field.length or "", "")
        return f"{'[]' if field.array else ''}{inner}:{length}:{kinds.get(field.element_length or '', '')}"

    return ",".join(map(field_shape, struct_layout.fields)) + f"|{int(struct_layout.flexible)}"


@dataclass
class Tally:
    """Counts of cases, by family and by confidence."""

    families: dict[str, Counter[str]] = field(default_factory=lambda: defaultdict(Counter))
    confidences: dict[int, Counter[str]] = field(default_factory=lambda: defaultdict(Counter))
    missed: list[dict[str, object]] = field(default_factory=list)

    def add(self, case: Case) -> None:
        count, reported, layout = self.families[case.family], diagnoses(case), right_layout_of(case)
        if leaves_no_trace(case):
            count["no trace"] += 1
            return
        count["cases"] += 1
        edits = [
            edit for diagnosis in reported[:1] for edit in (diagnosis.edit, *(rival.edit for rival in diagnosis.rivals))
        ]
        ranks = [index for index, edit in enumerate(edits) if reproduces(edit, layout, case)]
        is_first = 0 in ranks
        count["first"] += is_first
        count["three"] += any(index < 3 for index in ranks)
        count["none"] += not reported
        count["twin"] += not is_first and bool(edits) and are_twins(edits[0], layout, case)
        if reported:
            bucket = self.confidences[min(int(reported[0].confidence * 10), 9)]
            bucket["cases"] += 1
            bucket["right"] += is_first
            bucket["same"] += is_first and are_twins(edits[0], layout, case)
            bucket["sum"] += round(1000 * reported[0].confidence)
        if not is_first:
            self.missed.append(
                {
                    "family": case.family,
                    "name": case.valid.name,
                    "version": case.valid.version,
                    "where": case.valid.where,
                    "frame": case.broken.hex(),
                    "original": case.original.hex(),
                    "place": ranks[:1],
                    "confidence": reported[0].confidence if reported else None,
                    "twin": bool(edits) and are_twins(edits[0], layout, case),
                    "edits": [str(edit) for edit in edits[:3]],
                }
            )

    def share(self, counter_name: str, family: str | None = None) -> float:
        counts = [self.families[family]] if family else list(self.families.values())
        return sum(count[counter_name] for count in counts) / max(sum(count["cases"] for count in counts), 1)

    def __str__(self) -> str:
        rows = [
            "| family | cases | no trace | first | twin first | in three | no finding |",
            "|---|---|---|---|---|---|---|",
        ]
        total: Counter[str] = sum(self.families.values(), Counter())
        for family, count in (*self.families.items(), ("all", total)):
            cells = [f"{count[name] / max(count['cases'], 1):.1%}" for name in ("first", "twin", "three", "none")]
            rows.append(f"| {family} | {count['cases']} | {count['no trace']} | {' | '.join(cells)} |")
        rows += [
            "",
            "| confidence | diagnoses | mean confidence | right | of the same types |",
            "|---|---|---|---|---|",
        ]
        for bucket, count in sorted(self.confidences.items()):
            mean, right_count, twin_count = count["sum"] / 10, count["right"], count["same"]
            cells = " | ".join(
                f"{100 * share / count['cases']:.0f} %" for share in (mean / 100, right_count, twin_count)
            )
            rows.append(f"| {bucket * 10}–{bucket * 10 + 10} % | {count['cases']} | {cells} |")
        return "\n".join(rows)


def tally(cases: Iterable[Case]) -> Tally:
    tally = Tally()
    for case in cases:
        tally.add(case)
    return tally


def main() -> None:
    cases_per_family = int(sys.argv[1]) if len(sys.argv) > 1 else 60
    seed = int(sys.argv[2]) if len(sys.argv) > 2 else 1
    valid_frames = [*kafka_frames(), *captured_frames()]
    result = tally(
        chain(payload_cases(max(cases_per_family // 6, 1), seed), frame_cases(valid_frames, cases_per_family, seed))
    )
    print(result)  # noqa: T201  # show the table
    if path := os.environ.get("MISSED"):
        Path(path).write_text(
            "".join(json.dumps(missed_case) + "\n" for missed_case in result.missed), encoding="utf-8"
        )


if __name__ == "__main__":
    main()
