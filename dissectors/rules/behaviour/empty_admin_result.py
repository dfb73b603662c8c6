"""S045: a response without an entry for what was requested."""

from __future__ import annotations

from collections.abc import Iterator

from dissectors.connections.events import ResponseReceived
from dissectors.findings import Problem, Severity
from dissectors.messages.locate import locate
from dissectors.rules import rule
from dissectors.trackers.state import ConnectionState

_TOPIC = 2

#: API -> (array in the request, array in the response that must have an entry for each). Versions may differ.
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
}


@rule("S045", severity=Severity.WARNING, events=(ResponseReceived,), apis=tuple(_RESULTS), since="0.1", blame="broker")
def empty_admin_result(event: ResponseReceived, _: ConnectionState) -> Iterator[Problem]:
    """Checks that a response has an entry for everything that the request names, even if only an error.

    ## Why it matters
    Clients look up the result of each topic or group in the response. If it is missing, they wait until a timeout,
    report success for something that was not done, or hit a null.

    ## Usual cause
    A broker or gateway that accepts the API but does not implement it, and answers with an empty list.

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

    ## Looks alike
    ```story
    > CreatePartitions v1 {"topics": []}
    < {"results": []}
    > DescribeConfigs v2 {"resources": [{"resource_type": 2, "resource_name": "orders", "configuration_keys": ["x"]}]}
    < {"results": [{"resource_type": 2, "resource_name": "orders", "configs": []}]}
    ```

    ## Sources
    https://kafka.apache.org/protocol#protocol_messages
    https://github.com/nisshi-io/nisshi/blob/main/compat/librdkafka/FINDINGS.md
    """
    asked, message = event.request_body, event.message
    if asked is None or message is None or message.body.get("error_code"):
        return
    for request_field, response_field in _RESULTS[message.api]:
        if (requested := asked.get(request_field)) and message.body.get(response_field) == []:
            yield Problem(
                f"{message.api} requested {len(requested)} of {request_field}, but the response has an empty "
                f"list of {response_field}, without an error",
                hint="fix the broker: it must answer for each of them, if only with an error code",
                expected=f"{len(requested)} entries",
                got="none",
                **locate(message, response_field),
            )
    if message.api == "DescribeConfigs":
        topics_without_keys = {
            each.get("resource_name")
            for each in asked.get("resources") or ()
            if each.get("resource_type") == _TOPIC and each.get("configuration_keys") is None
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
