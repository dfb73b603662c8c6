"""S066: a client that keeps looking up a topic that does not exist."""

from __future__ import annotations

import difflib
from collections.abc import Iterator
from dataclasses import dataclass

from dissectors.bounded import MAX_NAME_LENGTH, BoundedDict
from dissectors.connections.events import ResponseReceived
from dissectors.findings import Problem, Severity
from dissectors.limits import Limit
from dissectors.messages.locate import locate
from dissectors.rules import rule
from dissectors.schemas.codes import Error
from dissectors.trackers.allowed_waits import duration
from dissectors.trackers.recurrence import SECOND
from dissectors.trackers.state import ConnectionState
from dissectors.trackers.triggers import FrameFlags
from dissectors.trackers.versions import client_key, client_text

RESPONSES = Limit("responses", 5, "responses", "a client gets so many that a topic does not exist")
#: A topic that was just created takes a moment to appear.
OVER = Limit("over", 5, "s", "over at least this time", 0)

#: The coordinator of a streams group, or the application, creates internal topics within this time (ns).
_INTERNAL = ("-repartition", "-changelog")
_INTERNAL_OVER = 15 * SECOND

#: Responses are counted together if they are at most this far apart (ns).
_MAX_GAP = 30_000_000_000

_MAX_TOPICS = 10_000
#: If more topics than this are known, similar names are not searched for.
_MAX_NAMES = 1_000

_UNKNOWN_TOPIC = Error.UNKNOWN_TOPIC_OR_PARTITION


@dataclass(slots=True)
class _MissingTopic:
    since: int
    last: int
    times: int = 0


class _MissingTopics(BoundedDict[tuple[tuple[str, str | None], str], _MissingTopic]):
    """Missing topics, by the client that looked them up and their names."""

    def __init__(self) -> None:
        super().__init__(_MAX_TOPICS)


@rule(
    "S066",
    severity=Severity.WARNING,
    events=(ResponseReceived,),
    apis=("Metadata",),
    only=FrameFlags.REFUSED,
    limits=(
        RESPONSES,
        OVER,
    ),
    since="0.1",
    blame="client",
)
def missing_topic(event: ResponseReceived, connection: ConnectionState) -> Iterator[Problem]:
    """Checks that the topics that clients need exist.

    ## Why it matters
    Clients consider UNKNOWN_TOPIC_OR_PARTITION temporary, and request Metadata until their timeout. Producers then fail
    with a timeout that does not name the cause; consumers wait silently, forever.

    ## Usual cause
    A topic that nobody has created, on a broker that does not create topics (auto.create.topics.enable=false), or for a
    client that does not let it (allow_auto_topic_creation). A mistyped name, or the wrong cluster.

    It is reported after 5 responses over at least 5 s, at most 30 s apart; for internal topics of Kafka Streams, which
    are created when the application starts, over at least 15 s.

    ## Example
    ```story
    > Metadata v8 {"topics": [{"name": "ordres"}]}
    < {"topics": [{"name": "ordres", "error_code": 3}]}
    +2s
    > Metadata v8 {"topics": [{"name": "ordres"}]}
    < {"topics": [{"name": "ordres", "error_code": 3}]}
    +2s
    > Metadata v8 {"topics": [{"name": "ordres"}]}
    < {"topics": [{"name": "ordres", "error_code": 3}]}
    +2s
    > Metadata v8 {"topics": [{"name": "ordres"}]}
    < {"topics": [{"name": "ordres", "error_code": 3}]}
    +2s
    > Metadata v8 {"topics": [{"name": "ordres"}]}
    < {"topics": [{"name": "ordres", "error_code": 3}]}
    ```

    ## Look-alikes
    The topic is being created:
    ```story
    > Metadata v8 {"topics": [{"name": "orders"}]}
    < {"topics": [{"name": "orders", "error_code": 3}]}
    +100ms
    > Metadata v8 {"topics": [{"name": "orders"}]}
    < {"topics": [{"name": "orders", "error_code": 5}]}
    +100ms
    > Metadata v8 {"topics": [{"name": "orders"}]}
    < {"brokers": [{"node_id": 1, "host": "10.0.0.1", "port": 9092}],
       "topics": [{"name": "orders", "partitions": [{"leader_id": 1}]}]}
    ```

    ## Sources
    https://kafka.apache.org/documentation/#brokerconfigs_auto.create.topics.enable
    https://github.com/confluentinc/librdkafka/issues/3757
    """
    message = event.message
    if message is None or message.diagnosis is not None or event.request is None:
        return
    run = connection.run
    missing = run.state(_MissingTopics)
    for index, topic in enumerate(message.body.get("topics") or ()):
        name = (topic.get("name") or "")[:MAX_NAME_LENGTH]
        if topic.get("error_code") != _UNKNOWN_TOPIC or not name:
            continue
        state = missing.get(key := (client_key(connection), name))
        if state is None or event.at - state.last > _MAX_GAP:
            state = missing[key] = _MissingTopic(event.at, event.at)
        state.times, state.last = state.times + 1, event.at
        elapsed = state.last - state.since
        min_duration = max(run.limit(OVER) * SECOND, _INTERNAL_OVER if name.endswith(_INTERNAL) else 0)
        if state.times < run.limit(RESPONSES) or elapsed < min_duration:
            continue
        yield Problem(
            f"topic {name!r} does not exist: Metadata answered {client_text(connection)} so {state.times} times within "
            f"{duration(elapsed)}",
            **locate(message, "topics", index, "error_code"),
            hint=f"create the topic, or correct its name{_suggestion(name, connection)}; the broker creates it only "
            "with auto.create.topics.enable, and if the request allows it (allow_auto_topic_creation)",
            cause=name,
        )


def _suggestion(name: str, connection: ConnectionState) -> str:
    """Return a suggestion of a similarly named topic as part of a sentence, empty if there is none."""
    names = connection.run.topic_names
    if len(names) > _MAX_NAMES:
        return ""
    close_names = difflib.get_close_matches(name, set(names.values()) - {name}, n=1, cutoff=0.8)
    return f" (did you mean {close_names[0]!r}?)" if close_names else ""
