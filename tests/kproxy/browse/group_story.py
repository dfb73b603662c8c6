"""Trace lines of the members of a group and the broker; and lines that no real client would send."""

from __future__ import annotations

import gzip
from collections.abc import Iterable
from itertools import count
from pathlib import Path
from typing import Any

from hypothesis import strategies as st

from dissectors.groups import Stall
from kproxy.browse.rows.partial_parse import parse_partial
from kproxy.groups import GroupsOverview, GroupView
from kproxy.trace.lines import (
    CloseLine,
    ErrorEntry,
    FindingEntry,
    FindingLine,
    GapLine,
    Line,
    RequestLine,
    ResponseLine,
)
from kproxy.trace.timestamps import nanoseconds, timestamp
from tests.kproxy.browse.sample_overviews import closed, feed, missed
from tests.kproxy.browse.sessions import BEGAN, SECOND, request, response

#: Traces of librdkafka 2.16.0 behind kproxy, only the lines of the group, from kproxy's broker or Kafka 4.3.1:
#: killed-member (Kafka; three members, one gets SIGKILL, another joins while its session lasts),
#: partitions-not-given-up (Kafka; KIP-848, one does not poll for 25 s when another joins),
#: application-does-not-poll (one of two does not poll for 18 s when a third joins),
#: frozen-process (one of two gets SIGSTOP for 15 s, with a session timeout of 10 s).
DATA = Path(__file__).parents[2] / "data" / "groups"

#: The end of a member id of librdkafka.
TAIL = "-5dc89100-0000-4000-8000-000000000000"

#: Sizes of SyncGroup requests and JoinGroup responses: those of the leader list all members.
LEADER, MEMBER = 600, 90


class Story:
    """Collects lines; times are seconds since the story began."""

    def __init__(self, group: str = "billing") -> None:
        self.lines: list[Line] = []
        self.group = group
        self._ids = count(1)

    def ask(self, at: float, who: str, api: str, *, member: str | None = "", **more: Any) -> RequestLine:
        """Member `who` sends a request; `member` is its member id, by default made from its name."""
        line = request(next(self._ids), at=at, api=api, **{"size": MEMBER, **self._what(who, member), **more})
        self.lines.append(line)
        return line

    def answer(self, request_line: RequestLine, at: float, *, error: str = "", **more: Any) -> None:
        """The broker responds to a request."""
        after_us = (BEGAN + int(at * SECOND) - nanoseconds(request_line.ts)) // 1000
        facts = {name: getattr(request_line, name) for name in ("group_id", "member_id", "generation_id")} | {
            "size": MEMBER
        }
        errors = [ErrorEntry("error_code", 1, error)] if error else []
        self.lines.append(response(request_line, after_us=after_us, errors=errors, **facts | more))

    def say(
        self, at: float, who: str, api: str, *, error: str = "", to: int | None = None, answer_size: int = MEMBER,
        **more: Any,
    ) -> None:  # fmt: skip
        """A request and its response a millisecond later, which may have the generation `to`."""
        generation = {} if to is None else {"generation_id": to}
        self.answer(self.ask(at, who, api, **more), at + 0.001, error=error, size=answer_size, **generation)

    def joined(self, at: float, *members: str, generation: int = 1) -> None:
        """All of them join, the first as the leader, and get their assignment."""
        joins = [self.ask(at, member, "JoinGroup") for member in members]
        for position, join in enumerate(joins):
            self.answer(join, at + 0.001, generation_id=generation, size=MEMBER if position else LEADER)
        self.synced(at + 0.002, *members, generation=generation)

    def synced(self, at: float, *members: str, generation: int = 1) -> None:
        """All of them send SyncGroup, the first as the leader, and get their assignment."""
        syncs = [
            self.ask(at, member, "SyncGroup", generation_id=generation, size=MEMBER if position else LEADER)
            for position, member in enumerate(members)
        ]
        for sync in syncs:
            self.answer(sync, at + 0.001)

    def beats(self, start: float, end: float, *members: str, error: str = "", generation: int = 1) -> None:
        """Each of them sends a heartbeat every second, from `start` up to `end`."""
        at = start
        while at < end:
            for member in members:
                self.say(at, member, "Heartbeat", generation_id=generation, error=error)
            at += 1

    def epochs(self, start: float, end: float, who: str, epoch: int) -> None:
        """Successful KIP-848 heartbeats every five seconds."""
        at = start
        while at < end:
            self.say(at, who, "ConsumerGroupHeartbeat", generation_id=epoch)
            at += 5

    def closes(self, at: float, who: str, *, by: str | None = "client") -> None:
        """The connection of `who` ends."""
        self.lines.append(closed(f"n-{who}", at=BEGAN + int(at * SECOND), by=by, how="fin"))

    def finds(self, at: float, who: str, code: str, message: str) -> None:
        """A rule reports a finding that belongs to no frame."""
        self.lines.append(
            FindingLine(
                v=1,
                ts=timestamp(BEGAN + int(at * SECOND)),
                connection_id=f"n-{who}",
                code=code,
                name="x",
                severity="error",
                message=message,
                hint="look",
            )
        )

    def misses(self, at: float, who: str | None) -> None:
        """Responses on the connection of `who` are missing; lines of all connections if it is None."""
        self.lines.append(missed(f"n-{who}" if who else "", "response" if who else "both", at=BEGAN + int(at * SECOND)))

    def view(self, now: float) -> GroupView:
        """The group as it is at `now`."""
        lines = sorted(self.lines, key=lambda line: line.ts)
        view = feed(GroupsOverview(), lines).view(self.group, BEGAN + int(now * SECOND))
        assert view is not None
        return view

    def stalls(self, now: float) -> list[Stall]:
        """The stalls of the group up to `now`."""
        return list(self.view(now).stalls)

    def _what(self, who: str, member: str | None) -> dict[str, Any]:
        return {
            "connection_id": f"n-{who}",
            "client": f"10.0.0.1:{4000 + sum(map(ord, who))}",
            "server": "b1:9092",
            "client_id": who,
            "group_id": self.group,
            "member_id": who + TAIL if member == "" else member,
        }


def lines_of(name: str) -> list[Line]:
    """The lines of a trace of real clients and brokers, below tests/data/groups."""
    with gzip.open(DATA / f"{name}.jsonl.gz") as file:
        return [line for raw in file if (line := parse_partial(raw)) is not None]


_texts = st.sampled_from(["", "m-1", "m-2", "\0n-1", "\x1b[2J", "\ud800", "x" * 300])
_errors = st.sampled_from([
    "MEMBER_ID_REQUIRED", "REBALANCE_IN_PROGRESS", "UNKNOWN_MEMBER_ID", "ILLEGAL_GENERATION", "FENCED_INSTANCE_ID",
    "NOT_COORDINATOR", "COORDINATOR_NOT_AVAILABLE", "\x1b",
])  # fmt: skip
_base = {
    "v": st.just(1),
    "ts": st.integers(-1, 120).map(lambda second: timestamp(BEGAN + second * SECOND)) | st.just("no time at all"),
    "connection_id": st.sampled_from(["", "n-1", "n-2", "n-3"]),
}
_ends = {"client": st.sampled_from(["10.0.0.1:1", "unix:", ""]), "server": st.sampled_from(["s:1", "s:2"])}
_frame = _base | _ends | {
    "api": st.sampled_from([
        "JoinGroup", "SyncGroup", "Heartbeat", "LeaveGroup", "OffsetCommit", "OffsetFetch", "FindCoordinator",
        "ConsumerGroupHeartbeat", "ShareGroupHeartbeat",
    ]),
    "correlation_id": st.none() | st.integers(0, 2),
    "client_id": st.none() | _texts,
    "size": st.integers(-1, 1000),
    "offset": st.just(0),
    "group_id": st.none() | st.sampled_from(["", "g"]),
    "member_id": st.none() | _texts,
    "generation_id": st.none() | st.integers(-2, 4) | st.just(2**63),
    "findings": st.just([]) | st.builds(
        FindingEntry, st.sampled_from(["S013", "L003"]), _texts, st.sampled_from(["error", "info", "?"]), _texts
    ).map(lambda finding: [finding]),
}  # fmt: skip

#: Inconsistent lines about groups, in any order, on any rows.
torn = st.lists(
    st.tuples(
        st.one_of(
            st.builds(RequestLine, **_frame),
            st.builds(
                ResponseLine, **_frame, request_ts=st.none() | _base["ts"],
                request_offset=st.sampled_from([None, 0, 1]), latency_us=st.none() | st.integers(-1, 9),
                errors=st.just([]) | st.builds(ErrorEntry, _texts, st.just(1), _errors).map(lambda error: [error]),
            ),
            st.builds(FindingLine, **_base, code=st.sampled_from(["S013", "S019"]), name=_texts,
                      severity=st.sampled_from(["error", "?"]), message=_texts),
            st.builds(GapLine, **_base, direction=_texts, bytes=st.integers(), reason=_texts),
            st.builds(CloseLine, **_base, **_ends, by=st.none() | st.sampled_from(["client", "server", "proxy"])),
        ),
        st.integers(0, 9),
    ),
    max_size=40,
)  # fmt: skip


def kinds(stalls: Iterable[Stall]) -> list[str]:
    """The kind of each stall."""
    return [str(stall.kind) for stall in stalls]
