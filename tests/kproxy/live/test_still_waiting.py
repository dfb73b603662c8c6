"""What a person who watches is told while a response does not come."""

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
from tests.kproxy.stories import BEGIN, Teller

SECOND = 1_000_000_000


def mentioned(story: str, seconds: int = 0) -> list[tuple[int, str, int, int]]:
    """Second, API, waited and others for each time that a request is said to wait, in so many seconds after a story."""
    teller = Teller()
    teller.tell(story)
    found: list[tuple[int, str, int, int]] = []
    for second in range(1, seconds + 1):
        teller.tell("+1s")
        late = teller.inspector.still_waiting(at=teller.at)
        found += [
            (second, waiting_response.request.api or "?", waiting_response.seconds, waiting_response.others)
            for waiting_response in late
        ]
    return found


def test_a_request_is_mentioned_once_for_each_step() -> None:
    found = mentioned("> Metadata v12\n", 4000)
    assert [(second, waited) for second, _, waited, _ in found] == [
        (number, number) for number in (5, 15, 60, 300, 900, 3600)
    ]
    assert {api for _, api, _, _ in found} == {"Metadata"}
    assert [second for second, *_ in mentioned("> Metadata v12\n", 11_000)][-2:] == [7200, 10_800]


def test_one_request_of_a_connection_is_mentioned_and_how_many_wait_behind_it() -> None:
    assert mentioned("> Metadata v12\n> ListGroups v2\n> Heartbeat v3\n", 10) == [(5, "Metadata", 5, 2)]
    assert [api for _, api, *_ in mentioned("> Metadata v12\n2> ListGroups v2\n", 10)] == ["Metadata", "ListGroups"]


def test_a_response_ends_it_and_the_next_request_counts_from_there() -> None:
    assert not mentioned("> Metadata v12\n< {}\n", 100)
    assert mentioned("> Metadata v12\n+4s\n> ListGroups v2\n+4s\n< {}\n", 5) == [(5, "ListGroups", 9, 0)]


@pytest.mark.parametrize(
    ("story", "first"),
    [
        ('> Fetch v11 {"max_wait_ms": 20000}\n', 25),
        ('> JoinGroup v5 {"group_id": "g", "session_timeout_ms": 10000, "rebalance_timeout_ms": 60000}\n', 65),
        (
            '> Produce v7 {"acks": -1, "timeout_ms": 30000}\n',
            5,
        ),  # its timeout is a limit; it is not held back by design
    ],
)
def test_a_request_that_may_be_held_back_is_not_late_before(story: str, first: int) -> None:
    assert mentioned(story, 100)[0][0] == first


def test_a_request_without_a_response_is_not_waited_for() -> None:
    assert not mentioned('> Produce v7 {"acks": 0, "timeout_ms": 30000}\n', 100)


def test_a_response_that_may_have_gone_by_unseen_is_not_waited_for() -> None:
    assert not mentioned("> Metadata v12\nlose < 100 frames=1 behind\n", 100)


def test_a_late_answer_to_what_was_found_to_be_unanswered_ends_it() -> None:
    story = "> Metadata v8\n< {}\n> ListGroups v2\n+40s\n"
    assert [second for second, *_ in mentioned(story, 100)] == [1, 20]
    assert not mentioned(story + "< {}\n", 100)


def test_the_next_request_of_a_connection_is_mentioned_at_the_same_step() -> None:
    teller = Teller()
    found = []
    for story in ("> Metadata v12\n> ListGroups v2\n+6s", "< {}\n+6s"):
        teller.tell(story)
        found += [exchange.request.api for exchange in teller.inspector.still_waiting(at=teller.at)]
    assert found == ["Metadata", "ListGroups"]


def test_a_new_viewer_is_told_of_the_requests_that_were_mentioned_and_still_wait() -> None:
    teller = Teller()
    found = []
    for story, again in (("> Metadata v12\n+6s", True), ("", False), ("2> ListGroups v2\n+6s", True), ("< {}", True)):
        teller.tell(story)
        found.append(
            [exchange.request.api for exchange in teller.inspector.still_waiting(at=teller.at, repeat_reported=again)]
        )
    assert found == [[], ["Metadata"], ["Metadata"], []]


def watcher(options: OutputOptions) -> InspectionSink:
    return InspectionSink(
        InspectorOptions(options, Selection(), Detail.SUMMARY),
        tap_messages.Hello(BEGIN, "node", 1, [], BEGIN),
        selectors.DefaultSelector(),
    )


def hang(sink: InspectionSink) -> None:
    """A client that is answered while another hangs for 7 s."""
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
def told(capsys: pytest.CaptureFixture[str]) -> Callable[..., list[str]]:
    def tell(options: OutputOptions = OutputOptions()) -> list[str]:  # noqa: B008  # it is frozen
        hang(watcher(options))
        lines = capsys.readouterr().out.splitlines()
        return [f"{line}\n{lines[at + 1].strip()}" for at, line in enumerate(lines) if "still waiting" in line]

    return tell


def test_the_text_says_it_while_it_hangs(told: Callable[..., list[str]]) -> None:
    [line] = told()
    assert line == (
        f"{timestamp(BEGIN + 5 * SECOND)[11:23]}     #0 . still waiting for Metadata v12 #5 (5 s)\n"
        "the broker has not answered on this connection yet; "
        "the broker answered another connection of this client 0 ms ago, so it works"
    )


def test_it_follows_the_filter_and_is_of_the_text_alone(told: Callable[..., list[str]]) -> None:
    assert len(told(OutputOptions(filter_for("api=Metadata")))) == 1
    assert told(OutputOptions(filter_for("api=Fetch"))) == []
    assert told(OutputOptions(quiet=True)) == told(OutputOptions(json=True)) == []
