"""Checks of requests about topics, partitions and configs.

Sources: ReplicationControlManager.createTopic and createPartitions, ControllerApis.createTopics and deleteTopics,
Topic.validate, ConfigurationControlManager.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator
from typing import Any

from dissectors.refusals.validation.violation import Values, Violation, rows, validates, value_text
from dissectors.schemas.codes import Error

_INVALID = Error.INVALID_REQUEST
_VALID_NAME = re.compile(r"[a-zA-Z0-9._-]{1,249}")
_ZERO_UUID = "A" * 22  # all zeros


@validates("CreateTopics")
def check_create_topics(body: Values, version: int) -> Iterator[Violation]:
    """Check that each topic has either counts or a complete assignment."""
    topics = rows(body, "topics")
    yield from _check_duplicates((topic.get("name", "") for topic in topics), "topic")
    for topic in topics:
        name, assignments = topic.get("name", ""), rows(topic, "assignments")
        yield from _check_name(name)
        partitions, factor = topic.get("num_partitions", -1), topic.get("replication_factor", -1)
        if assignments:
            for field, value in (("num_partitions", partitions), ("replication_factor", factor)):
                if value != -1:
                    yield Violation(
                        _INVALID, f"{field} is {value}, although assignments are set",
                        f"send {field} -1 with assignments, or no assignments", name,
                        "num_partitions and replication_factor must be -1 with assignments",
                    )  # fmt: skip
            yield from _check_assignments(name, assignments)
            continue
        default_note = ", or -1 for the default" if version >= 4 else ""  # KIP-464
        if partitions < -1 or partitions == 0:
            yield Violation(
                Error.INVALID_PARTITIONS, f"num_partitions is {partitions}", f"use 1 or more{default_note}", name
            )
        if factor < -1 or factor == 0:
            yield Violation(
                Error.INVALID_REPLICATION_FACTOR,
                f"replication_factor is {factor}",
                f"use 1 or more{default_note}",
                name,
            )


def _check_assignments(name: str, assignments: list[Values]) -> Iterator[Violation]:
    error = Error.INVALID_REPLICA_ASSIGNMENT
    indexes = [assignment.get("partition_index", 0) for assignment in assignments]
    if sorted(indexes) != list(range(len(indexes))):
        yield Violation(
            error,
            f"assignments name the partitions {_shortened_list(sorted(indexes))}",
            "name each partition from 0 on once",
            name,
        )
    replica_lists: list[list[Any]] = [assignment.get("broker_ids") or [] for assignment in assignments]
    if len({len(broker_ids) for broker_ids in replica_lists}) > 1:
        yield Violation(error, "partitions have different numbers of replicas", "name as many brokers for each", name)
    for index, brokers in zip(indexes, replica_lists, strict=True):
        if not brokers:
            yield Violation(error, f"partition {index} has no brokers", "name at least one broker", name)
        elif len(set(brokers)) < len(brokers):
            yield Violation(error, f"partition {index} has a broker twice", "name each broker once", name)


@validates("CreatePartitions")
def check_create_partitions(body: Values, _: int) -> Iterator[Violation]:
    """Check that the number of partitions is positive, and that assignments are null or not empty."""
    topics = rows(body, "topics")
    yield from _check_duplicates((topic.get("name", "") for topic in topics), "topic")
    for topic in topics:
        if (count := topic.get("count", 1)) <= 0:
            yield Violation(
                Error.INVALID_PARTITIONS, f"count is {count}", "use the new total number of partitions",
                topic.get("name", ""),
            )  # fmt: skip
        if topic.get("assignments") == []:
            yield Violation(
                Error.INVALID_REPLICA_ASSIGNMENT,
                "assignments is an empty list, which assigns none of the new partitions",
                "send assignments null, so that the broker assigns the replicas, or one entry for each new partition",
                topic.get("name", ""),
            )


@validates("DeleteTopics")
def check_delete_topics(body: Values, _: int) -> Iterator[Violation]:
    """Check that each topic occurs once, with either its name or its id."""
    yield from _check_duplicates(body.get("topic_names") or (), "topic")
    topics = rows(body, "topics")
    yield from _check_duplicates((topic["name"] for topic in topics if topic.get("name")), "topic")
    for topic in topics:
        has_id = topic.get("topic_id", _ZERO_UUID) != _ZERO_UUID
        if has_id and topic.get("name") is not None:
            yield Violation(_INVALID, "name and topic_id are both set", "send one of them", topic["name"])
        elif not has_id and topic.get("name") is None:
            yield Violation(_INVALID, "neither name nor topic_id is set", "send one of them")


@validates("Metadata")
def check_metadata(body: Values, version: int) -> Iterator[Violation]:
    """Check that each topic has a valid name or, from version 12 on, an id."""
    for topic in rows(body, "topics"):
        name = topic.get("name")
        if name is None:
            if version < 12:
                yield Violation(_INVALID, "the name of a topic is null", "send its name, or Metadata v12 with its id")
        else:
            yield from _check_name(name)


@validates("AlterConfigs", "IncrementalAlterConfigs", "DescribeConfigs")
def check_configs(body: Values, _: int) -> Iterator[Violation]:
    """Check that each resource occurs once, and each of its configs once."""
    resources = rows(body, "resources")
    counts = Counter((resource.get("resource_type"), resource.get("resource_name", "")) for resource in resources)
    for (_kind, name), times in counts.items():
        if times > 1:
            yield Violation(_INVALID, f"resource {name!r} is in the request {times} times", "name it once", name)
    for resource in resources:
        name = resource.get("resource_name", "")
        keys = Counter(row.get("name", "") for row in rows(resource, "configs"))
        for key, times in keys.items():
            if times > 1:
                yield Violation(_INVALID, f"config {key!r} is set {times} times", "set each config once", name)


def _check_name(name: str) -> Iterator[Violation]:
    if name in ("", ".", "..") or not _VALID_NAME.fullmatch(name):
        reason = f"has {len(name)} characters" if len(name) > 249 else f"is {value_text(name[:50])}"
        yield Violation(
            Error.INVALID_TOPIC_EXCEPTION, f"the name {reason}",
            "use 1 to 249 characters of a-z, A-Z, 0-9, '.', '_' and '-', and not '.' or '..'", name,
        )  # fmt: skip


def _check_duplicates(names: Iterable[str], kind: str) -> Iterator[Violation]:
    for name, times in Counter(names).items():
        if times > 1:
            yield Violation(
                _INVALID, f"{kind} {name!r} is in the request {times} times", f"name each {kind} once", name
            )


def _shortened_list(numbers: list[int]) -> str:
    return ", ".join(map(str, numbers[:5])) + (", ..." if len(numbers) > 5 else "")
