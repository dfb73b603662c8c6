"""V015: an API version that does not match the group protocol or the transaction version."""

from __future__ import annotations

from collections.abc import Iterator

from dissectors.bounded import BoundedDict
from dissectors.connections.events import RequestReceived, ResponseReceived
from dissectors.findings import Problem, Severity
from dissectors.rules import rule
from dissectors.schemas.codes import ApiKey
from dissectors.trackers.state import ConnectionState
from dissectors.trackers.triggers import FrameFlags, Trigger
from dissectors.trackers.versions import Versions

HEARTBEATS = ("ConsumerGroupHeartbeat", "StreamsGroupHeartbeat")

#: The first OffsetCommit version for members of the new group protocols (KIP-848).
_FIRST_VERSION_WITH_MEMBER_EPOCH = 9
#: The first Produce version that adds partitions to a transaction by itself, and the feature level it needs (KIP-890).
PRODUCE_ADDS_PARTITIONS, TRANSACTIONS_V2 = 12, 2


class _Members:
    """Members of the new group protocols, as (group, member id)."""

    def __init__(self) -> None:
        self.known: BoundedDict[tuple[str, str], None] = BoundedDict(10_000)


@rule(
    "V015",
    severity=Severity.ERROR,
    events=(ResponseReceived,),
    apis=HEARTBEATS,
    also=(
        Trigger(
            (RequestReceived,),
            ("OffsetCommit",),
            only=FrameFlags.SUBSCRIBED,
            versions=range(_FIRST_VERSION_WITH_MEMBER_EPOCH),
        ),
        Trigger(
            (RequestReceived,),
            ("Produce",),
            only=FrameFlags.SUBSCRIBED,
            versions=range(PRODUCE_ADDS_PARTITIONS, 1 << 15),
        ),
        Trigger((ResponseReceived,), ("ApiVersions",)),
    ),
    needs=(Versions,),
    since="0.1",
    blame="client",
)
def version_pairing(event: RequestReceived | ResponseReceived, connection: ConnectionState) -> Iterator[Problem]:
    """Checks version dependencies that the server's advertised ranges do not express.

    These are OffsetCommit with the member's group protocol, and Produce with the cluster's transaction version.

    ## Why it matters
    Both are answered with UNSUPPORTED_VERSION although the server advertises the version: offsets are not committed,
    or a transaction cannot produce.

    ## Usual cause
    A client that picks the version of each API independently. A member that uses ConsumerGroupHeartbeat must commit
    with OffsetCommit v9 or later, because older versions have generations, not member epochs. In a transaction,
    Produce v12 needs ``transaction.version`` 2, which the cluster reports among its finalized features.

    ## Example
    ```story
    > ConsumerGroupHeartbeat v0 {"group_id": "g", "member_epoch": 0}
    < {"member_id": "m-1", "member_epoch": 1}
    > OffsetCommit v8 {"group_id": "g", "member_id": "m-1", "generation_id_or_member_epoch": 1}
    ```
    ```story
    > ApiVersions v3 {"client_software_name": "app", "client_software_version": "1"}
    < {"api_keys": [{"api_key": 0, "max_version": 12}, {"api_key": 18, "max_version": 4}],
         "finalized_features_epoch": 7, "finalized_features": [
           {"name": "transaction.version", "max_version_level": 1, "min_version_level": 1}]}
    > Produce v12 {"transactional_id": "t", "acks": -1}
    ```

    ## Look-alikes
    ```story
    > ConsumerGroupHeartbeat v0 {"group_id": "g", "member_epoch": 0}
    < {"member_id": "m-1", "member_epoch": 1}
    > OffsetCommit v9 {"group_id": "g", "member_id": "m-1", "generation_id_or_member_epoch": 1}
    > OffsetCommit v8 {"group_id": "g", "member_id": "", "generation_id_or_member_epoch": -1}
    ```
    ```story
    > ApiVersions v3 {"client_software_name": "app", "client_software_version": "1"}
    < {"api_keys": [{"api_key": 0, "max_version": 12}, {"api_key": 18, "max_version": 4}],
         "finalized_features_epoch": 7, "finalized_features": [
           {"name": "transaction.version", "max_version_level": 1, "min_version_level": 1}]}
    > Produce v12 {"acks": -1}
    > Produce v11 {"transactional_id": "t", "acks": -1}
    ```

    ## Sources
    https://github.com/apache/kafka/pull/14046
    https://github.com/twmb/franz-go/issues/1017
    https://cwiki.apache.org/confluence/display/KAFKA/KIP-890%3A+Transactions+Server-Side+Defense
    """
    message = event.message
    assert message is not None  # the rule gets only frames that decode
    level = connection.state(Versions).transaction_version
    if isinstance(event, ResponseReceived) and message.api_key == ApiKey.API_VERSIONS:
        if level is not None and level < TRANSACTIONS_V2:
            connection.run.subscribe("V015", api="Produce")
    elif isinstance(event, ResponseReceived):
        if (request_body := event.request_body) and message.body["error_code"] == 0:
            connection.run.state(_Members).known[request_body["group_id"], message.body["member_id"]] = None
            connection.run.subscribe("V015")
    elif message.api == "OffsetCommit":
        group, member = message.body["group_id"], message.body.get("member_id")
        members = connection.run.state(_Members).known
        if (group, member) in members:
            yield _problem(
                f"member {member!r} of group {group!r} commits with OffsetCommit v{message.version} although it uses"
                f" the new group protocol, which needs v{_FIRST_VERSION_WITH_MEMBER_EPOCH} or later",
                f"send OffsetCommit v{_FIRST_VERSION_WITH_MEMBER_EPOCH} or later with the member epoch, or use the"
                " classic protocol",
                f"v{_FIRST_VERSION_WITH_MEMBER_EPOCH} or later",
                message.version,
                group,
            )
    else:
        transaction = message.body["transactional_id"]
        if transaction is not None and level is not None and level < TRANSACTIONS_V2:
            yield _problem(
                f"Produce v{message.version} in transaction {transaction!r} needs transaction.version"
                f" {TRANSACTIONS_V2}, but the cluster is at {level}",
                f"send at most v{PRODUCE_ADDS_PARTITIONS - 1} in transactions, or raise the feature:"
                " kafka-features.sh upgrade --feature transaction.version=2",
                f"v{PRODUCE_ADDS_PARTITIONS - 1} or earlier",
                message.version,
                transaction,
            )


def _problem(message: str, hint: str, expected: str, version: int, cause: str) -> Problem:
    return Problem(
        message, 6, 8, "header.request_api_version", hint=hint, expected=expected, got=f"v{version}", cause=cause
    )
