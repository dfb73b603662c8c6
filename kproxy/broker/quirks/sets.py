"""Named sets of quirks: single bugs of real brokers, and brokers with several bugs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True, slots=True)
class QuirkSet:
    """A description in a sentence, and the quirks in their notation."""

    description: str
    quirks: tuple[str, ...]


_HARD_CODED: Final = (
    "Metadata:value:brokers[].host:localhost",
    "Metadata:value:brokers[].port:9092",
    "DescribeCluster:value:brokers[].host:localhost",
    "DescribeCluster:value:brokers[].port:9092",
    "FindCoordinator:value:host:localhost",
    "FindCoordinator:value:port:9092",
    "FindCoordinator:4+:value:coordinators[].host:localhost",
    "FindCoordinator:4+:value:coordinators[].port:9092",
)
_THROTTLE_IN_V0: Final = "ApiVersions:0:from_version:throttle_time_ms:1:last"
_PRODUCE_THROTTLE_FIRST: Final = "Produce:1-8:moved:throttle_time_ms:first"
_RECORD_LENGTH: Final = "Fetch:record_encoding:responses[].partitions[].records:record_length_int32"
_COORDINATOR_V1: Final = "FindCoordinator:0:body_version:1"

SETS: Final[dict[str, QuirkSet]] = {
    "apiversions-v0-throttle": QuirkSet("ApiVersions v0 ends with the throttle time of v1", (_THROTTLE_IN_V0,)),
    "apiversions-v3-nonflex": QuirkSet(
        "ApiVersions v3 responses lack compact lengths and tag buffers", ("ApiVersions:3+:flexibility:fixed",)
    ),
    "apiversions-header-v1": QuirkSet(
        "ApiVersions v3 responses have a tag buffer in the header, which ApiVersions never has",
        ("ApiVersions:3+:header_version:1",),
    ),
    "metadata-throttle-first": QuirkSet(
        "every version of Metadata begins with the throttle time of v3",
        ("Metadata:versions:0:2", "Metadata:0-2:from_version:throttle_time_ms:3:first"),
    ),
    "metadata-v0-v1fields": QuirkSet(
        "Metadata v0, the only one served, has the fields of v1",
        ("Metadata:versions:0:0", "Metadata:0:body_version:1"),
    ),
    "findcoordinator-v0-v1fields": QuirkSet(
        "FindCoordinator v0, the only one served, has the throttle time and the error message of v1",
        ("FindCoordinator:versions:0:0", _COORDINATOR_V1),
    ),
    "joingroup-v2-throttle-end": QuirkSet(
        "JoinGroup v2 has its throttle time last instead of first",
        ("JoinGroup:versions:0:2", "JoinGroup:2:moved:throttle_time_ms:last"),
    ),
    "joingroup-v2-throttle-dup": QuirkSet(
        "JoinGroup v2 has its throttle time twice, first and last",
        ("JoinGroup:versions:0:2", "JoinGroup:2:duplicated:throttle_time_ms:last"),
    ),
    "produce-throttle-first": QuirkSet(
        "Produce has its throttle time first instead of last",
        ("Produce:versions:0:8", _PRODUCE_THROTTLE_FIRST),
    ),
    "batch-int32-length": QuirkSet("records in Fetch have an int32 length, not a varint", (_RECORD_LENGTH,)),
    "advertised-mismatch": QuirkSet("every broker advertises localhost:9092", _HARD_CODED),
    "corrid-wrong": QuirkSet("Metadata responses have a wrong correlation id", ("Metadata:correlation_id:+1000",)),
    "flex-header-missing": QuirkSet(
        "flexible Metadata responses lack the tag buffer of the header", ("Metadata:9+:header_version:0",)
    ),
    "go-gateway": QuirkSet(
        "a Go gateway: ApiVersions v0 with a throttle time, one Metadata layout for all versions, localhost:9092",
        (_THROTTLE_IN_V0, "Metadata:versions:0:5", "Metadata:0-5:body_version:1", *_HARD_CODED),
    ),
    "old-gateway": QuirkSet(
        "a gateway: JoinGroup, FindCoordinator, ListOffsets and Fetch with misplaced, foreign and missing fields",
        (
            "JoinGroup:versions:0:2",
            "JoinGroup:2:moved:throttle_time_ms:last",
            "FindCoordinator:versions:0:0",
            _COORDINATOR_V1,
            "ListOffsets:versions:0:2",
            "ListOffsets:2:missing:throttle_time_ms",
            "Fetch:versions:0:5",
            "Fetch:5:missing:responses[].partitions[].log_start_offset",
        ),
    ),
    "rust-server": QuirkSet(
        "a small Rust server: throttle time first in Produce, int32 record lengths, OffsetCommit is a bare error code",
        ("Produce:versions:0:8", _PRODUCE_THROTTLE_FIRST, _RECORD_LENGTH, "OffsetCommit:generic_error_body"),
    ),
}
