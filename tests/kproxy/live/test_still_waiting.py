"""Messages about requests that are still waiting for a response."""

import selectors
from collections.abc import Callable

import pytest

from dissectors.connections.events import Direction
from kproxy.live.sink import InspectionSink, InspectorOptions
from kproxy.outputs.finding_selection import Selection
from kproxy.outputs.line_outputs import OutputOptions, filter_for
from kproxy.proxy import tap_messages
from kproxy.trace.lines import Detail
from kproxy.trace.timestamps import timestamp
from tests.kproxy.frames import request, response
from tests.kproxy.stories import BEGIN, StoryPlayer

SECOND = 1_000_000_000


def late_mentions(story: str, seconds: int = 0) -> list[tuple[int, str, int, int]]:
    """Return the second after the story, API, wait in seconds and number of other requests of each mention."""
    player = StoryPlayer()
    player.play(story)
    mentions: list[tuple[int, str, int, int]] = []
    for second in range(1, seconds + 1):
        player.play("+1s")
        waiting_responses = player.inspector.late_responses(at=player.at)
        mentions += [
            (second, waiting_response.request.api or "?", waiting_response.seconds, waiting_response.others)
            for waiting_response in waiting_responses
        ]
    return mentions


def test_mentions_a_request_once_per_step() -> None:
    mentions = late_mentions("> Metadata v12\n", 4000)
    assert [(second, seconds) for second, _, seconds, _ in mentions] == [
        (number, number) for number in (5, 15, 60, 300, 900, 3600)
    ]
    assert {api for _, api, _, _ in mentions} == {"Metadata"}
    assert [second for second, *_ in late_mentions("> Metadata v12\n", 11_000)][-2:] == [7200, 10_800]


def test_mentions_one_request_per_connection_and_counts_the_others() -> None:
    assert late_mentions("> Metadata v12\n> ListGroups v2\n> Heartbeat v3\n", 10) == [(5, "Metadata", 5, 2)]
    assert [api for _, api, *_ in late_mentions("> Metadata v12\n2> ListGroups v2\n", 10)] == ["Metadata", "ListGroups"]


def test_response_ends_the_wait_and_the_next_request_is_timed() -> None:
    assert not late_mentions("> Metadata v12\n< {}\n", 100)
    assert late_mentions("> Metadata v12\n+4s\n> ListGroups v2\n+4s\n< {}\n", 5) == [(5, "ListGroups", 9, 0)]


@pytest.mark.parametrize(
    ("story", "expected_second"),
    [
        ('> Fetch v11 {"max_wait_ms": 20000}\n', 25),
        ('> JoinGroup v5 {"group_id": "g", "session_timeout_ms": 10000, "rebalance_timeout_ms": 60000}\n', 65),
        (
            '> Produce v7 {"acks": -1, "timeout_ms": 30000}\n',
            5,
        ),  # its timeout is only a limit: brokers do not delay it by design
    ],
)
def test_request_that_may_be_delayed_is_late_after_its_timeout(story: str, expected_second: int) -> None:
    assert late_mentions(story, 100)[0][0] == expected_second


def test_does_not_wait_for_a_response_to_a_request_without_acks() -> None:
    assert not late_mentions('> Produce v7 {"acks": 0, "timeout_ms": 30000}\n', 100)


def test_does_not_wait_for_a_response_possibly_lost_in_a_gap() -> None:
    assert not late_mentions("> Metadata v12\nlose < 100 frames=1 behind\n", 100)


def test_late_response_ends_the_wait_of_an_unanswered_request() -> None:
    story = "> Metadata v8\n< {}\n> ListGroups v2\n+40s\n"
    assert [second for second, *_ in late_mentions(story, 100)] == [1, 20]
    assert not late_mentions(story + "< {}\n", 100)


def test_mentions_the_next_request_of_a_connection_at_the_same_step() -> None:
    player = StoryPlayer()
    apis = []
    for story in ("> Metadata v12\n> ListGroups v2\n+6s", "< {}\n+6s"):
        player.play(story)
        apis += [exchange.request.api for exchange in player.inspector.late_responses(at=player.at)]
    assert apis == ["Metadata", "ListGroups"]


def test_new_viewer_gets_all_requests_that_are_still_waiting() -> None:
    player = StoryPlayer()
    apis = []
    for story, is_new_viewer in (
        ("> Metadata v12\n+6s", True),
        ("", False),
        ("2> ListGroups v2\n+6s", True),
        ("< {}", True),
    ):
        player.play(story)
        apis.append(
            [
                exchange.request.api
                for exchange in player.inspector.late_responses(at=player.at, repeat_reported=is_new_viewer)
            ]
        )
    assert apis == [[], ["Metadata"], ["Metadata"], []]


def terminal_sink(options: OutputOptions) -> InspectionSink:
    return InspectionSink(
        InspectorOptions(options, Selection(), Detail.SUMMARY),
        tap_messages.Hello(BEGIN, "node", 1, [], BEGIN),
        selectors.DefaultSelector(),
    )


def observe_hanging_client(sink: InspectionSink) -> None:
    """Observe a client that gets responses while another one hangs for 7 s."""
    for number in (0, 1):
        sink.observe(tap_messages.Open(number, BEGIN, f"127.0.0.1:{number + 1}", "127.0.0.1:9092", None, False))
    sink.observe(tap_messages.TapData(0, Direction.REQUEST, BEGIN, request("Metadata", 12, {}, correlation_id=5)))
    for second in range(1, 8):
        at = BEGIN + second * SECOND
        sink.observe(
            tap_messages.TapData(1, Direction.REQUEST, at, request("ListGroups", 0, {}, correlation_id=second))
        )
        sink.observe(
            tap_messages.TapData(1, Direction.RESPONSE, at, response("ListGroups", 0, {}, correlation_id=second))
        )
        sink.tick()


@pytest.fixture
def waiting_rows(capsys: pytest.CaptureFixture[str]) -> Callable[..., list[str]]:
    def run(options: OutputOptions = OutputOptions()) -> list[str]:  # noqa: B008  # it is immutable
        observe_hanging_client(terminal_sink(options))
        lines = capsys.readouterr().out.splitlines()
        return [f"{line}\n{lines[index + 1].strip()}" for index, line in enumerate(lines) if "still waiting" in line]

    return run


def test_text_output_mentions_a_hanging_request(waiting_rows: Callable[..., list[str]]) -> None:
    [line] = waiting_rows()
    assert line == (
        f"{timestamp(BEGIN + 5 * SECOND)[11:23]}     #0 . still waiting for Metadata v12 #5 (5 s)\n"
        "the broker has not answered on this connection yet; "
        "the broker answered another connection of this client 0 ms ago, so it works"
    )


def test_mentions_follow_the_filter_and_are_text_only(waiting_rows: Callable[..., list[str]]) -> None:
    assert len(waiting_rows(OutputOptions(filter_for("api=Metadata")))) == 1
    assert waiting_rows(OutputOptions(filter_for("api=Fetch"))) == []
    assert waiting_rows(OutputOptions(quiet=True)) == waiting_rows(OutputOptions(json=True)) == []
