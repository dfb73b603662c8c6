"""Protocols for the facts about frames and findings from which groups are followed."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from dissectors.error_counts import NamedError


class GroupFinding(Protocol):
    """A finding about a member; an unknown severity counts as info."""

    code: str
    severity: str
    message: str
    hint: str | None


class GroupRepeat(Protocol):
    """A finding of an earlier frame that also applies to this frame."""

    code: str
    severity: str


class GroupTopic(Protocol):
    """A topic in a frame: its name, otherwise its id, and some of its partitions."""

    @property
    def topic(self) -> str | None: ...

    @property
    def topic_id(self) -> str | None: ...

    @property
    def partitions(self) -> Sequence[int]: ...


class GroupFrame(Protocol):
    """A frame of an API in `dissectors.groups.explanations.EVENT_KINDS`; frames of other APIs are ignored.

    A response without a group, member or generation of its own has those of its request. `generation_id` is the
    generation or the member's epoch (KIP-848); with an epoch, the topics with partitions in the response to a heartbeat
    are the member's assignment. `client` and `server` are ``host:port``. `size` includes the length prefix; `offset` is
    the number of bytes before the frame in its connection and direction.
    """

    api: str | None
    connection_id: str
    client: str
    server: str
    client_id: str | None
    correlation_id: int | None
    group_id: str | None
    member_id: str | None
    generation_id: int | None
    size: int
    offset: int

    @property
    def topics(self) -> Sequence[GroupTopic]: ...

    @property
    def findings(self) -> Sequence[GroupFinding]: ...

    @property
    def repeats(self) -> Sequence[GroupRepeat]: ...


class GroupResponse(GroupFrame, Protocol):
    """A response. `request_offset` is the `offset` of its request; the oldest traces do not have it.

    `tasks` are the names of the active tasks in the response to a heartbeat of a streams group.
    """

    request_offset: int | None
    latency_us: int | None

    @property
    def errors(self) -> Sequence[NamedError]: ...

    @property
    def tasks(self) -> Sequence[str]: ...
