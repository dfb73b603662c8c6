"""Driving the application without a terminal, and comparing what it draws with pictures that are kept."""

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
#: What the pictures were drawn with: others draw the same a little differently.
DRAWN_WITH = {"textual": "8.2.8", "rich": "15.0.0"}
compares_pictures = pytest.mark.skipif(
    any(version(name) != drawn for name, drawn in DRAWN_WITH.items()), reason=f"pictures were drawn with {DRAWN_WITH}"
)
#: In a screenshot of Rich's: a style by its name, a segment of text, and the width of a character.
_STYLE = re.compile(r"\.([\w-]+) \{([^}]*)\}")
_TEXT = re.compile(r'<text class="([\w-]+)" x="([\d.]+)" [^>]*clip-path="url\(#[\w-]+-line-(\d+)\)">([^<]*)</text>')
_CHARACTER = 12.2
#: A small terminal, and a wide one.
SIZES = ((80, 24), (180, 50))
#: Seconds that the cursor has to rest before an exchange is read.
_SOON = 0.001


@asynccontextmanager
async def running(session: BrowseSession, size: tuple[int, int] = (120, 40)) -> AsyncIterator[Pilot[None]]:
    """The application over a session that was read; what it shows has settled."""
    app = KproxyApp(session)
    with (
        patch.object(exchanges, "_CURSOR_REST_S", _SOON),
        patch("textual.app.wait_for_idle", quiet),  # which waits until the processor is idle, 20 ms at least
        patch("textual.pilot.wait_for_idle", quiet),
    ):
        async with app.run_test(size=size) as pilot:
            await settled(pilot)
            yield pilot


async def quiet(*_: float) -> None:
    """Wait until nothing is left to do but what waits for a thread, or for longer than the cursor has to rest."""
    ready = asyncio.get_running_loop()._ready  # type: ignore[attr-defined]
    await asyncio.sleep(2 * _SOON)
    while ready:  # noqa: ASYNC110 - no event tells
        await asyncio.sleep(0)


async def settled(pilot: Pilot[None]) -> None:
    """Wait until what was asked for is on the screen."""
    app = pilot.app
    assert isinstance(app, KproxyApp)
    await quiet()
    app.session.work(1)
    app.refresh_screen()
    for _ in range(2):
        await quiet()
        app.screen._on_timer_update()
    await quiet()


async def until(pilot: Pilot[None], true: Callable[[], bool]) -> None:
    """Wait until something is true, twenty seconds at most."""
    end = time.monotonic() + 20
    while not true():
        assert time.monotonic() < end, "it did not happen"
        await pilot.pause(0.02)


async def press(pilot: Pilot[None], *keys: str) -> None:
    """Press keys, and let the screen settle."""
    await pilot.press(*keys)
    await settled(pilot)


def text(pilot: Pilot[None]) -> str:
    """What the screen says, a line a row."""
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
    """All text that is on the screen, without blanks alone, read from a screenshot."""
    svg = pilot.app.export_screenshot()
    underlined = {name for name, style in _STYLE.findall(svg) if "underline" in style}
    for name, x, row, text in _TEXT.findall(svg):
        column = round(float(x) / _CHARACTER)
        yield Segment(int(row), column, html.unescape(text).replace("\xa0", " "), name in underlined)


def told(pilot: Pilot[None]) -> str:
    """What the user was told in passing."""
    return "\n".join(notification.message for notification in pilot.app._notifications)


def assert_looks_as_kept(pilot: Pilot[None], name: str) -> None:
    """Compare the screen with the picture of that name; KPROXY_SNAPSHOTS=update keeps it as it is now."""
    size = pilot.app.size
    path = SNAPSHOTS / f"{name}-{size.width}x{size.height}.svg"
    drawn = pilot.app.export_screenshot(title=name) + "\n"
    if os.environ.get("KPROXY_SNAPSHOTS") == "update":
        path.parent.mkdir(exist_ok=True)
        path.write_text(drawn, encoding="utf-8")
    assert path.exists(), f"no picture {path.name}: KPROXY_SNAPSHOTS=update makes it; then look at it"
    if path.read_text(encoding="utf-8") != drawn:
        other = Path(os.environ.get("TMPDIR", "/tmp")) / f"kproxy-{path.name}"
        other.write_text(drawn, encoding="utf-8")
        raise AssertionError(f"the screen is not {path.name}: it is in {other}; KPROXY_SNAPSHOTS=update keeps that")
