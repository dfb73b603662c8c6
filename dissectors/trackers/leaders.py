"""LeaderDenials: partitions whose supposed leader answers NOT_LEADER_OR_FOLLOWER, and what Metadata says afterwards."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from dissectors.bounded import BoundedDict
from dissectors.connections.addresses import canonicalize_host, host_of, is_specific_ip, split
from dissectors.connections.events import ResponseReceived
from dissectors.messages.message import Message
from dissectors.schemas.codes import Error
from dissectors.trackers import tracker
from dissectors.trackers.partitions import TopicPartition, refusals
from dissectors.trackers.triggers import FrameFlags, Trigger

NOT_LEADER = Error.NOT_LEADER_OR_FOLLOWER

MAX_CLIENTS = 1_000
MAX_DENIALS = 1_000
#: The most brokers that are remembered for a client; larger clusters are not remembered.
MAX_BROKERS = 100

#: Denials are counted together if they are at most this far apart (ns).
MAX_GAP = 30 * 1_000_000_000

#: API -> its field names for partitions and partition index.
PARTITION_FIELDS = {"Produce": ("partition_responses", "index"), "Fetch": ("partitions", "partition_index")}

_Client = tuple[str, str | None]


@dataclass(slots=True)
class Denial:
    """One server's NOT_LEADER_OR_FOLLOWER answers to one client about a partition.

    `consecutive` counts the denials since `consecutive_since` without Metadata in between. `rounds` counts the denials
    since `since` that came after Metadata had named that server again. `named_again` is whether Metadata has named it
    since the last denial. `api` is the API of the first denial.
    """

    server: str
    since: int
    last: int
    consecutive_since: int
    consecutive: int = 1
    rounds: int = 1
    named_again: bool = False
    api: str = ""


@tracker(
    events=(ResponseReceived,),
    apis=("Metadata",),
    also=(Trigger((ResponseReceived,), tuple(PARTITION_FIELDS), only=FrameFlags.REFUSED),),
)
class LeaderDenials:
    """The denials of a run, by client and partition."""

    def __init__(self) -> None:
        self._clients: BoundedDict[_Client, BoundedDict[TopicPartition, Denial]] = BoundedDict(MAX_CLIENTS)
        self._brokers: BoundedDict[_Client, list[dict[str, Any]]] = BoundedDict(MAX_CLIENTS)

    def for_response(self, event: ResponseReceived, connection: Any) -> BoundedDict[TopicPartition, Denial] | None:
        """Return the denials that the client of an exchange got."""
        if not self._clients or event.request is None:
            return None
        return self._clients.get(_client_key(event, connection))

    def observe(self, event: ResponseReceived, connection: Any) -> None:
        """Remember denials, and the leaders in later Metadata responses."""
        message = event.message
        if message is None or event.request is None:
            return
        if message.api == "Metadata":
            brokers = message.as_sent.body.get("brokers") or []
            if message.diagnosis is None and len(brokers) <= MAX_BROKERS:
                self._brokers[_client_key(event, connection)] = brokers
            denials = self.for_response(event, connection)
            if denials and message.diagnosis is None:
                _observe_metadata(denials, message)
            return
        for refusal in refusals(message.body, *PARTITION_FIELDS[message.api]):
            if refusal.code == NOT_LEADER:
                denials = self._clients.touch(_client_key(event, connection), lambda: BoundedDict(MAX_DENIALS))
                _record_denial(denials, refusal.topic_partition, event, connection.dialled)


class LeaderContradictions:
    """Servers that deny being the leader of a partition, and contradict themselves about which broker is."""

    def __init__(self) -> None:
        self._seen: BoundedDict[tuple[str, TopicPartition], int] = BoundedDict(MAX_DENIALS)

    def add(self, server: str, topic_partition: TopicPartition, at: int) -> None:
        """Record a contradiction."""
        self._seen[server, topic_partition] = at

    def contains(self, server: str, topic_partition: TopicPartition, at: int) -> bool:
        """Whether a server has recently contradicted itself about a partition, so that its client is not to blame."""
        return at - self._seen.get((server, topic_partition), at - MAX_GAP) < MAX_GAP


def _client_key(event: ResponseReceived, connection: Any) -> _Client:
    assert event.request is not None
    return host_of(connection.client), event.request.message.client_id


def _record_denial(
    denials: BoundedDict[TopicPartition, Denial], topic_partition: TopicPartition, event: ResponseReceived, server: str
) -> None:
    assert event.request is not None
    at = event.at
    denial = denials.get(topic_partition)
    if denial is None or denial.server != server or at - denial.last > MAX_GAP:
        denials[topic_partition] = Denial(server, at, at, at, api=event.request.message.api)
    elif event.request.at < denial.last:
        return  # it was in flight when the client got the denial
    elif denial.named_again:
        denial.rounds += 1
        denial.consecutive, denial.consecutive_since, denial.last, denial.named_again = 1, at, at, False
    else:
        denial.consecutive += 1
        denial.last = at


def _observe_metadata(denials: BoundedDict[TopicPartition, Denial], message: Message) -> None:
    brokers = {
        broker["node_id"]: (canonicalize_host(broker["host"]), broker["port"])
        for broker in message.body["brokers"] or ()
    }
    for topic in message.body["topics"] or ():
        for partition in topic["partitions"] or ():
            for name in (topic.get("name"), topic.get("topic_id")):
                topic_partition = (name or "", partition["partition_index"])
                if (denial := denials.get(topic_partition)) is None:
                    continue
                leader = brokers.get(partition["leader_id"])
                if leader is not None and _has_address(leader, denial.server):
                    denial.named_again = True
                else:
                    del denials[topic_partition]


def _has_address(leader: tuple[str, int], server: str) -> bool:
    """Whether a leader's address is the dialled one; a name may resolve to any host."""
    dialled = split(server)
    return dialled is not None and leader[1] == dialled[1] and (leader == dialled or not is_specific_ip(leader[0]))
