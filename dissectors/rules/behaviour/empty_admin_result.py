"""S045: a response that lacks an entry for something that was requested."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from dissectors.bounded import MAX_NAME_LENGTH
from dissectors.connections.events import ResponseReceived
from dissectors.findings import Problem, Severity
from dissectors.messages.locate import locate
from dissectors.messages.message import Message
from dissectors.rules import rule
from dissectors.trackers.fetches import Fetches
from dissectors.trackers.producers import Producers
from dissectors.trackers.state import ConnectionState
from dissectors.trackers.triggers import FrameFlags, Trigger

_TOPIC = 2
_MAX_NAMES = 5

#: The first version of OffsetFetch that has an error code for the group.
_GROUP_ERROR_SINCE = 2

#: API -> (array in the request, array in the response that must have an entry for each element). Versions may differ.
_RESULTS: dict[str, tuple[tuple[str, str], ...]] = {
    "CreateTopics": (("topics", "topics"),),
    "DeleteTopics": (("topics", "responses"), ("topic_names", "responses")),
    "CreatePartitions": (("topics", "results"),),
    "DeleteRecords": (("topics", "topics"),),
    "DescribeConfigs": (("resources", "results"),),
    "AlterConfigs": (("resources", "responses"),),
    "IncrementalAlterConfigs": (("resources", "responses"),),
    "DescribeGroups": (("groups", "groups"),),
    "ConsumerGroupDescribe": (("group_ids", "groups"),),
    "DeleteGroups": (("groups_names", "results"),),
    "ListOffsets": (("topics", "topics"),),
    "OffsetCommit": (("topics", "topics"),),
    "FindCoordinator": (("coordinator_keys", "coordinators"),),
    "DescribeProducers": (("topics", "topics"),),
    "DescribeTransactions": (("transactional_ids", "transaction_states"),),
    "CreateAcls": (("creations", "results"),),
    "DeleteAcls": (("filters", "filter_results"),),
    "AlterClientQuotas": (("entries", "entries"),),
    "Metadata": (("topics", "topics"),),
    "OffsetFetch": (("topics", "topics"), ("groups", "groups")),
    "OffsetForLeaderEpoch": (("topics", "topics"),),
    "TxnOffsetCommit": (("topics", "topics"),),
}
#: The same for the APIs that carry records, whose empty responses are flagged by trackers.
_RECORD_RESULTS: dict[str, tuple[tuple[str, str], ...]] = {
    "Produce": (("topic_data", "responses"),),
    "Fetch": (("topics", "responses"),),
}
#: API -> array in the response that must not be empty, and what happens if it is.
_NEVER_EMPTY = {
    "ApiVersions": ("api_keys", "the client learns of no API that it may use, and waits or gives up"),
    "SaslHandshake": ("mechanisms", "the client cannot know which mechanisms it may use"),
}

#: Fields that name the subject of an entry.
_NAME_FIELDS = ("name", "topic", "group_id", "resource_name", "transactional_id", "key")

#: Fields with a partition's index, and the APIs whose topics have an entry for each partition.
_PARTITION_FIELDS = ("partition_index", "partition", "partition_indexes")
_PARTITIONED_APIS = frozenset((
    "DeleteRecords", "DescribeProducers", "ListOffsets", "OffsetCommit", "OffsetFetch", "OffsetForLeaderEpoch",
    "TxnOffsetCommit",
))  # fmt: skip


@rule(
    "S045",
    severity=Severity.WARNING,
    events=(ResponseReceived,),
    apis=(*_RESULTS, *_NEVER_EMPTY),
    also=(Trigger((ResponseReceived,), tuple(_RECORD_RESULTS), only=FrameFlags.EMPTY),),
    needs=(Fetches, Producers),
    since="0.1",
    blame="broker",
)
def empty_admin_result(event: ResponseReceived, _: ConnectionState) -> Iterator[Problem]:
    """Checks that a response has an entry for everything that the request names, even if only an error.

    ## Why it matters
    Clients look up the result of each topic or group in the response. If it is missing, they wait until a timeout,
    report success for something that was not done, or hit a null.

    ## Usual cause
    A broker or gateway that accepts the API but does not implement it, and answers with an empty list. Or an error for
    which the version has no field: OffsetFetch v1 has no error for the group, so each partition must carry it.

    ## Example
    ```story
    > CreatePartitions v1 {"topics": [{"name": "orders", "count": 6}]}
    < {"results": []}
    ```
    A topic always has configs:
    ```story
    > DescribeConfigs v2 {"resources": [{"resource_type": 2, "resource_name": "orders", "configuration_keys": null}]}
    < {"results": [{"resource_type": 2, "resource_name": "orders", "configs": []}]}
    ```

    One of two partitions is missing:
    ```story
    > OffsetFetch v1 {"group_id": "g", "topics": [{"name": "orders", "partition_indexes": [0, 1]}]}
    < {"topics": [{"name": "orders", "partitions": [{"partition_index": 0, "committed_offset": 7}]}]}
    ```

    A Produce without a result for its partitions:
    ```story
    > Produce v9 {"acks": -1, "topic_data": [{"name": "orders", "partition_data": [{}]}]}
    < {"responses": []}
    ```

    ## Look-alikes
    Nothing was requested, or an error says why there is nothing:
    ```story
    > CreatePartitions v1 {"topics": []}
    < {"results": []}
    > OffsetFetch v2 {"group_id": "g", "topics": [{"name": "orders", "partition_indexes": [0, 1]}]}
    < {"topics": [], "error_code": 16}
    > OffsetFetch v8 {"groups": [{"group_id": "g", "topics": [{"name": "orders", "partition_indexes": [0]}]}]}
    < {"groups": [{"group_id": "g", "topics": [], "error_code": 16}]}
    > DescribeConfigs v2 {"resources": [{"resource_type": 2, "resource_name": "orders", "configuration_keys": ["x"]}]}
    < {"results": [{"resource_type": 2, "resource_name": "orders", "configs": []}]}
    ```

    ## Sources
    https://kafka.apache.org/protocol#protocol_messages
    https://github.com/nisshi-io/nisshi/blob/main/compat/librdkafka/FINDINGS.md
    https://github.com/apache/kafka/pull/19704
    """
    request_body, message = event.request_body, event.message
    if request_body is None or message is None or message.body.get("error_code"):
        return
    if message.api in _NEVER_EMPTY:
        yield from _empty_list_problems(message)
        return
    if message.api == "Fetch" and message.body.get("throttle_time_ms"):
        return  # a throttled response is empty
    for request_field, response_field in _RESULTS.get(message.api) or _RECORD_RESULTS[message.api]:
        requested, results = request_body.get(request_field), message.body.get(response_field)
        if not requested or results is None:
            continue
        if not results:
            names = _entry_labels(message.api, requested)
            names_text = f" ({_names_text(names)})" if names else ""
            entries_text = "1 entry" if len(requested) == 1 else f"{len(requested)} entries"
            yield Problem(
                f"{message.api} requested {entries_text} of {request_field}{names_text}, but the response has an "
                f"empty list of {response_field}, without an error",
                hint=_hint(message.api, message.version),
                expected=entries_text,
                got="none",
                **locate(message, response_field),
            )
        elif missing := _missing_entries(message.api, requested, results):
            yield Problem(
                f"{message.api} v{message.version} requested {_names_text(missing)}, but the response has no entry for "
                f"{'it' if len(missing) == 1 else 'them'}, and no error",
                hint=_hint(message.api, message.version),
                **locate(message, response_field),
            )
    if message.api == "DescribeConfigs":
        topics_without_keys = {
            resource.get("resource_name")
            for resource in request_body.get("resources") or ()
            if resource.get("resource_type") == _TOPIC and resource.get("configuration_keys") is None
        }
        for i, result in enumerate(message.body.get("results") or ()):
            if (
                result.get("resource_name") in topics_without_keys
                and result.get("configs") == []
                and not result.get("error_code")
            ):
                yield Problem(
                    f"DescribeConfigs of topic {result.get('resource_name')!r} has no configuration, without an error",
                    hint="fix the broker: it must return every config of a topic, including defaults",
                    **locate(message, "results", i, "configs"),
                )


def _empty_list_problems(message: Message) -> Iterator[Problem]:
    field, consequence = _NEVER_EMPTY[message.api]
    if message.body.get(field) == []:
        yield Problem(
            f"the {message.api} response has an empty list of {field}, without an error: {consequence}",
            hint=f"fix the broker: it must list its {field}, or return an error",
            **locate(message, field),
        )


def _hint(api: str, version: int) -> str:
    if api == "OffsetFetch" and version < _GROUP_ERROR_SINCE:
        return (
            f"fix the broker: OffsetFetch v{version} has no field for an error of the group, so each partition "
            "needs its own offset (-1 if none is committed) and error_code; a client repeats the request until it has "
            "them"
        )
    return "fix the broker: it must answer for each of them, if only with an error code"


def _missing_entries(api: str, requested: list[Any], results: list[Any]) -> list[str]:
    """Return the requested names that have no entry, or the missing partitions as ``orders[0,1]``."""
    if len(results) < len(requested):
        returned_names = {_entry_name(result) for result in results}
        missing = [
            entry for entry in requested if (name := _entry_name(entry)) is not None and name not in returned_names
        ]
        if missing:
            return _entry_labels(api, missing)
    if api == "OffsetFetch" and requested and "group_id" in requested[0]:
        results_by_group = {group.get("group_id"): group for group in results}
        return [
            label
            for group in requested
            if group.get("topics")
            and (group_result := results_by_group.get(group.get("group_id")))
            and not group_result.get("error_code")
            for label in _missing_partitions(group["topics"], group_result.get("topics") or [])
        ]
    return _missing_partitions(requested, results) if api in _PARTITIONED_APIS else []


def _missing_partitions(requested: list[Any], results: list[Any]) -> list[str]:
    if sum(map(_partition_count, results)) >= sum(map(_partition_count, requested)):
        return []
    returned: dict[str | None, set[int]] = {}
    for topic in results:
        returned.setdefault(_entry_name(topic), set()).update(_partition_indexes(topic))
    return [
        f"{name}[{','.join(map(str, missing))}]"
        for topic in requested
        if (name := _entry_name(topic)) is not None
        and (missing := sorted(set(_partition_indexes(topic)) - returned.get(name, set())))
    ]


def _partition_rows(topic: dict[str, Any]) -> Sequence[Any]:
    """Return the partitions of a topic: structs or indexes."""
    return topic.get("partitions") or topic.get("partition_indexes") or ()


def _partition_count(topic: dict[str, Any]) -> int:
    return len(_partition_rows(topic))


def _partition_indexes(topic: dict[str, Any]) -> list[int]:
    """Return the partition indexes of a topic."""
    return [
        next((row[field] for field in _PARTITION_FIELDS if field in row), -1) if isinstance(row, dict) else row
        for row in _partition_rows(topic)
    ]


def _entry_labels(api: str, entries: list[Any]) -> list[str]:
    """Return the names of entries; a topic's name is followed by its partitions."""
    labels = []
    for entry in entries:
        if (name := _entry_name(entry)) is not None:
            partitions = (
                ",".join(map(str, _partition_indexes(entry)))
                if api in _PARTITIONED_APIS and "group_id" not in entry
                else ""
            )
            labels.append(f"{name}[{partitions}]" if partitions else name)
    return labels


def _entry_name(entry: Any) -> str | None:
    """Return the name of an entry's subject, or None if it has none, e.g. a topic with only an id."""
    if not isinstance(entry, dict):
        return entry if isinstance(entry, str) else None
    return next((entry[field] for field in _NAME_FIELDS if entry.get(field) is not None), None)


def _names_text(names: list[str]) -> str:
    """Return the first names as text, and how many more there are."""
    more_count = len(names) - _MAX_NAMES
    return ", ".join(name[:MAX_NAME_LENGTH] for name in names[:_MAX_NAMES]) + (
        f" and {more_count} more" if more_count > 0 else ""
    )
