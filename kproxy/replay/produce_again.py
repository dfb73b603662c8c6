"""Repeated Produce requests: clients produce again only to the partitions that were not ready."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

Row = dict[str, Any]
#: A topic (its name, or its id from version 13 on) and a partition.
_Partition = tuple[str, int]


def failed_partitions(response: Row) -> set[_Partition]:
    """Return the partitions in a response that have an error."""
    return {key for key, partition in _keyed_partitions(response) if partition["error_code"]}


def stored_partitions(response: Row) -> set[_Partition]:
    """Return the partitions in a response that have no error."""
    return {key for key, partition in _keyed_partitions(response) if not partition["error_code"]}


def limit_to(request: Row, partitions: set[_Partition]) -> Row:
    """Return the body of a request with only these partitions."""
    topics = [
        {**topic, "partition_data": data}
        for topic in request["topic_data"]
        if (
            data := [
                partition
                for partition in topic["partition_data"]
                if (_topic_key(topic), partition["index"]) in partitions
            ]
        )
    ]
    return {**request, "topic_data": topics}


def merge_responses(earlier_row: Row, later_row: Row) -> Row:
    """Return the body of a response in which the partitions in `later_row` replace those in `earlier_row`."""
    later_partitions = dict(_keyed_partitions(later_row))
    topics = [
        {
            **topic,
            "partition_responses": [
                later_partitions.get((_topic_key(topic), response["index"]), response)
                for response in topic["partition_responses"]
            ],
        }
        for topic in earlier_row["responses"]
    ]
    return {**earlier_row, **later_row, "responses": topics}


def with_topic_ids(body: Row, array: str, map_id: Callable[[str], str]) -> Row:
    """Return a body in which the topic ids in an array of topics are mapped."""
    return {
        **body,
        array: [
            {**topic, "topic_id": map_id(topic["topic_id"])} if "topic_id" in topic else topic for topic in body[array]
        ],
    }


def _keyed_partitions(response: Row) -> Iterator[tuple[_Partition, Row]]:
    for topic in response["responses"]:
        for partition in topic["partition_responses"]:
            yield (_topic_key(topic), partition["index"]), partition


def _topic_key(topic: Row) -> str:
    name: str = topic.get("name") or topic.get("topic_id", "")
    return name
