"""Driving the application without a terminal, and comparing what it draws with pictures that are kept."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path

from textual.pilot import Pilot

from kproxy.browse.session import Session
from kproxy.tui.app import KproxyApp

SNAPSHOTS = Path(__file__).parent / "snapshots"
#: A small terminal, and a wide one.
SIZES = ((80, 24), (180, 50))


@asynccontextmanager
async def running(session: Session, size: tuple[int, int] = (120, 40)) -> AsyncIterator[Pilot[None]]:
    """The application over a session that was read; what it shows has settled."""
    app = KproxyApp(session)
    async with app.run_test(size=size) as pilot:
        await settled(pilot)
        yield pilot


async def settled(pilot: Pilot[None]) -> None:
    """Wait until what was asked for is on the screen."""
    app = pilot.app
    assert isinstance(app, KproxyApp)
    await pilot.pause()
    app.session.work(1)
    app.look()
    await pilot.pause(0.06)


async def until(pilot: Pilot[None], true: Callable[[], bool]) -> None:
    """Wait until something is true, two seconds at most."""
    for _ in range(100):
        if true():
            return
        await pilot.pause(0.02)
    raise AssertionError("it did not happen")


async def press(pilot: Pilot[None], *keys: str) -> None:
    """Press keys, and let the screen settle."""
    await pilot.press(*keys)
    await settled(pilot)


def text(pilot: Pilot[None]) -> str:
    """What the screen says, a line a row."""
    strips = pilot.app.screen._compositor.render_strips()
    return "\n".join("".join(segment.text for segment in strip).rstrip() for strip in strips)


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
