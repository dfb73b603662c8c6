"""Trace lines of a group's members and their broker, and lines that no real client would send."""

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
from tests.kproxy.browse.sample_overviews import close_line, feed, make_gap
from tests.kproxy.browse.sessions import BEGAN, SECOND, request, response

#: Traces of librdkafka 2.16.0 behind kproxy, reduced to the lines of the group, with kproxy's broker or Kafka 4.3.1:
#: killed-member (Kafka; three members: one gets SIGKILL, another joins before its session expires),
#: partitions-not-given-up (Kafka; KIP-848; one member does not poll for 25 s while another joins),
#: application-does-not-poll (one of two members does not poll for 18 s while a third joins),
#: frozen-process (one of two members is stopped with SIGSTOP for 15 s, with a session timeout of 10 s).
DATA = Path(__file__).parents[2] / "data" / "groups"

#: The text that librdkafka appends to the client id to form a member id.
TAIL = "-5dc89100-0000-4000-8000-000000000000"

#: Sizes of SyncGroup requests and JoinGroup responses: those of the leader list all members.
LEADER, MEMBER = 600, 90


class GroupStory:
    """Collect trace lines of a group; times are in seconds since the start of the story."""

    def __init__(self, group: str = "billing") -> None:
        self.lines: list[Line] = []
        self.group = group
        self._ids = count(1)

    def request(self, at: float, name: str, api: str, *, member: str | None = "", **more: Any) -> RequestLine:
        """Add a request from the member called `name`; `member` is its member id, derived from its name by default."""
        line = request(
            next(self._ids), at=at, api=api, **{"size": MEMBER, **self._member_columns(name, member), **more}
        )
        self.lines.append(line)
        return line

    def answer(self, request_line: RequestLine, at: float, *, error: str = "", **more: Any) -> None:
        """Add the broker's response to a request."""
        after_us = (BEGAN + int(at * SECOND) - nanoseconds(request_line.ts)) // 1000
        facts = {name: getattr(request_line, name) for name in ("group_id", "member_id", "generation_id")} | {
            "size": MEMBER
        }
        errors = [ErrorEntry("error_code", 1, error)] if error else []
        self.lines.append(response(request_line, after_us=after_us, errors=errors, **facts | more))

    def exchange(
        self, at: float, name: str, api: str, *, error: str = "", response_generation: int | None = None,
        answer_size: int = MEMBER, **more: Any,
    ) -> None:  # fmt: skip
        """Add a request and, a millisecond later, its response, which has generation `response_generation` if given."""
        generation = {} if response_generation is None else {"generation_id": response_generation}
        self.answer(self.request(at, name, api, **more), at + 0.001, error=error, size=answer_size, **generation)

    def join(self, at: float, *members: str, generation: int = 1) -> None:
        """Let all members join, the first as the leader, and receive their assignments."""
        joins = [self.request(at, member, "JoinGroup") for member in members]
        for position, join in enumerate(joins):
            self.answer(join, at + 0.001, generation_id=generation, size=MEMBER if position else LEADER)
        self.sync(at + 0.002, *members, generation=generation)

    def sync(self, at: float, *members: str, generation: int = 1) -> None:
        """Let all members send SyncGroup, the first as the leader, and receive their assignments."""
        syncs = [
            self.request(at, member, "SyncGroup", generation_id=generation, size=MEMBER if position else LEADER)
            for position, member in enumerate(members)
        ]
        for sync in syncs:
            self.answer(sync, at + 0.001)

    def send_heartbeats(self, start: float, end: float, *members: str, error: str = "", generation: int = 1) -> None:
        """Let each member send a heartbeat every second from `start` up to `end`."""
        at = start
        while at < end:
            for member in members:
                self.exchange(at, member, "Heartbeat", generation_id=generation, error=error)
            at += 1

    def send_epoch_heartbeats(self, start: float, end: float, name: str, epoch: int) -> None:
        """Add a successful KIP-848 heartbeat of the member called `name` every five seconds."""
        at = start
        while at < end:
            self.exchange(at, name, "ConsumerGroupHeartbeat", generation_id=epoch)
            at += 5

    def close_connection(self, at: float, name: str, *, by: str | None = "client") -> None:
        """Close the connection of the member called `name`."""
        self.lines.append(close_line(f"n-{name}", at=BEGAN + int(at * SECOND), by=by, how="fin"))

    def add_finding(self, at: float, name: str, code: str, message: str) -> None:
        """Add a finding that does not belong to a frame."""
        self.lines.append(
            FindingLine(
                v=1,
                ts=timestamp(BEGAN + int(at * SECOND)),
                connection_id=f"n-{name}",
                code=code,
                name="x",
                severity="error",
                message=message,
                hint="look",
            )
        )

    def add_gap(self, at: float, name: str | None) -> None:
        """Add a gap: responses to the member called `name` are missing or, if it is None, lines of all connections."""
        self.lines.append(
            make_gap(f"n-{name}" if name else "", "response" if name else "both", at=BEGAN + int(at * SECOND))
        )

    def view(self, now: float) -> GroupView:
        """Return the view of the group at `now`."""
        lines = sorted(self.lines, key=lambda line: line.ts)
        view = feed(GroupsOverview(), lines).view(self.group, BEGAN + int(now * SECOND))
        assert view is not None
        return view

    def stalls(self, now: float) -> list[Stall]:
        """Return the stalls of the group up to `now`."""
        return list(self.view(now).stalls)

    def _member_columns(self, name: str, member: str | None) -> dict[str, Any]:
        return {
            "connection_id": f"n-{name}",
            "client": f"10.0.0.1:{4000 + sum(map(ord, name))}",
            "server": "b1:9092",
            "client_id": name,
            "group_id": self.group,
            "member_id": name + TAIL if member == "" else member,
        }


def lines_of(name: str) -> list[Line]:
    """Return the lines of a trace of real clients and brokers in tests/data/groups."""
    with gzip.open(DATA / f"{name}.jsonl.gz") as file:
        return [line for raw in file if (line := parse_partial(raw)) is not None]


_texts = st.sampled_from(["", "m-1", "m-2", "\0n-1", "\x1b[2J", "\ud800", "x" * 300])
_errors = st.sampled_from([
    "MEMBER_ID_REQUIRED", "REBALANCE_IN_PROGRESS", "UNKNOWN_MEMBER_ID", "ILLEGAL_GENERATION", "FENCED_INSTANCE_ID",
    "NOT_COORDINATOR", "COORDINATOR_NOT_AVAILABLE", "\x1b",
])  # fmt: skip
_common = {
    "v": st.just(1),
    "ts": st.integers(-1, 120).map(lambda second: timestamp(BEGAN + second * SECOND)) | st.just("no time at all"),
    "connection_id": st.sampled_from(["", "n-1", "n-2", "n-3"]),
}
_endpoints = {"client": st.sampled_from(["10.0.0.1:1", "unix:", ""]), "server": st.sampled_from(["s:1", "s:2"])}
_frame_columns = _common | _endpoints | {
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
inconsistent_lines = st.lists(
    st.tuples(
        st.one_of(
            st.builds(RequestLine, **_frame_columns),
            st.builds(
                ResponseLine, **_frame_columns, request_ts=st.none() | _common["ts"],
                request_offset=st.sampled_from([None, 0, 1]), latency_us=st.none() | st.integers(-1, 9),
                errors=st.just([]) | st.builds(ErrorEntry, _texts, st.just(1), _errors).map(lambda error: [error]),
            ),
            st.builds(FindingLine, **_common, code=st.sampled_from(["S013", "S019"]), name=_texts,
                      severity=st.sampled_from(["error", "?"]), message=_texts),
            st.builds(GapLine, **_common, direction=_texts, bytes=st.integers(), reason=_texts),
            st.builds(CloseLine, **_common, **_endpoints,
                      by=st.none() | st.sampled_from(["client", "server", "proxy"])),
        ),
        st.integers(0, 9),
    ),
    max_size=40,
)  # fmt: skip


def kinds(stalls: Iterable[Stall]) -> list[str]:
    """Return the kind of each stall."""
    return [str(stall.kind) for stall in stalls]
