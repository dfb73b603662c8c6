"""Requests are sent in the captured order, and missing responses are reported."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

from kproxy.client.connection import NoResponse
from kproxy.errors import UNREACHABLE, UserError
from kproxy.replay.exchange import ReplayedExchange, Replayer, ReplayOutcome
from kproxy.replay.run import Replay
from tests.kproxy.frames import response
from tests.kproxy.replay.capture_stories import steps

ConnectFunction = Callable[[object], Awaitable[Any]]
PIPELINED = """
> Heartbeat v4 {}
> Heartbeat v4 {}
< {}
2> Heartbeat v4 {}
< {}
> Heartbeat v4 {}
2< {}
"""


class FakeConnection:
    """A connection to a broker that responds to each heartbeat; all calls are logged in order."""

    def __init__(self, log: list[str], name: str, errors: list[int | NoResponse] | None = None) -> None:
        self.log, self.name, self.errors = log, name, errors or []
        self.sent: list[bytes] = []

    def send(self, frame: bytes) -> None:
        self.log.append(f"{self.name}>")
        self.sent.append(frame)

    async def receive(self, within: float | None = None) -> bytes:
        self.log.append(f"{self.name}<")
        error = self.errors.pop(0) if self.errors else 0
        if isinstance(error, NoResponse):
            raise error
        correlation_id = int.from_bytes(self.sent.pop(0)[8:12], "big")
        return response("Heartbeat", 4, {"error_code": error}, correlation_id=correlation_id)

    def close(self) -> None:
        self.log.append(f"{self.name}x")


async def run_replay(story: str, connect: ConnectFunction) -> list[ReplayedExchange]:
    return [exchange async for exchange in Replay(connect, Replayer(), speed=None, timeout_s=1).run(steps(story))]


def connect_in_turn(log: list[str], *errors: list[int | NoResponse]) -> ConnectFunction:
    connections = iter([FakeConnection(log, f"{number}", error) for number, error in enumerate(errors, 1)])

    async def connect(_: object) -> Any:
        return next(connections)

    return connect


async def test_requests_wait_for_the_responses_that_preceded_them() -> None:
    log: list[str] = []
    results = await run_replay(PIPELINED, connect_in_turn(log, [], []))
    assert log == ["1>", "1>", "1<", "2>", "1<", "1>", "2<", "1x", "2x"]
    assert [(result.captured.connection_id[-1], result.captured.number, result.outcome) for result in results] == [
        ("1", 1, "equal"), ("1", 2, "equal"), ("2", 1, "equal"), ("1", 3, "not compared"),
    ]  # fmt: skip
    assert results[-1].sentence == "the capture has no response"


async def test_request_is_retried_if_the_broker_is_not_ready() -> None:
    log: list[str] = []
    [result] = await run_replay("> Heartbeat v4 {}\n< {}", connect_in_turn(log, [14, 16, 0]))
    assert log == ["1>", "1<"] * 3 + ["1x"]
    assert result.outcome is ReplayOutcome.EQUAL


async def test_late_response_is_not_taken_for_that_of_the_next_request() -> None:
    log: list[str] = []
    timeout_error = NoResponse("no response within 1 s", closed=False)
    results = await run_replay(
        "> Heartbeat v4 {}\n< {}\n> Heartbeat v4 {}\n< {}", connect_in_turn(log, [timeout_error, 25, 0])
    )
    assert [(exchange.outcome, exchange.sentence) for exchange in results] == [
        (ReplayOutcome.DIFFERENT, "no response: no response within 1 s"), (ReplayOutcome.EQUAL, ""),
    ]  # fmt: skip


async def test_closed_connection_is_reported() -> None:
    closed_error = NoResponse("the broker closed the connection", closed=True)
    results = await run_replay(
        "> Heartbeat v4 {}\n> Heartbeat v4 {}\n< {}\n> Heartbeat v4 {}\n< {}", connect_in_turn([], [closed_error])
    )
    assert [exchange.sentence for exchange in results] == [
        "no response: the broker closed the connection", "no response: the broker closed the connection",
        "not sent: the broker closed the connection",
    ]  # fmt: skip
    assert {exchange.outcome for exchange in results} == {ReplayOutcome.DIFFERENT}


async def test_skipped_requests_open_no_connection() -> None:
    [result] = await run_replay("> SaslHandshake v1 {}\n< {}", connect_in_turn([]))
    assert (result.outcome, result.sentence) == (ReplayOutcome.LEFT_OUT, "the login is not in the capture")


async def test_broker_that_disappears_is_reported() -> None:
    log: list[str] = []
    connections = iter([FakeConnection(log, "1")])

    async def connect(_: object) -> Any:
        for connection in connections:
            return connection
        raise UserError("cannot connect", UNREACHABLE)

    results = await run_replay("> Heartbeat v4 {}\n< {}\n2> Heartbeat v4 {}\n2< {}", connect)
    assert [exchange.sentence for exchange in results] == ["", "not sent: cannot connect"]
