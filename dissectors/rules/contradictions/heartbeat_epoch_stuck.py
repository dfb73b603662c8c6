"""S095: a member of a KIP-848 group that keeps an epoch that its coordinator has replaced."""

from __future__ import annotations

from collections.abc import Iterator

from dissectors.bounded import BoundedDict
from dissectors.connections.events import RequestReceived
from dissectors.findings import Problem, Severity
from dissectors.messages.locate import locate
from dissectors.rules import rule
from dissectors.trackers.allowed_waits import duration
from dissectors.trackers.granted_generations import GrantedGenerations
from dissectors.trackers.state import ConnectionState

#: This many heartbeats in a row with an old epoch are a problem; one or two may have been in transit.
_THRESHOLD = 3
_MAX_MEMBERS = 10_000


class _StuckEpochs:
    """The outdated epoch in a member's heartbeats, and how many had it in a row, by group and member."""

    def __init__(self) -> None:
        self.by_member: BoundedDict[tuple[str, str], tuple[int, int]] = BoundedDict(_MAX_MEMBERS)


@rule(
    "S095",
    severity=Severity.ERROR,
    events=(RequestReceived,),
    apis=("ConsumerGroupHeartbeat",),
    needs=(GrantedGenerations,),
    since="0.1",
    blame="client",
)
def heartbeat_epoch_stuck(event: RequestReceived, connection: ConnectionState) -> Iterator[Problem]:
    """Checks that the heartbeats of a member have the epoch that the coordinator gave it last.

    ## Why it matters
    The coordinator waits until the member confirms its epoch. Until then, partitions that it must give up are not given
    to other members; an epoch that is older than the previous one is fenced, and the member loses all its partitions.

    ## Usual cause
    A client that repeats the same heartbeat instead of taking member_epoch from each response.

    ## Example
    ```story
    > ConsumerGroupHeartbeat v0 {"group_id": "g", "member_id": "m", "member_epoch": 0}
    < {"member_id": "m", "member_epoch": 4}
    > ConsumerGroupHeartbeat v0 {"group_id": "g", "member_id": "m", "member_epoch": 4}
    < {"member_id": "m", "member_epoch": 5}
    +5s
    > ConsumerGroupHeartbeat v0 {"group_id": "g", "member_id": "m", "member_epoch": 4}
    < {"member_id": "m", "member_epoch": 5}
    +5s
    > ConsumerGroupHeartbeat v0 {"group_id": "g", "member_id": "m", "member_epoch": 4}
    < {"member_id": "m", "member_epoch": 5}
    +5s
    > ConsumerGroupHeartbeat v0 {"group_id": "g", "member_id": "m", "member_epoch": 4}
    ```

    ## Look-alikes
    A response that was late, a member that rejoins with epoch 0, and one that leaves:
    ```story
    > ConsumerGroupHeartbeat v0 {"group_id": "g", "member_id": "m", "member_epoch": 0}
    < {"member_id": "m", "member_epoch": 4}
    > ConsumerGroupHeartbeat v0 {"group_id": "g", "member_id": "m", "member_epoch": 4}
    < {"member_id": "m", "member_epoch": 5}
    > ConsumerGroupHeartbeat v0 {"group_id": "g", "member_id": "m", "member_epoch": 4}
    < {"member_id": "m", "member_epoch": 5}
    > ConsumerGroupHeartbeat v0 {"group_id": "g", "member_id": "m", "member_epoch": 5}
    < {"error_code": 110}
    > ConsumerGroupHeartbeat v0 {"group_id": "g", "member_id": "m", "member_epoch": 0}
    < {"member_id": "m", "member_epoch": 6}
    > ConsumerGroupHeartbeat v0 {"group_id": "g", "member_id": "m", "member_epoch": 6}
    < {"member_id": "m", "member_epoch": 6}
    > ConsumerGroupHeartbeat v0 {"group_id": "g", "member_id": "m", "member_epoch": -1}
    < {"member_id": "m", "member_epoch": -1}
    ```

    ## Sources
    https://cwiki.apache.org/confluence/display/KAFKA/KIP-848%3A+The+Next+Generation+of+the+Consumer+Rebalance+Protocol
    """
    message = event.message
    if message.diagnosis is not None or not message.well_formed:
        return
    body = message.body
    group, member, epoch = body["group_id"], body["member_id"], body["member_epoch"]
    granted = connection.run.state(GrantedGenerations).latest_generation(connection.server, group, member)
    stuck_epochs = connection.run.state(_StuckEpochs).by_member
    if granted is None or epoch <= 0 or epoch == granted[0]:
        if stuck_epochs:
            stuck_epochs.pop((group, member), None)
        return
    stuck_epoch, count = stuck_epochs.get((group, member), (epoch, 0))
    count = count + 1 if stuck_epoch == epoch else 1
    stuck_epochs[group, member] = epoch, count
    if count >= _THRESHOLD:
        yield Problem(
            f"{count} ConsumerGroupHeartbeat requests of member {member!r} of group {group!r} have member_epoch "
            f"{epoch}, although the coordinator gave it {granted[0]} {duration(event.at - granted[1])} before",
            **locate(message, "member_epoch"),
            hint="fix or upgrade the client: each heartbeat needs the member_epoch of the latest response, and, if it "
            "was fenced, 0 to rejoin (KIP-848)",
            expected=str(granted[0]),
            got=str(epoch),
            cause=f"{group} {member}",
        )
