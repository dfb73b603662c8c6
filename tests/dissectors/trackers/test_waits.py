"""Reasons why a request waits, and the evidence for them."""

import pytest

from dissectors.connections.events import Direction
from dissectors.trackers.waits import Wait, WaitKind
from tests.kproxy.stories import StoryPlayer

OTHER_CONNECTION = "open 2 client=10.0.0.101:50002 server=10.0.0.1:9092\n"
CONNECTION_TO_OTHER_BROKER = "open 2 client=10.0.0.101:50002 server=10.0.0.2:9092\n"


def wait_of_late_request(story: str) -> Wait:
    """Return the wait of the only late request at the end of a story."""
    player = StoryPlayer()
    player.play(story)
    [late] = [
        exchange
        for exchange in player.inspector.late_responses(at=player.at)
        if exchange.request.connection_id == "story-1"
    ]
    return late.wait


@pytest.mark.parametrize(
    ("story", "kind", "text"),
    [
        ("> Metadata v12\n+6s", WaitKind.UNKNOWN, "the broker has not answered on this connection yet"),
        (
            "> Heartbeat v4\n< {}\n+1s\n> Metadata v12\n+6s",
            WaitKind.UNKNOWN,
            "the last response here was Heartbeat v4, 7 s ago",
        ),
        (
            f"> Metadata v12\n+6s\n{OTHER_CONNECTION}2> Heartbeat v4\n2< {{}}",
            WaitKind.LOST,
            "the broker answered another connection of this client 0 ms ago, so it works",
        ),
        (
            f"> Metadata v12\n{OTHER_CONNECTION}2> Heartbeat v4\n+6s",
            WaitKind.SILENT,
            "another connection of this client waits for it too, so the broker or the network hangs",
        ),
        (
            f'> Metadata v12\n{OTHER_CONNECTION}2> Fetch v11 {{"max_wait_ms": 60000}}\n+6s',  # it waits by design
            WaitKind.UNKNOWN,
            "the broker has not answered on this connection yet",
        ),
        (
            f"> Metadata v12\n{CONNECTION_TO_OTHER_BROKER}+5s\n2> Heartbeat v4\n2< {{}}\n+1s",
            WaitKind.UNKNOWN,
            "another broker answered this client 1 s ago",
        ),
        (
            f"> Metadata v12\n{OTHER_CONNECTION}2> as other Heartbeat v4\n2< {{}}\n+6s",  # same host
            WaitKind.UNKNOWN,
            "the broker has not answered on this connection yet",
        ),
        (
            '> Fetch v11 {"max_wait_ms": 500}\n+6s',
            WaitKind.LONG_POLL,
            "it may wait for records, but its 500 ms (max_wait_ms) have passed",
        ),
        (
            '> JoinGroup v5 {"group_id": "g", "session_timeout_ms": 10000, "rebalance_timeout_ms": 60000}\n+66s',
            WaitKind.REBALANCE,
            "it may wait for the other members, but the rebalance timeout of 60 s has passed",
        ),
        (
            '> Metadata v12\n< {"throttle_time_ms": 2000}\n> Metadata v12\n+8s',
            WaitKind.THROTTLED,
            "the broker throttled this client for 2 s, and that has passed",
        ),
    ],
)
def test_each_kind_of_wait_has_its_evidence(story: str, kind: WaitKind, text: str) -> None:
    late_wait = wait_of_late_request(story)
    assert late_wait.kind is kind
    assert text in late_wait.text.split("; ")


def test_partial_response_explains_the_wait() -> None:
    player = StoryPlayer()
    player.play("> Metadata v12")
    player.lines += player.inspector.receive_data(
        1, Direction.RESPONSE, bytes.fromhex("00000064 00000001 00"), at=player.at
    )
    player.play("+6s")
    [exchange] = player.inspector.late_responses(at=player.at)
    assert exchange.wait.kind is WaitKind.PARTIAL
    assert exchange.wait.text.startswith("9 bytes of a response of 104 have arrived")


def test_ended_connections_are_not_evidence() -> None:
    ended_connection = f"{OTHER_CONNECTION}2> Heartbeat v4\n2< {{}}\n2 close by=client how=fin\n+6s"
    assert wait_of_late_request("> Metadata v12\n" + ended_connection).kind is WaitKind.UNKNOWN
