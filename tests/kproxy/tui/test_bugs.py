"""Captures of brokers with one bug each: the cause is on the first screen, its bytes are one key away."""

from __future__ import annotations

import re

import pytest
from textual.pilot import Pilot

from kproxy.tui.hex_view import HexView
from tests.kproxy.browse.sessions import session_of_capture
from tests.kproxy.captures_made import CAPTURES
from tests.kproxy.test_bug_captures import BUGS, FOUND
from tests.kproxy.tui.screens import press, running, segments, text

SMALL, LARGE = (80, 24), (180, 50)
#: One conversation of each bug; of any client where the broken response was sent.
EACH = tuple({name.partition("--")[0]: name for name in reversed(FOUND)}.values())


@pytest.mark.parametrize(
    ("name", "size"),
    [*((name, SMALL) for name in EACH), ("batch-int32-length--java", LARGE), ("corrid-wrong--librdkafka", LARGE)],
)
async def test_the_cause_is_on_the_screen_and_its_bytes_one_key_away(name: str, size: tuple[int, int]) -> None:
    code, _, span, _, at = FOUND[name][0].finding[:5]
    assert span is not None
    session = session_of_capture(BUGS / f"{name}.pcap.gz")
    async with running(session, size) as pilot:
        cause, *_ = session.overviews.findings.sorted_causes()
        banner = re.split(r" 8 (?:Transactions|Txns) ", " ".join(text(pilot).split()))[1]
        lasts = "it lasts: " if cause.lasts else ""
        message = cause.finding.message[: 100 if lasts else None]  # a long one is cut
        assert banner.startswith(f"{code} {cause.finding.name} {cause.count}x {lasts}{message}")
        await press(pilot, "exclamation_mark")
        is_gap = span[0] == span[1]  # something is missing: the byte behind is marked
        assert marked(pilot).startswith(at[:2] if is_gap else at)
        shown = pilot.app.query_one(HexView).span
        assert shown == span or is_gap


def marked(pilot: Pilot[None]) -> str:
    """The bytes that are underlined on the screen, as hex, in order."""
    return "".join(segment.text for segment in segments(pilot) if segment.is_underlined and len(segment.text) == 2)


def test_no_bug_is_left_out() -> None:
    everything = {path.name.partition("--")[0] for path in BUGS.glob("*.pcap.gz")} - {"none"}
    assert {name.partition("--")[0] for name in EACH} == everything


async def test_a_frame_that_repeats_a_finding_says_where_it_was_reported() -> None:
    session = session_of_capture(CAPTURES / "metadata-v1-throttle-first.pcap.gz")
    async with running(session, LARGE) as pilot:
        await press(pilot, "G", "k")
        shown = " ".join(text(pilot).split())
        assert (
            "L005 again reported first at byte 98 of the stream of connection metadata-v1-throttle-first.pcap.gz-0"
            in shown
        )
