"""Run the terminal application without a terminal, and compare its screens with snapshots."""

from __future__ import annotations

import asyncio
import html
import os
import re
import time
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager
from importlib.metadata import version
from pathlib import Path
from typing import NamedTuple
from unittest.mock import patch

import pytest
from rich.cells import cell_len
from textual.pilot import Pilot

from kproxy.browse.session import BrowseSession
from kproxy.tui import exchanges
from kproxy.tui.app import KproxyApp

SNAPSHOTS = Path(__file__).parent / "snapshots"
#: The versions with which the snapshots were drawn; other versions draw slightly differently.
SNAPSHOT_VERSIONS = {"textual": "8.2.8", "rich": "15.0.0"}
requires_snapshot_versions = pytest.mark.skipif(
    any(version(name) != drawn for name, drawn in SNAPSHOT_VERSIONS.items()),
    reason=f"snapshots were drawn with {SNAPSHOT_VERSIONS}",
)
#: Patterns of a Rich screenshot: a named style and a segment of text, and the width of a character.
_STYLE = re.compile(r"\.([\w-]+) \{([^}]*)\}")
_TEXT = re.compile(r'<text class="([\w-]+)" x="([\d.]+)" [^>]*clip-path="url\(#[\w-]+-line-(\d+)\)">([^<]*)</text>')
_CHARACTER_WIDTH = 12.2
#: A small terminal, and a wide one.
SIZES = ((80, 24), (180, 50))
#: Seconds that the cursor must rest before an exchange is read.
_CURSOR_REST_S = 0.001


@asynccontextmanager
async def running(session: BrowseSession, size: tuple[int, int] = (120, 40)) -> AsyncIterator[Pilot[None]]:
    """Run the application on a session, and wait until its screen has settled."""
    app = KproxyApp(session)
    with (
        patch.object(exchanges, "_CURSOR_REST_S", _CURSOR_REST_S),
        patch("textual.app.wait_for_idle", wait_until_idle),  # the original waits for an idle processor, at least 20 ms
        patch("textual.pilot.wait_for_idle", wait_until_idle),
    ):
        async with app.run_test(size=size) as pilot:
            await wait_until_settled(pilot)
            yield pilot


async def wait_until_idle(*_: float) -> None:
    """Wait until nothing is pending except threads and long timers."""
    ready = asyncio.get_running_loop()._ready  # type: ignore[attr-defined]
    await asyncio.sleep(2 * _CURSOR_REST_S)
    while ready:  # noqa: ASYNC110 - no event tells
        await asyncio.sleep(0)


async def wait_until_settled(pilot: Pilot[None]) -> None:
    """Wait until the screen shows all pending changes."""
    app = pilot.app
    assert isinstance(app, KproxyApp)
    await wait_until_idle()
    app.session.work(1)
    app.refresh_screen()
    for _ in range(2):
        await wait_until_idle()
        app.screen._on_timer_update()
    await wait_until_idle()


async def until(pilot: Pilot[None], condition: Callable[[], bool]) -> None:
    """Wait until the condition is true, for at most twenty seconds."""
    deadline = time.monotonic() + 20
    while not condition():
        assert time.monotonic() < deadline, "the condition did not become true"
        await pilot.pause(0.02)


async def press(pilot: Pilot[None], *keys: str) -> None:
    """Press keys, and wait until the screen has settled."""
    await pilot.press(*keys)
    await wait_until_settled(pilot)


def text(pilot: Pilot[None]) -> str:
    """Return the text of the screen, one line per row."""
    rows = [""] * pilot.app.size.height
    for segment in segments(pilot):
        rows[segment.row] += " " * (segment.column - cell_len(rows[segment.row])) + segment.text
    return "\n".join(row.rstrip() for row in rows)


class Segment(NamedTuple):
    """Text on the screen in one style."""

    row: int
    column: int
    text: str
    is_underlined: bool


def segments(pilot: Pilot[None]) -> Iterator[Segment]:
    """Yield all segments of text on the screen, read from a screenshot."""
    svg = pilot.app.export_screenshot()
    underlined = {name for name, style in _STYLE.findall(svg) if "underline" in style}
    for name, x, row, text in _TEXT.findall(svg):
        column = round(float(x) / _CHARACTER_WIDTH)
        yield Segment(int(row), column, html.unescape(text).replace("\xa0", " "), name in underlined)


def notifications_text(pilot: Pilot[None]) -> str:
    """Return the text of all notifications."""
    return "\n".join(notification.message for notification in pilot.app._notifications)


def assert_matches_snapshot(pilot: Pilot[None], name: str) -> None:
    """Compare the screen with the snapshot of that name; KPROXY_SNAPSHOTS=update replaces the snapshot."""
    size = pilot.app.size
    path = SNAPSHOTS / f"{name}-{size.width}x{size.height}.svg"
    screenshot = pilot.app.export_screenshot(title=name) + "\n"
    if os.environ.get("KPROXY_SNAPSHOTS") == "update":
        path.parent.mkdir(exist_ok=True)
        path.write_text(screenshot, encoding="utf-8")
    assert path.exists(), f"no snapshot {path.name}: create it with KPROXY_SNAPSHOTS=update and look at it"
    if path.read_text(encoding="utf-8") != screenshot:
        new_path = Path(os.environ.get("TMPDIR", "/tmp")) / f"kproxy-{path.name}"
        new_path.write_text(screenshot, encoding="utf-8")
        raise AssertionError(f"the screen is not {path.name}: it is in {new_path}; KPROXY_SNAPSHOTS=update keeps that")
