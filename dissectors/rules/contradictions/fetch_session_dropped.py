"""S098: a Fetch response that leaves its session without an error."""

from __future__ import annotations

from collections.abc import Iterator

from dissectors.connections.events import ResponseReceived
from dissectors.findings import Problem, Severity
from dissectors.messages.locate import locate
from dissectors.records.formats import count_text
from dissectors.rules import rule
from dissectors.trackers.fetches import Fetches
from dissectors.trackers.state import ConnectionState
from dissectors.trackers.triggers import FrameFlags


@rule(
    "S098",
    severity=Severity.WARNING,
    events=(ResponseReceived,),
    apis=("Fetch",),
    only=FrameFlags.IRREGULAR,
    needs=(Fetches,),
    since="0.1",
    blame="broker",
)
def fetch_session_dropped(event: ResponseReceived, connection: ConnectionState) -> Iterator[Problem]:
    """Checks that a response to a Fetch of a session has the id of this session, or an error.

    ## Why it matters
    A client takes another `session_id`, usually 0, for the end of its session. Its next request names all partitions
    again and opens another session, so each such response costs a full Fetch, which loads the broker even more.

    ## Usual cause
    A broker or gateway that answers early, without looking at the session: a throttled response, or an empty one. If
    the session is really gone, the response has FETCH_SESSION_ID_NOT_FOUND.

    ## Example
    ```story
    > Fetch v11 {"session_id": 0, "session_epoch": 0, "topics": [{"topic": "t", "partitions": [
       {"partition": 0, "fetch_offset": 5}, {"partition": 1, "fetch_offset": 7}]}]}
    < {"session_id": 77, "responses": [{"topic": "t", "partitions": [{"partition_index": 0, "records": ""},
       {"partition_index": 1, "records": ""}]}]}
    > Fetch v11 {"session_id": 77, "session_epoch": 1}
    < {"session_id": 0, "throttle_time_ms": 900}
    ```

    ## Look-alikes
    A throttled response of the session, one with an error, and the end of a session:
    ```story
    > Fetch v11 {"session_id": 0, "session_epoch": 0, "topics": [{"topic": "t", "partitions": [
       {"partition": 0, "fetch_offset": 5}]}]}
    < {"session_id": 77, "responses": [{"topic": "t", "partitions": [{"partition_index": 0, "records": ""}]}]}
    > Fetch v11 {"session_id": 77, "session_epoch": 1}
    < {"session_id": 77, "throttle_time_ms": 900}
    > Fetch v11 {"session_id": 77, "session_epoch": 2}
    < {"session_id": 0, "error_code": 70}
    > Fetch v11 {"session_id": 77, "session_epoch": -1}
    < {"session_id": 0}
    ```

    ## Sources
    https://cwiki.apache.org/confluence/display/KAFKA/KIP-227%3A+Introduce+Incremental+FetchRequests+to+Increase+Partition+Scalability
    https://issues.apache.org/jira/browse/KAFKA-6946
    https://github.com/apache/kafka/pull/5164
    """
    message, request_body = event.message, event.request_body
    fetches = connection.state(Fetches)
    if message is None or request_body is None or not fetches.is_session_dropped:
        return
    count = len(fetches.sessions.offsets(event.request))
    throttle_time_ms = message.body.get("throttle_time_ms", 0)
    throttled = f", throttled for {throttle_time_ms} ms," if throttle_time_ms else ""
    partitions_text = f" all {count_text(count, 'partition')}" if count > 1 else " its partitions"
    yield Problem(
        f"the response{throttled} to a Fetch of session {request_body['session_id']} has session_id "
        f"{message.body['session_id']} and no error: the client loses its session, and must fetch{partitions_text} in "
        "full again",
        **locate(message, "session_id"),
        hint="fix the broker: a response to a Fetch of a session, also a throttled one, has the session's id",
        expected=str(request_body["session_id"]),
        got=str(message.body["session_id"]),
    )
