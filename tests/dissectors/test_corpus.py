"""Compare with Kafka's own classes: every message in every version and both releases, as they write and print it.

A row has a message's body and, for requests and responses, its whole frame with the header, as hex with Kafka's JSON.
``tame`` has everyday values, ``seed1`` extreme ones; a fifth of the flexible rows carry an unknown tag. The releases
differ only in the ways that are listed here.
"""

import base64
import gzip
import json
import struct
from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from dissectors import schemas
from dissectors.messages.message import Message, read_request, read_response, walk_message
from dissectors.wire.compiled import decoder
from dissectors.wire.encode import encode
from dissectors.wire.layout import Layout, layout, snake_case
from dissectors.wire.walk import DecodeWarning, walk
from tests.dissectors.spans import find_gap

FILES = ("corpus-tame", "corpus-seed1")

#: Fields with another name in 3.9.1: the newer name wins. The rows with such a field are counted over both files.
RENAMED_FIELDS = {
    "TxnOffsetCommitRequest": {"generation_id": "generation_id_or_member_epoch"},
    "VoteRequest": {
        "candidate_epoch": "replica_epoch",
        "candidate_id": "replica_id",
        "candidate_directory_id": "replica_directory_id",
    },
    "ListConfigResourcesResponse": {"client_metrics_resources": "config_resources", "name": "resource_name"},
}
RENAMED_ROWS = {"TxnOffsetCommitRequest": 20, "VoteRequest": 9, "ListConfigResourcesResponse": 10}

#: Early access in 3.9.1, with one field fewer than in 4.4.0 and the same version number: if a row contains the struct
#: with that field, its bytes do not fit.
INCOMPATIBLE_ROWS = {("3.9.1", "ReadShareGroupStateSummaryResponse"): 4, ("3.9.1", "ShareGroupMetadataValue"): 10}


class Row(NamedTuple):
    number: int
    api: str
    layout: Layout
    body: bytes
    json: dict[str, Any]
    raw: dict[str, Any]

    def __str__(self) -> str:
        return f"row {self.number}, {self.raw['api']} v{self.raw['version']} of {self.raw['release']}"

    @property
    def is_incompatible(self) -> bool:
        """Whether its release wrote it in a layout whose version number the later release uses for another layout."""
        if self.raw["release"] != "3.9.1":
            return False
        if self.api == "ReadShareGroupStateSummaryResponse":
            return any(result["partitions"] for result in self.json["results"])
        return self.api == "ShareGroupMetadataValue"


def rows(file: str) -> Iterator[Row]:
    newer_names = {old: message["name"] for message in map(schemas.message, schemas.message_names())
                   for old in message.get("aliases", {}).values()}  # fmt: skip
    path = Path(__file__).parents[1] / "data" / f"{file}.jsonl.gz"
    with gzip.open(path, "rt", encoding="utf-8") as lines:
        for number, line in enumerate(lines, 1):
            raw = json.loads(line)
            api = newer_names.get(raw["api"], raw["api"])
            # A coordinator's key has one layout; 3.9.1 counted its record type as the version.
            is_coordinator_key = schemas.message(api)["type"] == "coordinator-key"
            version = 0 if is_coordinator_key else raw["version"]
            newer_field_names = RENAMED_FIELDS.get(api, {}) if raw["release"] == "3.9.1" else {}
            yield Row(
                number,
                api,
                layout(api, version),
                bytes.fromhex(raw["body_hex"]),
                rename_fields(raw["json"], newer_field_names),
                raw,
            )


def rename_fields(value: Any, names: dict[str, str]) -> Any:
    """Return Kafka's JSON with kproxy's field names."""
    if isinstance(value, dict):
        snake_cased = {snake_case(name): rename_fields(inner, names) for name, inner in value.items()}
        return {names.get(name, name): inner for name, inner in snake_cased.items()}
    return [rename_fields(inner, names) for inner in value] if isinstance(value, list) else value


def as_kafka_prints(value: Any) -> Any:
    """Return decoded values as Kafka's converter prints them: bytes as base64, without unknown tags."""
    if isinstance(value, dict):
        return {name: as_kafka_prints(inner) for name, inner in value.items() if name != "_tags"}
    if isinstance(value, list):
        return [as_kafka_prints(inner) for inner in value]
    return base64.b64encode(value).decode() if isinstance(value, bytes | memoryview) else value


def has_real_warnings(decode_warnings: Iterable[DecodeWarning]) -> bool:
    """Return whether anything but a value is odd: the rows have arbitrary numbers, such as unknown error codes."""
    return any(warning.kind != "implausible" for warning in decode_warnings)


def body_problem(row: Row) -> str | None:
    """Return what is wrong with our reading of a row, or None if nothing is."""
    walked = walk(row.layout, row.body)
    try:
        values, end, _ = decoder(row.layout)(row.body, 0)
    except (ValueError, IndexError, struct.error) as error:
        if not walked.decode_warnings:  # extreme values are left to the walk
            return f"{row}: the compiled decoder refuses it: {error!r}"
        values, end = walked.values, walked.end
    if end != len(row.body):
        return f"{row}: {len(row.body) - end} bytes left"
    if as_kafka_prints(values) != row.json:
        return f"{row}: read {as_kafka_prints(values)}, Kafka says {row.json}"
    if encode(row.layout, values) != row.body:
        return f"{row}: encodes to {encode(row.layout, values).hex()}, Kafka wrote {row.body.hex()}"
    if walked.error or has_real_warnings(walked.decode_warnings):
        return f"{row}: the walk says {walked.error or walked.decode_warnings}"
    if walked.values != values or walked.end != end:
        return f"{row}: the walk reads {walked.values} up to {walked.end}"
    if gap := find_gap(walked.nodes, 0, end):
        return f"{row}: {gap}"
    return None


def read_frame(row: Row) -> Message:
    frame = bytes.fromhex(row.raw["frame_hex"])
    if row.raw["type"] == "request":
        return read_request(frame)
    return read_response(frame, row.raw["api_key"], row.raw["version"])


def frame_problem(row: Row) -> str | None:
    message = read_frame(row)
    if message.error or message.trailing or has_real_warnings(message.decode_warnings) or message.opaque:
        return f"{row}: {message.error or message.decode_warnings or message.opaque or 'bytes are left'}"
    if message.header != rename_fields(row.raw["header"], {}):
        return f"{row}: header {message.header}, Kafka says {row.raw['header']}"
    if as_kafka_prints(message.body) != row.json:
        return f"{row}: body {as_kafka_prints(message.body)}, Kafka says {row.json}"
    if (message.api + ("Request" if message.is_request else "Response"), message.version) != (
        row.api,
        row.raw["version"],
    ):
        return f"{row}: taken for {message.api} v{message.version}"
    tree = walk_message(message)
    return f"{row}: {gap}" if (gap := find_gap(tree.nodes, 0, len(message.frame))) else None


def report(problems: list[str]) -> str:
    return f"{len(problems)} rows are wrong:\n" + "\n".join(problems[:5])


@pytest.mark.slow
@pytest.mark.parametrize("file", FILES)
def test_every_body_is_decoded_and_encoded_as_in_kafka(file: str) -> None:
    problems = [problem for row in rows(file) if not row.is_incompatible and (problem := body_problem(row))]
    assert not problems, report(problems)


@pytest.mark.slow
@pytest.mark.parametrize("file", FILES)
def test_every_frame_is_decoded_with_its_header(file: str) -> None:
    frames = (row for row in rows(file) if "frame_hex" in row.raw and not row.is_incompatible)
    problems = [problem for row in frames if (problem := frame_problem(row))]
    assert not problems, report(problems)


@pytest.mark.slow
def test_corpus_has_every_api_version_in_both_directions() -> None:
    corpus_frames = {(row.raw["api_key"], row.raw["version"], row.raw["type"]) for file in FILES for row in rows(file)
            if "frame_hex" in row.raw}  # fmt: skip
    assert corpus_frames == {
        (api.key, version, kind)
        for api in schemas.apis()
        for version in api.versions
        for kind in ("request", "response")
    }


@pytest.mark.slow
def test_only_the_listed_rows_differ_from_the_schemas() -> None:
    renamed_rows: Counter[str] = Counter()
    incompatible: Counter[tuple[str, str]] = Counter()
    for file in FILES:
        for row in rows(file):
            if row.is_incompatible:
                incompatible[row.raw["release"], row.api] += 1
                assert body_problem(row) is not None, f"{row} is read without a problem: it is no difference"
            elif row.json != rename_fields(row.raw["json"], {}):
                renamed_rows[row.api] += 1
    assert renamed_rows == RENAMED_ROWS
    assert incompatible == INCOMPATIBLE_ROWS
