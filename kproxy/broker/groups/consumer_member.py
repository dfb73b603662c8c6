"""ConsumerMember: a member of a consumer group, and how it gets from what it has to what it is to have (KIP-848)."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, Final, Self

from kproxy.broker.groups.assignors import Part
from kproxy.broker.groups.classic_member import Joining

#: The member epochs of those who go, for good or as static members for a while.
LEAVING: Final = -1
AWAY: Final = -2


class MemberState(StrEnum):
    """How far a member is on its way to its target."""

    STABLE = "stable"
    UNREVOKED = "unrevoked"  # has yet to say that it has given up what it was told to
    UNRELEASED = "unreleased"  # waits for partitions that others still have


@dataclass(slots=True)
class ConsumerMember:
    """A member of a consumer group.

    Attributes:
        epoch: The newest target that it has reached.
        previous_epoch: Its epoch before that: the answer that told it the new one may have been lost.
        topics: Names that it subscribes to.
        regex: A pattern of such names, or empty.
        assigned: What it was told that it has, each since which epoch.
        revoking: What it was told to give up and has not said that it has.
        classic: What it asked for with its last JoinGroup, if it speaks the classic protocol.
    """

    id: str
    instance_id: str | None = None
    rack_id: str | None = None
    client_id: str = ""
    client_host: str = ""
    rebalance_timeout_ms: int = -1
    topics: frozenset[str] = frozenset()
    regex: str = ""
    assignor: str | None = None
    epoch: int = 0
    previous_epoch: int = 0
    state: MemberState = MemberState.STABLE
    assigned: dict[Part, int] = field(default_factory=dict)
    revoking: dict[Part, int] = field(default_factory=dict)
    classic: Joining | None = None

    @property
    def size(self) -> int:
        """About how many bytes it takes."""
        brought = () if self.classic is None else self.classic.protocols.values()
        return 1000 + sum(50 + len(each) for each in self.topics) + len(self.regex) + sum(map(len, brought))

    @property
    def session_timeout_ms(self) -> int | None:
        """That it asked for itself, which only the classic protocol has."""
        return None if self.classic is None else self.classic.session_timeout_ms

    def is_at(self, epoch: int) -> bool:
        """Whether it has all of the target of an epoch."""
        return self.state is MemberState.STABLE and self.epoch == epoch

    def reconcile(
        self,
        epoch: int,
        target: Collection[Part],
        subscribed: Collection[str],
        taken: Collection[Part],
        owned: Collection[Part] | None,
        *,
        changed: bool,
    ) -> None:
        """Go as far towards a target as others and the member itself allow: first give up, then get.

        Args:
            epoch: Of the target.
            target: What it is to have.
            subscribed: The ids of its topics.
            taken: What others have or have not yet given up.
            owned: What it says that it has; None if it does not say.
            changed: Its subscription is another than before.

        Source: CurrentAssignmentBuilder.
        """
        waits = self.state is MemberState.UNREVOKED and _has_any(owned, self.revoking)
        if not waits and (self.state is not MemberState.STABLE or self.epoch != epoch):
            self._advance(epoch, {each for each in target if each[0] in subscribed}, taken, owned)
        elif changed:
            self._unsubscribe(subscribed, owned)

    def replaced_by(self, member_id: str) -> Self:
        """The same static member under the id that it has come back with."""
        return type(self)(
            member_id,
            self.instance_id,
            self.rack_id,
            self.client_id,
            self.client_host,
            self.rebalance_timeout_ms,
            self.topics,
            self.regex,
            self.assignor,
            assigned=self.assigned,
            revoking=self.revoking,
            state=self.state,
            classic=self.classic,
        )

    def go_away(self) -> None:
        """A static member that will come back: its partitions stay its own."""
        self.epoch = AWAY
        self.revoking = {}
        self.assigned = dict.fromkeys(self.assigned, 0)

    def kept(self) -> Mapping[str, Any]:
        """What of it outlives a restart."""
        return {
            **{name: getattr(self, name) for name in _PLAIN},
            "topics": sorted(self.topics),
            "assigned": _listed(self.assigned),
            "revoking": _listed(self.revoking),
            "classic": None if self.classic is None else self.classic.kept(),
        }

    @classmethod
    def restored(cls, kept: Mapping[str, Any]) -> Self:
        """The member that was kept."""
        assigned, revoking = ({(t, i): e for t, i, e in kept[name]} for name in ("assigned", "revoking"))
        plain = {name: kept[name] for name in _PLAIN}
        made = cls(**plain, topics=frozenset(kept["topics"]), assigned=assigned, revoking=revoking)
        made.state = MemberState(kept["state"])
        made.classic = None if kept["classic"] is None else Joining.restored(kept["classic"])
        return made

    def _advance(self, epoch: int, target: set[Part], taken: Collection[Part], owned: Collection[Part] | None) -> None:
        kept = {part: since for part, since in self.assigned.items() if part in target}
        given_up = {part: since for part, since in self.assigned.items() if part not in target}
        if given_up and _has_any(owned, given_up):
            self.assigned, self.revoking = kept, given_up
            self.state = MemberState.UNREVOKED
            self.previous_epoch = self.epoch
            return
        missing = target - kept.keys()
        free = {part for part in missing if part not in taken}
        self.assigned = kept | dict.fromkeys(sorted(free), epoch)
        self.revoking = {}
        self.state = MemberState.STABLE if free == missing else MemberState.UNRELEASED
        self.previous_epoch, self.epoch = self.epoch, epoch

    def _unsubscribe(self, subscribed: Collection[str], owned: Collection[Part] | None) -> None:
        given_up = {part: since for part, since in self.assigned.items() if part[0] not in subscribed}
        if not given_up:
            return
        for part in given_up:
            del self.assigned[part]
        revoking = self.revoking | given_up
        if _has_any(owned, revoking):
            self.revoking = revoking
            self.state = MemberState.UNREVOKED
        self.previous_epoch = self.epoch


_PLAIN: Final = (
    "id",
    "instance_id",
    "rack_id",
    "client_id",
    "client_host",
    "rebalance_timeout_ms",
    "regex",
    "assignor",
    "epoch",
    "previous_epoch",
    "state",
)


def _has_any(owned: Collection[Part] | None, parts: Collection[Part]) -> bool:
    """Whether a member has some of these, as far as it says: if it does not, it has."""
    return owned is None or any(part in parts for part in owned)


def _listed(parts: Mapping[Part, int]) -> list[tuple[str, int, int]]:
    return [(topic, index, epoch) for (topic, index), epoch in parts.items()]
