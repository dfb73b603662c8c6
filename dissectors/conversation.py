"""Conversation: one connection with all trackers and rules: bytes in, events with their findings out."""

# Rule 1: every event passes the trackers once, in the order of its time, before any rule checks it. What rules read is
# therefore the state after the event.
#
# Rule 2: time comes from the caller alone. A deadline passes when a later `at` arrives, never by a clock, so a capture
# yields the same findings as the live traffic that it recorded.
#
# Rule 3: the connections of one run share a `RunState`. A root cause is reported once per run, so the second
# conversation of a run does not repeat what the first has reported.

from __future__ import annotations

from dataclasses import replace
from typing import NamedTuple

from dissectors import rules
from dissectors.connections.connection import Connection
from dissectors.connections.events import ConnectionOpened, Direction, Event, FrameIncomplete
from dissectors.findings import Finding
from dissectors.messages.message import Message
from dissectors.trackers.state import ConnectionState, RunState


class Judged(NamedTuple):
    """An event, and what the rules found in it: ordered by code, family E last; empty if nothing is wrong."""

    event: Event
    findings: list[Finding]

    @property
    def message(self) -> Message | None:
        """The frame of a request or response; None for other events, and for responses to unknown requests."""
        message: Message | None = getattr(self.event, "message", None)
        return message


def new_run() -> RunState:
    """Return the state of a run with everything that the rules need, for the conversations of one cluster."""
    return RunState(rules.trackers())


class Conversation:
    """Reads and judges one connection. Its methods never raise, whatever the bytes.

    ::

        conversation = Conversation()
        conversation.receive_data(Direction.REQUEST, request, at=0)
        [judged] = conversation.receive_data(Direction.RESPONSE, response, at=2_000_000)
        assert judged.findings == []

    Args:
        run: Shared by conversations whose connections belong together: one cluster, one capture. A new one by default.
        client: The client's address, ``host:port``; findings about clients are counted by host and client id.
        server: The broker's address, ``host:port``.
        at: When the connection was opened (ns since the epoch).
        midstream: Whether its first bytes may be in the middle of a frame.

    Attributes:
        connection: Cuts and pairs the frames.
        state: What the rules know about the connection.
    """

    def __init__(
        self,
        run: RunState | None = None,
        *,
        client: str = "client:0",
        server: str = "server:9092",
        at: int = 0,
        midstream: bool = False,
    ) -> None:
        self.connection = Connection(midstream=midstream)
        self.state = ConnectionState(new_run() if run is None else run)
        self._judge(ConnectionOpened(at, client, server, midstream=midstream))

    def receive_data(self, direction: Direction, data: bytes, *, at: int) -> list[Judged]:
        """Process the next bytes of one direction, in chunks of any size; return completed events and missed deadlines.

        Args:
            direction: `Direction.REQUEST` from the client, `Direction.RESPONSE` from the broker.
            data: The bytes as they arrived; feed all connections of a run in chronological order.
            at: When they arrived (ns since the epoch).
        """
        judged = self.tick(at=at)
        return judged + [self._judge(event) for event in self.connection.receive_data(direction, data, at=at)]

    def tick(self, *, at: int) -> list[Judged]:
        """Advance the time of the run to `at`; return the deadlines of all its connections that have passed."""
        return [
            Judged(deadline, rules.check(deadline, state))
            for state, deadline in self.state.run.deadlines.pop_passed(at)
        ]

    def close(self, *, at: int) -> list[Judged]:
        """End the connection, and judge its end: requests without a response, for instance."""
        judged = self.tick(at=at)
        return judged + [self._judge(event) for event in self.connection.close(at=at)]

    def _judge(self, event: Event) -> Judged:
        self.state.observe(event)
        return Judged(event, rules.check(event, self.state))


def check_exchange(request: bytes, response: bytes | None = None) -> list[Finding]:
    """Return what the rules find in a request frame and its response, ordered by frame and code; empty if correct.

    What the client did before counts as unknown: a missing ApiVersions request is not a finding. Both must be whole
    frames: an empty one is an error, and so is one that is shorter or longer than its length prefix says.

    Args:
        request: A frame with its length prefix.
        response: The frame that answers it. With None, only the request is judged.
    """
    exchange = _Exchange(client="")  # an unknown client, so that its earlier requests are unknown
    frames = [(Direction.REQUEST, request)]
    if response is not None:
        frames.append((Direction.RESPONSE, response))
    judged: list[Judged] = []
    for direction, frame in frames:
        judged += exchange.receive_data(direction, frame, at=0)
    for direction, frame in frames:
        judged += exchange.judge_size(direction, frame)
    return [finding for judgement in judged for finding in judgement.findings]


class _Exchange(Conversation):
    """A conversation of one frame in each direction, with nothing to follow."""

    def judge_size(self, direction: Direction, frame: bytes) -> list[Judged]:
        """Judge what is missing from the frame of a direction, or what comes after its end."""
        if not frame:
            return [self._judge(FrameIncomplete(0, direction, have=0, size=0, is_final=True))]
        if not self.connection.is_within_frame(direction):
            return []
        event = self.connection.incomplete_frame(direction, at=0)
        return [self._judge(replace(event, is_final=True, offset=len(frame) - event.have))]
