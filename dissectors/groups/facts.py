"""The facts of frames and findings from which groups are followed. They may be attributes of any objects."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from dissectors.error_counts import NamedError


class GroupFinding(Protocol):
    """A finding about a member; an unknown severity counts as info."""

    @property
    def code(self) -> str: ...
    @property
    def severity(self) -> str: ...
    @property
    def message(self) -> str: ...
    @property
    def hint(self) -> str | None: ...


class GroupFrame(Protocol):
    """A frame of an API in `dissectors.groups.explanations.KINDS`; those of other APIs are ignored.

    A response has the group, member and generation of its request where it has none of its own. `generation_id` is the
    generation, or the member's epoch (KIP-848). `client` and `server` are ``host:port``. `size` includes the length
    prefix; `offset` counts the bytes of its connection and direction before it.
    """

    @property
    def api(self) -> str | None: ...
    @property
    def connection_id(self) -> str: ...
    @property
    def client(self) -> str: ...
    @property
    def server(self) -> str: ...
    @property
    def client_id(self) -> str | None: ...
    @property
    def correlation_id(self) -> int | None: ...
    @property
    def group_id(self) -> str | None: ...
    @property
    def member_id(self) -> str | None: ...
    @property
    def generation_id(self) -> int | None: ...
    @property
    def size(self) -> int: ...
    @property
    def offset(self) -> int: ...
    @property
    def findings(self) -> Sequence[GroupFinding]: ...


GroupRequest = GroupFrame


class GroupResponse(GroupFrame, Protocol):
    """A response. `request_offset` is the `offset` of its request; the first traces have none."""

    @property
    def request_offset(self) -> int | None: ...
    @property
    def latency_us(self) -> int | None: ...
    @property
    def errors(self) -> Sequence[NamedError]: ...
