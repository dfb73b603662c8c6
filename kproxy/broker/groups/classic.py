"""ClassicGroup: handles the requests of a classic group's members.

Source: ClassicGroup and GroupMetadataManager in Kafka 4.3.
"""

from __future__ import annotations

import functools
import uuid
from collections.abc import Collection, Iterable, Mapping
from typing import TYPE_CHECKING, Any, Final

from kproxy.broker.errors import ApiError, Error
from kproxy.broker.groups.classic_member import ClassicMember, JoinRequest
from kproxy.broker.groups.group import PartitionCheck, Respond, no_check
from kproxy.broker.groups.rebalance import SYNC, UNKNOWN_MEMBER_RESPONSE, ClassicRebalance, RebalanceState
from kproxy.broker.groups.settings import MAX_MEMBERS
from kproxy.broker.groups.subscriptions import CONSUMER

if TYPE_CHECKING:
    from kproxy.broker.groups.offsets import CommittedOffset

_NEW_MEMBER_TIMEOUT_MS: Final = 5 * 60 * 1000  # for a new member waiting for its first JoinGroup response


class ClassicGroup(ClassicRebalance):
    """A group whose leader assigns the partitions."""

    def join(self, request: JoinRequest, respond: Respond) -> None:
        """Let a member join or rejoin; respond when all members have joined.

        Raises:
            ApiError: GROUP_MAX_SIZE_REACHED, INCONSISTENT_GROUP_PROTOCOL, UNKNOWN_MEMBER_ID, FENCED_INSTANCE_ID.
        """
        if not self._has_capacity(request.member_id):
            self._remove_member(request.member_id)
            raise ApiError(Error.GROUP_MAX_SIZE_REACHED)
        if not self._supports(request.protocol_type, request.protocols):
            raise ApiError(Error.INCONSISTENT_GROUP_PROTOCOL)
        if not request.member_id:
            self._join_new(request, respond)
        elif request.member_id not in self._pending:
            self._rejoin(self._find_member(request.member_id, request.instance_id), request, respond)
        elif request.instance_id is None:
            self._add_member(request.member_id, request, respond)
        else:
            raise ApiError(Error.UNKNOWN_SERVER_ERROR)  # as in Kafka: only dynamic members are first given an id

    def sync(
        self,
        member_id: str,
        instance_id: str | None,
        generation: int,
        protocol: tuple[str | None, str | None],
        assignments: Mapping[str, bytes],
        respond: Respond,
    ) -> None:
        """Handle a member's request for its assignment; the leader's request contains the assignments of all members.

        Args:
            member_id: The member.
            instance_id: The instance id of a static member.
            generation: The generation that it joined.
            protocol: Protocol type and name in the request; None before version 5.
            assignments: The assignment of each member; ignored unless the leader sends them.
            respond: Called with the response when the leader has synced.

        Raises:
            ApiError: UNKNOWN_MEMBER_ID, FENCED_INSTANCE_ID, ILLEGAL_GENERATION, INCONSISTENT_GROUP_PROTOCOL,
                REBALANCE_IN_PROGRESS.
        """
        member = self._find_current_member(member_id, instance_id, generation)
        protocol_pairs = zip(protocol, (self.protocol_type, self.protocol), strict=True)
        if any(None not in (requested, current) and requested != current for requested, current in protocol_pairs):
            raise ApiError(Error.INCONSISTENT_GROUP_PROTOCOL)
        if self._state is RebalanceState.PREPARING:
            raise ApiError(Error.REBALANCE_IN_PROGRESS)
        self._mark_synced(member_id)
        member.sync = respond
        if self._state is RebalanceState.STABLE:
            member.respond_to_sync(self._sync_response(member))
        elif member_id == self.leader:
            for receiver in self.members.values():
                receiver.assignment = assignments.get(receiver.id, b"")
            self._respond_to_syncs()
            self._set_state(RebalanceState.STABLE)
            self._context.store(self)

    def heartbeat(self, member_id: str, instance_id: str | None, generation: int) -> None:
        """Keep a member alive.

        Raises:
            ApiError: UNKNOWN_MEMBER_ID, FENCED_INSTANCE_ID, ILLEGAL_GENERATION, REBALANCE_IN_PROGRESS.
        """
        self._restart_session_timer(self._find_current_member(member_id, instance_id, generation))
        if self._state is RebalanceState.PREPARING:
            raise ApiError(Error.REBALANCE_IN_PROGRESS)

    def leave(self, members: Iterable[tuple[str, str | None]]) -> list[Error]:
        """Remove members, given by member id (optional for static members) and instance id; return their results."""
        errors = [self._remove_leaving_member(*member) for member in members]
        if Error.NONE in errors and not self.is_empty:
            self._prepare_or_complete()
        return errors

    def check_commit(
        self, member_id: str, instance_id: str | None, epoch: int, *, transactional: bool, version: int
    ) -> PartitionCheck:
        if epoch < 0 and self.is_empty:
            return no_check
        if epoch >= 0 or member_id or instance_id is not None:
            member = self._find_current_member(member_id, instance_id, epoch)
            if not transactional and self._state is not RebalanceState.COMPLETING:
                self._restart_session_timer(member)
        elif not transactional:
            raise ApiError(Error.UNKNOWN_MEMBER_ID)
        if not transactional and self._state is RebalanceState.COMPLETING:
            raise ApiError(Error.REBALANCE_IN_PROGRESS)
        return no_check

    def check_fetch(self, member_id: str | None, epoch: int) -> None:
        """Allow everyone to fetch offsets."""

    def check_offset_deletion(self) -> None:
        if not self.is_empty and self.protocol_type != CONSUMER:
            raise ApiError(Error.NON_EMPTY_GROUP)

    def is_subscribed(self, topic: str) -> bool:
        return self.protocol_type == CONSUMER if self._topics is None else topic in self._topics

    def unused_since(self, committed: CommittedOffset) -> int | None:
        if not self.protocol_type:
            return committed.at
        if self.is_empty:
            return self._state_since
        is_known = self._state is RebalanceState.STABLE and self._topics is not None
        return committed.at if is_known else None

    def close(self) -> None:
        """Close the group, e.g. when a group of another type replaces it; waiting members must rejoin."""
        super().close()
        for member in self.members.values():
            member.respond_to_join({"error_code": Error.REBALANCE_IN_PROGRESS, "member_id": member.id})
            member.respond_to_sync({"error_code": Error.REBALANCE_IN_PROGRESS})

    def describe(self) -> Mapping[str, Any]:
        """Return the group's entry in a DescribeGroups response."""
        is_stable = self._state is RebalanceState.STABLE
        return {
            "group_id": self.id,
            "group_state": self.state,
            "protocol_type": self.protocol_type,
            "protocol_data": self.protocol if is_stable else "",
            "members": [
                {
                    "member_id": member.id,
                    "group_instance_id": member.instance_id,
                    "client_id": member.client_id,
                    "client_host": member.client_host,
                    "member_metadata": member.protocols[self.protocol or ""] if is_stable else b"",
                    "member_assignment": member.assignment,
                }
                for member in self.members.values()
            ],
        }

    def to_journal(self) -> Mapping[str, Any]:
        return {
            "type": self.type,
            "generation": self.generation,
            "protocol_type": self.protocol_type,
            "protocol": self.protocol,
            "leader": self.leader,
            "since": self._state_since,
            "members": [member.to_journal() for member in self.members.values()],
        }

    def restore(self, stored: Mapping[str, Any]) -> None:
        self.generation, self.protocol_type = stored["generation"], stored["protocol_type"]
        self.settle(
            [ClassicMember.from_journal(member) for member in stored["members"]], stored["protocol"], stored["leader"]
        )
        self._state_since = stored["since"]

    def _has_capacity(self, member_id: str) -> bool:
        """Whether the member can join. Unlike Kafka, kproxy also limits the members with an id that have not joined."""
        if not member_id and len(self._pending) >= MAX_MEMBERS:
            return False
        is_preparing = self._state is RebalanceState.PREPARING
        existing = self.members.get(member_id)
        if self.is_empty or (existing is not None and (existing.join is not None or not is_preparing)):
            return True
        member_count = (
            sum(member.join is not None for member in self.members.values()) if is_preparing else len(self.members)
        )
        return member_count < self._context.settings.max_classic_size

    def _supports(self, protocol_type: str, protocols: Collection[str]) -> bool:
        if self.is_empty:
            return bool(protocol_type and protocols)
        return protocol_type == self.protocol_type and any(
            all(name in member.protocols for member in self.members.values()) for name in protocols
        )

    def _find_current_member(self, member_id: str, instance_id: str | None, generation: int) -> ClassicMember:
        member = self._find_member(member_id, instance_id)
        if generation != self.generation:
            raise ApiError(Error.ILLEGAL_GENERATION)
        return member

    def _find_member(self, member_id: str, instance_id: str | None) -> ClassicMember:
        if instance_id is not None:
            if (current_id := self._static.get(instance_id)) is None:
                raise ApiError(Error.UNKNOWN_MEMBER_ID)
            if current_id != member_id:
                raise ApiError(Error.FENCED_INSTANCE_ID)
        if (member := self.members.get(member_id)) is None:
            raise ApiError(Error.UNKNOWN_MEMBER_ID)
        return member

    def _join_new(self, request: JoinRequest, respond: Respond) -> None:
        new_id = f"{request.client_id if request.instance_id is None else request.instance_id}-{uuid.uuid4()}"
        if request.instance_id is not None and (current_id := self._static.get(request.instance_id)) is not None:
            self._replace_member(self.members[current_id], new_id, request, respond)
        elif request.instance_id is not None or not request.learns_id:
            self._add_member(new_id, request, respond)
        else:
            self._pending.add(new_id)
            self._timers.set(new_id, request.session_timeout_ms, functools.partial(self._expire, new_id))
            respond({"error_code": Error.MEMBER_ID_REQUIRED, "member_id": new_id})

    def _rejoin(self, member: ClassicMember, request: JoinRequest, respond: Respond) -> None:
        is_leader = member.id == self.leader
        has_same_protocols = member.has_protocols(request.protocols)
        if has_same_protocols and (
            self._state is RebalanceState.COMPLETING or (self._state is RebalanceState.STABLE and not is_leader)
        ):
            respond(self._join_response(member))  # it missed this generation's response
        else:
            self._update_member(member, request, respond)
            self._prepare_or_complete()

    def _add_member(self, member_id: str, request: JoinRequest, respond: Respond) -> None:
        member = request.create_member(member_id, respond)
        self._joined_during_delay = (
            self._state is RebalanceState.PREPARING and self._previous_state is RebalanceState.EMPTY
        )
        if not self.members:
            self.protocol_type = request.protocol_type
        self.members[member_id] = member
        if request.instance_id is not None:
            self._static[request.instance_id] = member_id
        self.leader = self.leader or member_id
        self._pending.discard(member_id)
        self._restart_session_timer(member, _NEW_MEMBER_TIMEOUT_MS)
        self._prepare_or_complete()

    def _update_member(self, member: ClassicMember, request: JoinRequest, respond: Respond) -> None:
        member.protocols = request.protocols
        member.session_timeout_ms = request.session_timeout_ms
        member.rebalance_timeout_ms = request.rebalance_timeout_ms
        member.join = respond

    def _replace_member(self, member: ClassicMember, new_id: str, request: JoinRequest, respond: Respond) -> None:
        """Give a static member that returns without its id a new id; the old id is fenced."""
        member.respond_to_join({"error_code": Error.FENCED_INSTANCE_ID, "member_id": member.id})
        member.respond_to_sync({"error_code": Error.FENCED_INSTANCE_ID})
        is_leader, old_leader = member.id == self.leader, self.leader
        self._remove_member(member.id)
        member.id, member.is_new = new_id, False
        self.members[new_id] = member
        self._static[request.instance_id or ""] = new_id
        self.leader = new_id if is_leader else self.leader
        self._restart_session_timer(member)
        self._update_member(member, request, respond)
        if self._state is not RebalanceState.STABLE:
            self.prepare() if self._state is RebalanceState.COMPLETING else self._complete_if_all_joined()
        elif self._elected_protocol() != self.protocol:
            self.prepare()
        else:  # unchanged: no rebalance
            self._context.store(self)
            follower_fields: dict[str, Any] = {"leader": old_leader, "members": []}  # so that it acts as a follower
            member.respond_to_join(
                self._join_response(member) | ({"skip_assignment": is_leader} if request.skips else follower_fields)
            )

    def _mark_synced(self, member_id: str) -> None:
        self._unsynced.discard(member_id)
        if not self._unsynced:
            self._timers.cancel(SYNC)

    def _remove_leaving_member(self, member_id: str, instance_id: str | None) -> Error:
        try:
            if not member_id:
                member_id = self._static.get(instance_id or "", "")
            if member_id not in self._pending:
                self._find_member(member_id, instance_id).respond_to_join(UNKNOWN_MEMBER_RESPONSE)
        except ApiError as api_error:
            return api_error.error
        self._remove_member(member_id)
        return Error.NONE
