"""G017: the description of a streams group's topology is not pushed, not kept or not readable (KIP-1331)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from dissectors.bounded import MAX_NAME_LENGTH, BoundedDict
from dissectors.connections.events import ResponseReceived
from dissectors.findings import Problem, Severity
from dissectors.messages.locate import locate
from dissectors.messages.message import Message
from dissectors.plain_text import printable_text
from dissectors.rules import rule
from dissectors.trackers.allowed_waits import duration
from dissectors.trackers.state import ConnectionState
from dissectors.trackers.transactions import client_address_label

_MAX_GROUPS = 1_000
_ERROR = 2  # topology_description_status of StreamsGroupDescribe
#: Kafka's coordinator waits 30 s, then 60 s, before it requests the description again: one member may be stopping.
_MIN_REQUESTS = 3
#: A stored description is not requested again, except perhaps once by a new coordinator after the group has moved.
_MIN_PUSHES = 3
_PLUGIN = "group.streams.topology.description.plugin.class"


class _Description:
    """The requests for a group's description since the last push, and the successful pushes for one epoch."""

    def __init__(self) -> None:
        self.requests = self.requested_at = 0
        self.epoch: int | None = None
        self.pushes = self.unrequested = self.pushed_at = 0


class _Descriptions:
    def __init__(self) -> None:
        self.by_group: BoundedDict[str, _Description] = BoundedDict(_MAX_GROUPS)


_APIS: Final = ("StreamsGroupHeartbeat", "StreamsGroupTopologyDescriptionUpdate", "StreamsGroupDescribe")


@rule("G017", severity=Severity.WARNING, events=(ResponseReceived,), apis=_APIS, since="0.1", blame="broker")
def topology_description(event: ResponseReceived, connection: ConnectionState) -> Iterator[Problem]:
    """Reports a description of a streams group's topology that is not pushed, not kept or not readable (KIP-1331).

    ## Why it matters
    A coordinator with a plugin for topology descriptions requests the description in a heartbeat response
    (topology_description_required). The group runs without it, but tools cannot show its topology. A description that
    is pushed again and again is needless load.

    ## Usual cause
    - Requested 3 times without a push (info): `topology.description.push.enabled=false` in the application, or a client
      that ignores the flag. Kafka's coordinator waits 30 s after the first request, then twice as long each time.
    - Pushed successfully 3 times for the same epoch: a coordinator that requests a description that it should have,
      because its plugin or its group record loses it; or a client that pushes without a request.
    - topology_description_status ERROR in StreamsGroupDescribe: the plugin could not read the description. NOT_STORED
      is not an error: the broker has no plugin, or no member has pushed.

    E001 or X014 reports a push that the broker refuses.

    ## Example
    ```story
    > StreamsGroupHeartbeat v1 {"group_id": "g", "member_id": "m", "member_epoch": 0}
    < {"member_id": "m", "member_epoch": 1, "topology_description_required": true}
    +30s
    > StreamsGroupHeartbeat v1 {"group_id": "g", "member_id": "m", "member_epoch": 1}
    < {"member_id": "m", "member_epoch": 1, "topology_description_required": true}
    +60s
    > StreamsGroupHeartbeat v1 {"group_id": "g", "member_id": "m", "member_epoch": 1}
    < {"member_id": "m", "member_epoch": 1, "topology_description_required": true}
    ```
    ```story
    > StreamsGroupHeartbeat v1 {"group_id": "g", "member_id": "m", "member_epoch": 0}
    < {"member_id": "m", "member_epoch": 1, "topology_description_required": true}
    > StreamsGroupTopologyDescriptionUpdate v0 {"group_id": "g", "member_id": "m", "topology_epoch": 0}
    < {}
    > StreamsGroupTopologyDescriptionUpdate v0 {"group_id": "g", "member_id": "m", "topology_epoch": 0}
    < {}
    > StreamsGroupTopologyDescriptionUpdate v0 {"group_id": "g", "member_id": "m", "topology_epoch": 0}
    < {}
    ```
    ```story
    > StreamsGroupDescribe v1 {"group_ids": ["g"], "include_topology_description": true}
    < {"groups": [{"group_id": "g", "group_state": "Stable", "topology_description_status": 2}]}
    ```

    ## Look-alikes
    A push that fails for now and is requested again, and a new epoch of the topology:
    ```story
    > StreamsGroupHeartbeat v1 {"group_id": "g", "member_id": "m", "member_epoch": 0}
    < {"member_id": "m", "member_epoch": 1, "topology_description_required": true}
    > StreamsGroupTopologyDescriptionUpdate v0 {"group_id": "g", "member_id": "m", "topology_epoch": 0}
    < {"error_code": 135, "error_message": "backend offline"}
    +30s
    > StreamsGroupHeartbeat v1 {"group_id": "g", "member_id": "m", "member_epoch": 1}
    < {"member_id": "m", "member_epoch": 1, "topology_description_required": true}
    > StreamsGroupTopologyDescriptionUpdate v0 {"group_id": "g", "member_id": "m", "topology_epoch": 0}
    < {}
    +60s
    > StreamsGroupHeartbeat v1 {"group_id": "g", "member_id": "m", "member_epoch": 1}
    < {"member_id": "m", "member_epoch": 2, "topology_description_required": true}
    > StreamsGroupTopologyDescriptionUpdate v0 {"group_id": "g", "member_id": "m", "topology_epoch": 1}
    < {}
    > StreamsGroupDescribe v1 {"group_ids": ["new"], "include_topology_description": true}
    < {"groups": [{"group_id": "new", "group_state": "Stable", "topology_description_status": 1}]}
    ```

    ## Sources
    https://cwiki.apache.org/confluence/display/KAFKA/KIP-1331%3A+Streams+Group+Topology+Description+Plugin
    """
    message, request = event.message, event.request
    if message is None or request is None:
        return
    if message.api == "StreamsGroupDescribe":
        yield from _unreadable_problems(message)
        return
    request_body = request.message.body
    group = (request_body.get("group_id") or "")[:MAX_NAME_LENGTH]
    descriptions = connection.run.state(_Descriptions).by_group
    if message.api == "StreamsGroupHeartbeat":
        if message.body.get("topology_description_required"):
            description = descriptions.setdefault(group, _Description())
            yield from _check_requests(message, group, description, event.at)
        return
    description = descriptions.setdefault(group, _Description())
    if message.body.get("error_code"):
        description.requests = 0
        return
    yield from _check_pushes(request.message, group, description, event.at, client_address_label(connection))


def _check_requests(message: Message, group: str, description: _Description, at: int) -> Iterator[Problem]:
    if not description.requests:
        description.requested_at = at
    description.requests += 1
    if description.requests >= _MIN_REQUESTS:
        yield Problem(
            f"the coordinator has requested the topology description of streams group {printable_text(group)!r} "
            f"{description.requests} times within {duration(at - description.requested_at)}, and no member has pushed "
            "it: tools cannot show the topology",
            **locate(message, "topology_description_required"),
            hint="nothing, if topology.description.push.enabled=false is intended; otherwise the client must send "
            "StreamsGroupTopologyDescriptionUpdate when topology_description_required is true",
            blame="client",
            severity=Severity.INFO,
            cause=f"{group} not pushed",
            once_per=(group, "not pushed"),
        )


def _check_pushes(push: Message, group: str, description: _Description, at: int, client: str) -> Iterator[Problem]:
    epoch = push.body.get("topology_epoch")
    if epoch != description.epoch:
        description.epoch, description.pushes, description.unrequested, description.pushed_at = epoch, 0, 0, at
    description.pushes += 1
    description.unrequested += not description.requests
    description.requests = 0
    if description.pushes < _MIN_PUSHES:
        return
    elapsed = duration(at - description.pushed_at)
    description_text = f"topology description of streams group {printable_text(group)!r} at epoch {epoch}"
    if description.unrequested > 1:
        text = (
            f"{client} has pushed the {description_text} {description.pushes} times within {elapsed}, "
            f"{description.unrequested} times without a request of the coordinator"
        )
        hint = "the client must push once, after a heartbeat response with topology_description_required"
    else:
        text = (
            f"the coordinator has requested the {description_text} again and again: {description.pushes} pushes within "
            f"{elapsed} succeeded, so it should have it"
        )
        hint = (
            f"check the coordinator's log and the plugin of {_PLUGIN}: after a push that succeeds, Kafka keeps the "
            "epoch with the group, and requests no other description of this epoch"
        )
    yield Problem(
        text,
        hint=hint,
        blame="client" if description.unrequested > 1 else "broker",
        cause=f"{group} pushed repeatedly",
        once_per=(group, "pushed repeatedly"),
    )


def _unreadable_problems(message: Message) -> Iterator[Problem]:
    for index, row in enumerate(message.body.get("groups") or ()):
        if row.get("topology_description_status") == _ERROR and not row.get("error_code"):
            group = (row.get("group_id") or "")[:MAX_NAME_LENGTH]
            yield Problem(
                f"the broker could not read the topology description of streams group {printable_text(group)!r}: its "
                "topology_description_status is ERROR; all else in the response is valid",
                **locate(message, "groups", index, "topology_description_status"),
                hint=f"check the coordinator's log for the exception of the plugin of {_PLUGIN}",
                cause=f"{group} unreadable",
            )
