"""The facts of frames and findings from which groups are followed. They may be attributes of any objects."""

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
    """A finding of an earlier frame that a frame has, too."""

    code: str
    severity: str


class GroupTopic(Protocol):
    """A topic in a frame: its name, or else its id, and partitions of it."""

    @property
    def topic(self) -> str | None: ...

    @property
    def topic_id(self) -> str | None: ...

    @property
    def partitions(self) -> Sequence[int]: ...


class GroupFrame(Protocol):
    """A frame of an API in `dissectors.groups.explanations.KINDS`; those of other APIs are ignored.

    A response has the group, member and generation of its request where it has none of its own. `generation_id` is the
    generation, or the member's epoch (KIP-848); then, the topics with partitions in a response to its heartbeat are its
    assignment. `client` and `server` are ``host:port``. `size` includes the length
    prefix; `offset` counts the bytes of its connection and direction before it.
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
    """A response. `request_offset` is the `offset` of its request; the first traces have none.

    `tasks` are the active tasks in a response to the heartbeat of a streams group, by their names.
    """

    request_offset: int | None
    latency_us: int | None

    @property
    def errors(self) -> Sequence[NamedError]: ...

    @property
    def tasks(self) -> Sequence[str]: ...
