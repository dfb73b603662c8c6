"""For each broker bug in a capture, the first screen shows the cause, and one key shows its bytes."""

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
#: One conversation per bug, with any client that received the broken response.
ONE_PER_BUG = tuple({name.partition("--")[0]: name for name in reversed(FOUND)}.values())


@pytest.mark.parametrize(
    ("name", "size"),
    [
        *((name, SMALL) for name in ONE_PER_BUG),
        ("batch-int32-length--java", LARGE),
        ("corrid-wrong--librdkafka", LARGE),
    ],
)
async def test_screen_shows_the_cause_and_one_key_shows_its_bytes(name: str, size: tuple[int, int]) -> None:
    code, _, span, _, expected_bytes = FOUND[name][0].finding[:5]
    assert span is not None
    session = session_of_capture(BUGS / f"{name}.pcap.gz")
    async with running(session, size) as pilot:
        cause, *_ = session.overviews.findings.sorted_causes()
        banner = re.split(r" 8 (?:Transactions|Txns) ", " ".join(text(pilot).split()))[1]
        ongoing_text = "it lasts: " if cause.lasts else ""
        message = cause.finding.message[: 100 if ongoing_text else None]  # a long message is truncated
        assert banner.startswith(f"{code} {cause.finding.name} {cause.count}x {ongoing_text}{message}")
        await press(pilot, "exclamation_mark")
        is_gap = span[0] == span[1]  # if a field is missing, the next byte is marked
        assert marked_bytes(pilot).startswith(expected_bytes[:2] if is_gap else expected_bytes)
        marked_span = pilot.app.query_one(HexView).span
        assert marked_span == span or is_gap


def marked_bytes(pilot: Pilot[None]) -> str:
    """Return the underlined bytes on the screen as hex, in order."""
    return "".join(segment.text for segment in segments(pilot) if segment.is_underlined and len(segment.text) == 2)


def test_every_bug_is_covered() -> None:
    all_bugs = {path.name.partition("--")[0] for path in BUGS.glob("*.pcap.gz")} - {"none"}
    assert {name.partition("--")[0] for name in ONE_PER_BUG} == all_bugs


@pytest.mark.slow
async def test_repeated_finding_refers_to_its_first_report() -> None:
    session = session_of_capture(CAPTURES / "metadata-v1-throttle-first.pcap.gz")
    async with running(session, LARGE) as pilot:
        await press(pilot, "G", "k")
        screen_text = " ".join(text(pilot).split())
        assert (
            "L005 again reported first at byte 98 of the stream of connection metadata-v1-throttle-first.pcap.gz-0"
            in screen_text
        )
