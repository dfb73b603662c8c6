"""Write one entry of a nested array wrongly in common messages, and count how often the diagnosis names the entry.

Frames are written by `tests.independent.definitions`. An error in one entry of ``topics[].partitions[]`` comes from a
branch of a writer: a partition that failed, was not found, or has no data.

python -m tests.independent.one_entry
"""

from __future__ import annotations

import json
import os
from collections import Counter
from collections.abc import Iterable, Iterator
from copy import copy, deepcopy
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import Any, NamedTuple

from dissectors.edits import Edit
from dissectors.messages.diagnosis_result import Diagnosis
from dissectors.schemas import api_by_name, header_versions
from tests.independent.accuracy import diagnoses, reproduces, right_layout_of
from tests.independent.definitions import Member, Struct, Values, write
from tests.independent.frames import Case, ValidFrame, encode_frame, new_frame
from tests.independent.plausible_values import leaves_no_trace

#: A diagnosis with at least this confidence counts as sure.
SURE = 0.95

#: Batches of one record, whose CRC and value differ.
_BATCHES = tuple(
    bytes.fromhex(
        f"0000000000000000 0000003a ffffffff 02 {crc} 0000 00000000 00000190a1b2c3d4 00000190a1b2c3d4"
        f"ffffffffffffffff ffff ffffffff 00000001 10 00 00 00 01 04 {value} 00"
    )
    for crc, value in (("a7a1b2c3", "6869"), ("01f3d27b", "796f"), ("5c0d9e11", "6f6b"))
)


def _partitions(name: str = "partition_index", **values: Any) -> list[Values]:
    """Return three partitions; a value that is a tuple has one element for each partition."""
    return [
        {name: index}
        | {key: value[index] if isinstance(value, tuple) else deepcopy(value) for key, value in values.items()}
        for index in range(3)
    ]


def _topics(partitions: list[Values], *, topic: str = "name", inside: str = "partitions") -> list[Values]:
    return [{topic: name, inside: deepcopy(partitions)} for name in ("orders", "payments")]


_GROUP = {"group_id": "billing", "generation_id_or_member_epoch": 7, "group_instance_id": None,
          "member_id": "consumer-billing-1-0f4e8b5c-2a77-4f3e-9d3b-6a1c2d3e4f50"}  # fmt: skip
_OFFSETS = {"committed_offset": (4711, 12, 980), "committed_leader_epoch": (3, 0, 5)}
_NO_ERROR = {"throttle_time_ms": 0, "error_code": 0}

#: Realistic messages: the name, its versions, and the body.
MESSAGES: list[tuple[str, tuple[int, ...], Values]] = [
    ("ProduceRequest", (3, 9, 12), {
        "transactional_id": None, "acks": -1, "timeout_ms": 30_000,
        "topic_data": _topics(_partitions("index", records=_BATCHES), inside="partition_data")}),
    ("ProduceResponse", (7, 9, 12), {
        "throttle_time_ms": 0,
        "responses": _topics(_partitions(
            "index", error_code=0, base_offset=(51_123, 88_001, 7), log_append_time_ms=-1, log_start_offset=(0, 20, 0),
            record_errors=[], error_message=None), inside="partition_responses")}),
    ("FetchRequest", (11, 12), {
        "replica_id": -1, "max_wait_ms": 500, "min_bytes": 1, "max_bytes": 52_428_800, "isolation_level": 0,
        "session_id": 0, "session_epoch": 0, "forgotten_topics_data": [], "rack_id": "",
        "topics": _topics(_partitions(
            "partition", current_leader_epoch=(4, 4, 9), fetch_offset=(51_124, 88_002, 8), last_fetched_epoch=-1,
            log_start_offset=-1, partition_max_bytes=1_048_576), topic="topic")}),
    ("FetchResponse", (11, 12), {
        **_NO_ERROR, "session_id": 0,
        "responses": _topics(_partitions(
            error_code=0, high_watermark=(51_124, 88_002, 8), last_stable_offset=(51_124, 88_002, 8),
            log_start_offset=(0, 20, 0), aborted_transactions=None, preferred_read_replica=-1, records=_BATCHES),
            topic="topic")}),
    ("OffsetCommitRequest", (7, 9), _GROUP | {
        "topics": _topics(_partitions(**_OFFSETS, committed_metadata=""))}),
    ("OffsetCommitResponse", (7, 9), {
        "throttle_time_ms": 0, "topics": _topics(_partitions(error_code=0))}),
    ("OffsetFetchResponse", (5, 7), {
        **_NO_ERROR, "topics": _topics(_partitions(**_OFFSETS, metadata="", error_code=0))}),
    ("OffsetFetchResponse", (8,), {
        **_NO_ERROR, "groups": [{"group_id": "billing", "error_code": 0,
                                 "topics": _topics(_partitions(**_OFFSETS, metadata="", error_code=0))}]}),
    ("ListOffsetsRequest", (5, 7), {
        "replica_id": -1, "isolation_level": 0,
        "topics": _topics(_partitions(current_leader_epoch=(4, 4, 9), timestamp=-1))}),
    ("ListOffsetsResponse", (5, 7), {
        "throttle_time_ms": 0,
        "topics": _topics(_partitions(
            error_code=0, timestamp=-1, offset=(51_124, 88_002, 8), leader_epoch=(4, 4, 9)))}),
    ("MetadataResponse", (8, 12), {
        "throttle_time_ms": 0, "cluster_id": "MkU3OEVBNTcwNTJENDM2Qg", "controller_id": 2, "error_code": 0,
        "brokers": [{"node_id": node, "host": f"kafka-{node}.example.com", "port": 9092, "rack": None}
                    for node in (1, 2, 3)],
        "cluster_authorized_operations": -(1 << 31),
        "topics": [{"error_code": 0, "name": name, "topic_id": topic_id, "is_internal": False,
                    "topic_authorized_operations": -(1 << 31),
                    "partitions": _partitions(error_code=0, leader_id=(1, 2, 3), leader_epoch=(4, 4, 9),
                                              replica_nodes=([1, 2], [2, 3], [3, 1]),
                                              isr_nodes=([1, 2], [2, 3], [3, 1]), offline_replicas=[])}
                   for name, topic_id in (("orders", "J8mAkzRyS6yJkB4mHqQxVA"),
                                          ("payments", "p1Rr2bN4T1mAyJ3Hn0ZcWg"))],
    }),
    ("TxnOffsetCommitRequest", (3,), _GROUP | {
        "transactional_id": "billing-tx", "producer_id": 9001, "producer_epoch": 2,
        "topics": _topics(_partitions(**_OFFSETS, committed_metadata=""))}),
    ("TxnOffsetCommitResponse", (3,), {
        "throttle_time_ms": 0, "topics": _topics(_partitions(error_code=0))}),
    ("AddPartitionsToTxnResponse", (3,), {
        "throttle_time_ms": 0,
        "results_by_topic_v3_and_below": _topics(_partitions(partition_error_code=0), inside="results_by_partition")}),
    ("DeleteRecordsRequest", (2,), {
        "timeout_ms": 30_000, "topics": _topics(_partitions(offset=(51_124, 88_002, 8)))}),
    ("DeleteRecordsResponse", (2,), {
        "throttle_time_ms": 0, "topics": _topics(_partitions(low_watermark=(51_124, 88_002, 8), error_code=0))}),
]  # fmt: skip

_WIDER = {"int8": "int16", "int16": "int32", "int32": "int64", "int64": "int32"}


_FAMILIES = {"tag buffer": "tag buffer missing or twice", "without": "field missing", " as ": "integer width"}


class Entry(NamedTuple):
    """An entry of a nested array: its path, its struct, the list that contains it, and its index there."""

    where: str
    struct: Struct
    siblings: list[Any]
    index: int


def valid_frames() -> Iterator[ValidFrame]:
    """Yield the correct frames."""
    for name, versions, body in MESSAGES:
        is_request = name.endswith("Request")
        api = api_by_name(name.removesuffix("Request" if is_request else "Response"))
        assert api is not None
        for version in versions:
            values: dict[str, Values] = {"header": {"correlation_id": 5}, "body": deepcopy(body)}
            if is_request:
                values["header"] |= {
                    "request_api_key": api.key, "request_api_version": version, "client_id": "billing-7",
                }  # fmt: skip
            header = header_versions(api.key, version)[0 if is_request else 1]
            yield ValidFrame(name, api.key, version, header, values, "one_entry")


def entries(struct: Struct, values: Values, location_prefix: str = "", depth: int = 0) -> Iterator[Entry]:
    """Yield the entries of nested arrays."""
    for member in struct.members:
        if not member.array or member.inner is None:
            continue
        for index, element in enumerate(values.get(member.name) or ()):
            location = f"{location_prefix}{member.name}[{index}]"
            if depth:
                yield Entry(location, member.inner, values[member.name], index)
            yield from entries(member.inner, element, f"{location}.", depth + 1)


def faults(struct: Struct) -> Iterator[tuple[str, Struct]]:
    """Yield each way to write one entry wrongly, with the struct as written."""
    for position, member in enumerate(struct.members):
        other_members = (*struct.members[:position], *struct.members[position + 1 :])
        if other_members or struct.buffers:
            yield f"without {member.name}", Struct(list(other_members), struct.tagged, struct.buffers)
        if member.kind in _WIDER and not member.array:
            yield (
                f"{member.name} as {_WIDER[member.kind]}",
                _replace_member(struct, position, _with_kind(member, _WIDER[member.kind])),
            )
    if struct.buffers:
        yield "without tag buffer", Struct(list(struct.members))
        yield "with two tag buffers", Struct(list(struct.members), struct.tagged, 2)


def _with_kind(member: Member, kind: str) -> Member:
    changed = copy(member)
    changed.kind = kind
    return changed


def _replace_member(struct: Struct, position: int, member: Member) -> Struct:
    return Struct([*struct.members[:position], member, *struct.members[position + 1 :]], struct.tagged, struct.buffers)


def cases() -> Iterator[Case]:
    """Yield a case for each fault in each entry of an inner array."""
    for valid in valid_frames():
        frame = new_frame(valid, Random(0))
        original, values = encode_frame(frame), deepcopy(frame.values)
        for entry in entries(frame.body, frame.values["body"]):
            right_values = entry.siblings[entry.index]
            for fault, struct in faults(entry.struct):
                entry.siblings[entry.index] = write(struct, right_values)
                family = next(family for fault_part, family in _FAMILIES.items() if fault_part in fault)
                yield Case(family, valid, original, encode_frame(frame), values, f"{entry.where} {fault}")
                entry.siblings[entry.index] = right_values


@dataclass
class Tally:
    """Counts of cases by family; `missed` lists the cases whose fault is not the first edit."""

    families: dict[str, Counter[str]] = field(default_factory=dict)
    missed: list[dict[str, object]] = field(default_factory=list)

    def add(self, case: Case) -> None:
        """Diagnose and count a case."""
        count = self.families.setdefault(case.family, Counter())
        if leaves_no_trace(case):
            count["no trace"] += 1
            return
        reported = diagnoses(case)
        layout = right_layout_of(case)
        edits = _edits(reported)
        ranks = [index for index, edit in enumerate(edits) if reproduces(edit, layout, case)]
        is_sure = bool(reported) and reported[0].confidence >= SURE
        count["cases"] += 1
        count["first"] += 0 in ranks
        count["named"] += bool(ranks)
        count["sure"] += is_sure
        count["wrong but sure"] += is_sure and 0 not in ranks
        if 0 not in ranks:
            self.missed.append({"name": case.valid.name, "version": case.valid.version, "fault": case.shape,
                               "place": ranks[:1], "confidence": reported[0].confidence if reported else None,
                               "edits": [str(edit) for edit in edits[:3]], "frame": case.broken.hex(), })  # fmt: skip

    @property
    def total(self) -> Counter[str]:
        """The counts of all families."""
        return sum(self.families.values(), Counter())

    def __str__(self) -> str:
        rows = [
            "| fault in one entry | cases | no trace | first | named | wrong, 95 % or more |",
            "|---|---|---|---|---|---|",
        ]
        for family, count in (*self.families.items(), ("all", self.total)):
            shares = [f"{count[name] / max(count['cases'], 1):.1%}" for name in ("first", "named")]
            cells = [family, str(count["cases"]), str(count["no trace"]), *shares, str(count["wrong but sure"])]
            rows.append(f"| {' | '.join(cells)} |")
        return "\n".join(rows)


def _edits(diagnoses_found: list[Diagnosis]) -> list[Edit]:
    return [
        edit
        for diagnosis in diagnoses_found[:1]
        for edit in (diagnosis.edit, *(rival.edit for rival in diagnosis.rivals))
    ]


def tally(broken_cases: Iterable[Case]) -> Tally:
    """Diagnose cases, and return their tally."""
    tally = Tally()
    for case in broken_cases:
        tally.add(case)
    return tally


def main() -> None:
    """Print the table."""
    result = tally(cases())
    print(result)  # noqa: T201  # show the table
    if path := os.environ.get("MISSED"):
        Path(path).write_text(
            "".join(json.dumps(missed_case) + "\n" for missed_case in result.missed), encoding="utf-8"
        )


if __name__ == "__main__":
    main()
