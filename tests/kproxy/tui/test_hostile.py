"""With hostile traces and captures, the application keeps running, and only text reaches the terminal."""

from __future__ import annotations

import gzip
from collections.abc import Iterator
from pathlib import Path
from random import Random

import msgspec
import pytest
from textual.pilot import Pilot
from textual.widgets import Static

from kproxy.browse.session import BrowseSession
from kproxy.browse.sources.files import TraceSource
from kproxy.capture import CaptureError
from kproxy.trace.lines import Detail, Line, RequestLine
from kproxy.tui.app import KproxyApp
from tests.kproxy.browse.sessions import session_of
from tests.kproxy.capture_results import lines_of
from tests.kproxy.tui import hostile_files
from tests.kproxy.tui.screens import press, running, text, until, wait_until_settled

SIZES = ((80, 24), (180, 50), (40, 10))


@pytest.mark.slow
@pytest.mark.parametrize("seed", [0, *(pytest.param(seed, marks=pytest.mark.wide) for seed in (1, 2))])
async def test_hostile_trace_is_shown(tmp_path: Path, seed: int) -> None:
    random = Random(seed)
    path = tmp_path / "trace.jsonl"
    path.write_bytes(hostile_files.trace(random))
    session = BrowseSession(TraceSource([path]))
    async with running(session, random.choice(SIZES)) as pilot:
        await until(pilot, lambda: session.source.store.progress[0] == path.stat().st_size)
        await visit_all_views(pilot, random)
    session.source.close()


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(1))
async def test_hostile_capture_is_shown(tmp_path: Path, seed: int) -> None:
    random = Random(seed)
    path = tmp_path / "capture.pcap.gz"
    path.write_bytes(gzip.compress(hostile_files.capture(random)))
    async with running(session_of(readable_lines(path)), random.choice(SIZES)) as pilot:
        await visit_all_views(pilot, random)


async def test_line_of_ten_megabytes_is_skipped(tmp_path: Path) -> None:
    path = tmp_path / "trace.jsonl"
    valid_lines = (hostile_files.CAPTURES / "trace-1.jsonl").read_bytes()
    path.write_bytes(
        valid_lines
        + b'{"kind":"request","note":"'
        + b"x" * 10_000_000
        + b'"}\n'
        + b"y" * 10_000_000
        + b"\n"
        + valid_lines
    )
    session = BrowseSession(TraceSource([path]))
    async with running(session) as pilot:
        await until(pilot, lambda: session.source.store.progress[0] == path.stat().st_size)
        await wait_until_settled(pilot)
        assert f"{2 * len(session.index.at) // 2:,} rows" in text(pilot)
        assert session.bad == 2
    session.source.close()


async def test_text_that_is_too_long_to_wrap_is_truncated() -> None:
    lines = lines_of(hostile_files.CAPTURES / "metadata-retry-loop.pcap.gz", detail=Detail.RAW)
    request_line = next(line for line in lines if isinstance(line, RequestLine))
    async with running(session_of([msgspec.structs.replace(request_line, client_id="x" * 500_000)])) as pilot:
        shown_text = str(pilot.app.query_one("#wrong Static", Static).content)
    assert "x" * 3_000 in shown_text
    assert len(shown_text) < 5_000


def readable_lines(path: Path) -> Iterator[Line]:
    try:
        yield from lines_of(path, detail=Detail.RAW)
    except CaptureError:
        return


async def visit_all_views(pilot: Pilot[None], random: Random) -> None:
    """Open all views and press random keys."""
    app = pilot.app
    assert isinstance(app, KproxyApp)
    for key in "1234567":
        await press(pilot, key, *random.choices(("j", "G", "k", "tab", "l", "pagedown"), k=3))
        assert_only_text(pilot)
        await press(pilot, random.choice(("enter", "s", "p", "y")))
        assert_only_text(pilot)
        await pilot.press("escape")
    await pilot.press("1")
    for _ in range(5):
        app.query_one("#exchanges").focus()
        await press(pilot, random.choice(("j", "n", "pagedown", "G", "exclamation_mark")))
        assert_only_text(pilot)
        await press(pilot, "enter", *random.choices(("j", "l", "h", "tab", "r", "G", "k"), k=4))
        assert_only_text(pilot)
        await press(pilot, "enter")  # this opens a value in a separate window, if the cursor is on one
        assert_only_text(pilot)
        await pilot.press("escape", "escape")
    await press(pilot, "o", random.choice("tls"))
    assert_only_text(pilot)


def assert_only_text(pilot: Pilot[None]) -> None:
    """Assert that the screen has no control characters and that markup is shown as text."""
    screen_text = text(pilot)
    for line in screen_text.splitlines():
        assert line.isprintable(), ascii(line)
    assert screen_text.count(hostile_files.MARK) == screen_text.count(f"]{hostile_files.MARK}") + screen_text.count(
        f"passwd{hostile_files.MARK}"
    )
