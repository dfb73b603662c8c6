"""L027: a response about topics that the request does not name."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from dissectors.connections.events import ResponseReceived
from dissectors.findings import Problem, Severity
from dissectors.messages.locate import locate
from dissectors.rules import rule
from dissectors.trackers.state import ConnectionState
from dissectors.wire.layout import Layout, cached_on_owner

_APIS = ("Produce", "ListOffsets", "OffsetCommit", "OffsetForLeaderEpoch", "DeleteRecords", "CreateTopics",
         "TxnOffsetCommit", "AddPartitionsToTxn", "OffsetDelete")  # fmt: skip


@rule("L027", severity=Severity.ERROR, events=(ResponseReceived,), apis=_APIS, since="0.1", blame="broker")
def request_body_shift(event: ResponseReceived, _: ConnectionState) -> Iterator[Problem]:
    """Checks that a response is about the topics in its request.

    ## Why it matters
    The response is well-formed, but the server read the request at the wrong offset: it took a client id, a length or
    a timeout for a topic name, and may have stored data under that name.

    ## Usual cause
    A server that skips or duplicates a field of the request: the client id, transactional_id, acks or timeout_ms.

    ## Example
    ```story
    > Produce v3 {"acks": 1, "timeout_ms": 1000, "topic_data": [{"name": "orders", "partition_data": [{"index": 0}]}]}
    < {"responses": [{"name": "app", "partition_responses": [{"index": 0, "base_offset": 7}]}]}
    ```

    ## Look-alikes
    ```story
    > Produce v3 {"acks": 1, "timeout_ms": 1000, "topic_data": [{"name": "orders", "partition_data": [{"index": 0}]}]}
    < {"responses": [{"name": "orders", "partition_responses": [{"index": 0, "base_offset": 7}]}]}
    ```

    ## Sources
    https://github.com/seaweedfs/seaweedfs/pull/8762
    """
    request_body = event.request_body
    if request_body is None or event.message is None:
        return
    assert event.request is not None
    request_rows, request_name = _topic_rows(request_body, event.request.message.layout)
    rows, name_field = _topic_rows(event.message.body, event.message.layout)
    if len(request_rows) == len(rows) == 1 and request_rows[0].get(request_name) == rows[0].get(name_field):
        return  # the usual case
    requested_topics = {row[request_name] for row in request_rows if request_name in row}
    if not requested_topics or all(row[name_field] in requested_topics for row in rows if name_field in row):
        return
    for array, index, name in _located_names(event.message.body):
        if name not in requested_topics:
            yield Problem(
                f"{event.message.api} v{event.message.version} got a response for topic {name!r}, which the request "
                f"does not name: it names {', '.join(sorted(map(repr, requested_topics))[:3])}",
                **locate(event.message, array, index),
                hint="check at which byte the server starts to read the request's body",
                expected=f"one of {len(requested_topics)} topics of the request"
                if len(requested_topics) > 1
                else repr(next(iter(requested_topics))),
                got=repr(name),
            )
            return


def _topic_rows(body: dict[str, Any], layout: Layout | None) -> tuple[Sequence[dict[str, Any]], str]:
    """Return the topics in a body, and the field with the name of each."""
    if layout is None or (fields := _topic_field(layout)) is None:
        return (), ""
    array, name = fields
    return body.get(array) or (), name


@cached_on_owner
def _topic_field(layout: Layout) -> tuple[str, str] | None:
    """Return the array of topics in a message, and the field with the name of each topic."""
    for array in layout.fields:
        if array.array and array.struct is not None:
            for field in array.struct.fields:
                if field.name in ("name", "topic") and field.type == "string":
                    return array.name, field.name
    return None


def _located_names(body: dict[str, Any]) -> list[tuple[str, int, str]]:
    """Return the topics that a body names, as (array field, index, topic name)."""
    return [
        (array, index, name)
        for array, rows in body.items()
        if type(rows) is list
        for index, row in enumerate(rows)
        if type(row) is dict and isinstance(name := row.get("topic") or row.get("name"), str)
    ]
