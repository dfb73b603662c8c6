"""Exports an exchange to the clipboard, a file or an editor."""

from __future__ import annotations

import asyncio
import os
import shlex
import subprocess
import tempfile
import time
from pathlib import Path

from textual.app import App, SuspendNotSupported

from kproxy.browse.export import copies
from kproxy.browse.export.capture import NO_BYTES, SUFFIXES, NoBytesError, save_capture
from kproxy.browse.export.trace import save
from kproxy.browse.rows.exchange import Exchange
from kproxy.browse.session import BrowseSession
from kproxy.trace.formatting import safe, size
from kproxy.tui.dialogs import Menu, Prompt

_FORMATS = (
    ("x", "hex", "the bytes of this frame"),
    ("j", "JSON", "request and response, decoded"),
    ("c", "command", "a kproxy explain command"),
    ("m", "Markdown", "for an issue"),
)


async def copy(app: App[None], exchange: Exchange, *, request: bool) -> None:
    """Ask for a format, and copy the exchange to the terminal's clipboard."""
    choice = await app.push_screen_wait(Menu("copy as", _FORMATS))
    if choice is None:
        return
    text: str | None
    if choice == "JSON":
        text = copies.as_json(exchange)
    elif choice == "Markdown":
        text = copies.as_markdown(exchange)
    elif choice == "command":
        text = copies.as_command(exchange, request=request)
    else:
        side = exchange.request if request else exchange.response
        text = copies.as_hex(side) if side is not None else None
    if text is None:
        app.notify(NO_BYTES, severity="warning", markup=False)
        return
    app.copy_to_clipboard(text)
    app.notify(f"copied {choice}, {size(len(text.encode(errors='replace')))}", markup=False)


async def save_visible(app: App[None], session: BrowseSession) -> None:
    """Ask for a file name, and save the visible rows as a trace, or as a capture if the name has its suffix."""
    proposed_name = time.strftime("kproxy-%Y%m%d-%H%M%S.jsonl")
    title = f"save {len(session.visible):,} rows as a trace (a name with .pcap: as a capture)"
    name = await app.push_screen_wait(Prompt(title, proposed_name))
    if not name:
        return
    path = Path(name)
    row_count = len(session.visible)
    is_capture = path.suffix.lower() in SUFFIXES
    written_count = 0
    try:
        for count in save_capture(session, path) if is_capture else save(session, path):
            written_count = count
            await asyncio.sleep(0)
    except NoBytesError:
        app.notify(NO_BYTES, severity="warning", markup=False)
        return
    except OSError as error:
        app.notify(f"{safe(str(path))}: {error.strerror}; choose another name", severity="error", markup=False)
        return
    if is_capture:
        sentence = f"{written_count:,} frames written to {safe(str(path))}"
    else:
        events_text = (
            f", and {written_count - row_count:,} with the begin or end of their connections"
            if written_count > row_count
            else ""
        )
        sentence = f"{row_count:,} rows written to {safe(str(path))}{events_text}"
    app.notify(sentence, markup=False)


def edit(app: App[None], exchange: Exchange) -> None:
    """Open the exchange as JSON in the user's editor; changes have no effect on the trace."""
    command = shlex.split(os.environ.get("VISUAL") or os.environ.get("EDITOR") or "vi")
    with tempfile.TemporaryDirectory(prefix="kproxy-") as directory:
        path = Path(directory) / f"exchange-{exchange.row}.json"
        path.write_text(copies.as_json(exchange), encoding="utf-8")
        try:
            with app.suspend():
                status = subprocess.run([*command, str(path)], check=False).returncode  # noqa: S603  # the user's own
        except SuspendNotSupported:
            app.notify("no editor available here: copy it as JSON with y", severity="warning", markup=False)
        except OSError as error:
            app.notify(f"{safe(command[0])}: {error.strerror}; set EDITOR", severity="error", markup=False)
        else:
            if status:
                app.notify(f"{safe(command[0])} ended with status {status}", severity="warning", markup=False)
