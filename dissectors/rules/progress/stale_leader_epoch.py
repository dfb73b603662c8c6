"""S063: a client that keeps sending a leader epoch that the leader refuses."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from dissectors.bounded import BoundedDict
from dissectors.connections.events import ResponseReceived
from dissectors.findings import Problem, Severity
from dissectors.messages.locate import locate
from dissectors.rules import rule
from dissectors.schemas.codes import Error
from dissectors.trackers.allowed_waits import duration
from dissectors.trackers.cluster_views import ClusterViews, SeenEpoch
from dissectors.trackers.losses import Losses
from dissectors.trackers.partitions import TopicPartition, label, topic_name_or_id
from dissectors.trackers.state import ConnectionState
from dissectors.trackers.triggers import FrameFlags
from dissectors.trackers.versions import client_key, client_text

#: Reported after this many refusals over this time (ns), or after `IGNORED` if the client already knows a newer epoch.
THRESHOLD = 5
MIN_DURATION = 1_000_000_000
IGNORED = 3
#: After an election, brokers learn of the new epoch at different times, up to this far apart on busy machines (ns).
_DISAGREEMENT = 5_000_000_000

#: Refusals are counted together if they are at most this far apart (ns).
_MAX_GAP = 30 * 1_000_000_000

_MAX_PARTITIONS = 10_000
_CODES = (Error.FENCED_LEADER_EPOCH, Error.UNKNOWN_LEADER_EPOCH)

#: API -> topics in the response.
_TOPICS = {"Fetch": "responses", "OffsetForLeaderEpoch": "topics", "ListOffsets": "topics"}
_INDEXES = ("partition_index", "partition")


@dataclass(slots=True)
class _EpochRefusals:
    """The refusals of one leader epoch of a partition."""

    epoch: int | None
    code: int
    since: int
    last: int
    times: int = 0


class _Refusals:
    """The refusals by client, API and partition."""

    def __init__(self) -> None:
        self.by_client: BoundedDict[tuple[Any, str, TopicPartition], _EpochRefusals] = BoundedDict(_MAX_PARTITIONS)


@rule(
    "S063",
    severity=Severity.ERROR,
    events=(ResponseReceived,),
    apis=tuple(_TOPICS),
    only=FrameFlags.REFUSED,
    needs=(ClusterViews, Losses),
    since="0.1",
    blame="client",
)
def stale_leader_epoch(event: ResponseReceived, connection: ConnectionState) -> Iterator[Problem]:
    """Checks that a client takes the leader epoch from Metadata after FENCED_LEADER_EPOCH or UNKNOWN_LEADER_EPOCH.

    ## Why it matters
    The leader refuses the request until current_leader_epoch is its own. A client that repeats the old one neither
    reads nor validates its offset, and loads the broker with requests.

    ## Usual cause
    A client that stores the epoch with the partition and does not replace it with the epoch from newer Metadata. If
    Metadata itself gives the epoch that the leader refuses, the cluster contradicts itself: the broker that answered
    Metadata is behind, or fills the field in wrongly.

    It is reported after 5 refusals over at least 1 s, or after 3 if Metadata has already given the client another
    epoch. A contradiction within the cluster is reported after 5 s, because brokers learn of an election at different
    times.

    ## Example
    ```story
    > Metadata v9 {"topics": [{"name": "t"}]}
    < {"brokers": [{"node_id": 1, "host": "10.0.0.1", "port": 9092}],
       "topics": [{"name": "t", "partitions": [{"leader_id": 1, "leader_epoch": 12}]}]}
    > OffsetForLeaderEpoch v2 {"topics": [{"topic": "t", "partitions": [{"current_leader_epoch": 11}]}]}
    < {"topics": [{"topic": "t", "partitions": [{"error_code": 74}]}]}
    > OffsetForLeaderEpoch v2 {"topics": [{"topic": "t", "partitions": [{"current_leader_epoch": 11}]}]}
    < {"topics": [{"topic": "t", "partitions": [{"error_code": 74}]}]}
    > OffsetForLeaderEpoch v2 {"topics": [{"topic": "t", "partitions": [{"current_leader_epoch": 11}]}]}
    < {"topics": [{"topic": "t", "partitions": [{"error_code": 74}]}]}
    ```

    ## Look-alikes
    A leader election: the client gets the new epoch, and uses it.
    ```story
    > Fetch v11 {"topics": [{"topic": "t", "partitions": [{"current_leader_epoch": 11}]}]}
    < {"responses": [{"topic": "t", "partitions": [{"error_code": 74, "high_watermark": -1, "records": ""}]}]}
    > Metadata v9 {"topics": [{"name": "t"}]}
    < {"brokers": [{"node_id": 1, "host": "10.0.0.1", "port": 9092}],
       "topics": [{"name": "t", "partitions": [{"leader_id": 1, "leader_epoch": 12}]}]}
    > Fetch v11 {"topics": [{"topic": "t", "partitions": [{"current_leader_epoch": 12}]}]}
    < {"responses": [{"topic": "t", "partitions": [{"high_watermark": 0, "records": ""}]}]}
    ```

    ## Sources
    https://cwiki.apache.org/confluence/display/KAFKA/KIP-320%3A+Allow+fetchers+to+detect+and+handle+log+truncation
    https://github.com/confluentinc/librdkafka/issues/4425
    """
    message, request_body = event.message, event.request_body
    if message is None or request_body is None or event.request is None:
        return
    epochs: Mapping[TopicPartition, int] | None = None
    refusals = connection.run.state(_Refusals).by_client
    field = _TOPICS[message.api]
    for topic_index, topic in enumerate(message.body.get(field) or ()):
        for row_index, row in enumerate(topic.get("partitions") or ()):
            if (code := row.get("error_code")) not in _CODES:
                continue
            epochs = _requested_epochs(request_body) if epochs is None else epochs
            topic_partition = topic_name_or_id(topic), next((row[name] for name in _INDEXES if name in row), 0)
            epoch_refusals = _count_refusal(
                refusals,
                (client_key(connection), message.api, topic_partition),
                epochs.get(topic_partition),
                code,
                event.at,
            )
            if problem := _find_problem(epoch_refusals, topic_partition, event.request.at, message.api, connection):
                yield problem.locate_in(event, (field, topic_index, "partitions", row_index, "error_code"))


@dataclass(frozen=True, slots=True)
class _EpochProblem:
    text: str
    hint: str
    blame: str | None
    partition_name: str

    def locate_in(self, event: ResponseReceived, path: tuple[str | int, ...]) -> Problem:
        """Return the problem, located at a path in the response."""
        assert event.message is not None
        return Problem(
            self.text, **locate(event.message, *path), hint=self.hint, blame=self.blame, cause=self.partition_name
        )


def _find_problem(
    epoch_refusals: _EpochRefusals,
    topic_partition: TopicPartition,
    requested_at: int,
    api: str,
    connection: ConnectionState,
) -> _EpochProblem | None:
    """Return the problem with the refusals of an epoch, once there are enough of them."""
    topic, partition = topic_partition
    seen_epoch = connection.run.state(ClusterViews).leader_epoch(
        connection, (connection.run.topic_names.get(topic, topic), partition)
    )
    is_ignored = (
        seen_epoch is not None and seen_epoch.at < requested_at and _could_be_accepted(seen_epoch.epoch, epoch_refusals)
    )
    elapsed = epoch_refusals.last - epoch_refusals.since
    if epoch_refusals.times < IGNORED or (
        not is_ignored and (epoch_refusals.times < THRESHOLD or elapsed < MIN_DURATION)
    ):
        return None
    name, error = label(topic_partition, connection), Error(epoch_refusals.code).name
    epoch_text = f"with current_leader_epoch {epoch_refusals.epoch} " if epoch_refusals.epoch is not None else ""
    text = (
        f"{epoch_refusals.times} {api} requests of {client_text(connection)} {epoch_text}for {name} got {error} within "
        f"{duration(elapsed)}"
    )
    if is_ignored and seen_epoch is not None:
        return _EpochProblem(
            f"{text}, although Metadata gave it leader epoch {seen_epoch.epoch}",
            f"fix or upgrade the client: it must use leader_epoch {seen_epoch.epoch} of Metadata as "
            "current_leader_epoch",
            None,
            name,
        )
    if seen_epoch is not None and seen_epoch.at > epoch_refusals.since and seen_epoch.epoch == epoch_refusals.epoch:
        if elapsed < _DISAGREEMENT:
            return None
        return _EpochProblem(
            f"{text}, and Metadata still gives leader epoch {seen_epoch.epoch}: the cluster contradicts itself",
            f"compare the leader of {name} with the broker that answers Metadata: the one with the lower epoch is "
            "behind, "
            "or fills in leader_epoch wrongly",
            "broker",
            name,
        )
    if not connection.run.state(Losses).has_losses_since(epoch_refusals.since, connection):
        text += _refresh_note(seen_epoch, epoch_refusals)
    return _EpochProblem(text, "request Metadata after this error, and use its leader_epoch in the next request",
                         None, name)  # fmt: skip


def _could_be_accepted(epoch: int, epoch_refusals: _EpochRefusals) -> bool:
    """Return whether an epoch from Metadata is newer than a fenced epoch, or older than an unknown epoch."""
    if epoch_refusals.epoch is None:
        return False
    return (
        epoch > epoch_refusals.epoch
        if epoch_refusals.code == Error.FENCED_LEADER_EPOCH
        else epoch < epoch_refusals.epoch
    )


def _refresh_note(seen_epoch: SeenEpoch | None, epoch_refusals: _EpochRefusals) -> str:
    if seen_epoch is None or seen_epoch.at < epoch_refusals.since:
        return ", and the client did not request Metadata for a newer epoch"
    return ""


def _count_refusal(
    refusals: BoundedDict[tuple[Any, str, TopicPartition], _EpochRefusals],
    key: tuple[Any, str, TopicPartition],
    epoch: int | None,
    code: int,
    at: int,
) -> _EpochRefusals:
    epoch_refusals = refusals.get(key)
    if (
        epoch_refusals is None
        or epoch_refusals.epoch != epoch
        or epoch_refusals.code != code
        or at - epoch_refusals.last > _MAX_GAP
    ):
        epoch_refusals = refusals[key] = _EpochRefusals(epoch, code, at, at)
    epoch_refusals.times += 1
    epoch_refusals.last = at
    return epoch_refusals


def _requested_epochs(request_body: Mapping[str, Any]) -> dict[TopicPartition, int]:
    """Return the leader epoch of each partition in a request that has one."""
    return {
        (topic_name_or_id(topic), next((row[name] for name in _INDEXES if name in row), 0)): epoch
        for topic in request_body.get("topics") or ()
        for row in topic.get("partitions") or ()
        if (epoch := row.get("current_leader_epoch", -1)) >= 0
    }
