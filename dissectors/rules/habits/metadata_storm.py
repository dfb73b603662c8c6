"""S009: a client that requests Metadata continuously."""

from __future__ import annotations

from collections.abc import Iterator

from dissectors.connections.events import ResponseReceived
from dissectors.findings import Problem, Severity
from dissectors.limits import Limit
from dissectors.rules import rule
from dissectors.rules.helpers.clients import client_label
from dissectors.rules.refusals.refused_repeatedly import is_refused
from dissectors.trackers.allowed_waits import duration
from dissectors.trackers.recurrence import SECOND
from dissectors.trackers.state import ConnectionState
from dissectors.trackers.triggers import FrameFlags

RESPONSES = Limit("responses", 60, "responses", "a connection gets so many Metadata responses without an error", 2)
WITHIN = Limit("within", 60, "s", "within this time")

_REFUSED = FrameFlags.REFUSED.value


class _Responses:
    """The number of Metadata responses without an error on a connection since `since` (ns)."""

    def __init__(self) -> None:
        self.count = self.since = 0


@rule(
    "S009",
    severity=Severity.WARNING,
    events=(ResponseReceived,),
    apis=("Metadata",),
    limits=(RESPONSES, WITHIN),
    since="0.1",
    blame="client",
)
def metadata_storm(event: ResponseReceived, connection: ConnectionState) -> Iterator[Problem]:
    """Checks that clients do not request Metadata much more often than they need to refresh it.

    ## Why it matters
    The Metadata of large clusters is large, and brokers answer it on the same threads as everything else.

    ## Usual cause
    A program that lists topics or partitions for each message, or `metadata.max.age.ms` (the default is 5 minutes) set
    to a second. Responses with an error do not count: a client repeats them until it finds a leader, and other rules
    report what is wrong.

    ## Example
    ```story
    rule S009:responses=3
    > Metadata v8 {"topics": [{"name": "t"}]}
    < {"topics": [{"name": "t"}]}
    > Metadata v8 {"topics": [{"name": "t"}]}
    < {"topics": [{"name": "t"}]}
    > Metadata v8 {"topics": [{"name": "t"}]}
    < {"topics": [{"name": "t"}]}
    ```

    ## Look-alikes
    A client that starts, and refreshes its metadata later:
    ```story
    rule S009:responses=3
    > Metadata v8 {"topics": [{"name": "t"}]}
    < {"topics": [{"name": "t"}]}
    > Metadata v8 {"topics": [{"name": "t"}]}
    < {"topics": [{"name": "t"}]}
    +5m
    > Metadata v8 {"topics": [{"name": "t"}]}
    < {"topics": [{"name": "t"}]}
    ```

    ## Sources
    https://kafka.apache.org/documentation/#producerconfigs_metadata.max.age.ms
    """
    if connection.flags & _REFUSED:
        return
    responses, run = connection.state(_Responses), connection.run
    if responses.count == 0 or event.at - responses.since > run.limit(WITHIN) * SECOND:
        responses.count, responses.since = 0, event.at
    responses.count += 1
    if responses.count >= run.limit(RESPONSES):
        count, responses.count = responses.count, 0
        if is_refused(connection):
            return  # clients request Metadata after most errors: E002 names what is wrong
        yield Problem(
            f"{client_label(connection)} requested Metadata {count} times within "
            f"{duration(event.at - responses.since)} on one"
            " connection",
            hint="request Metadata once, not for each message or call; leave metadata.max.age.ms at 5 minutes",
            cause="metadata storm",
        )
