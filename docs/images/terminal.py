"""Draw the README's pictures of the terminal anew: ``python docs/images/terminal.py`` (needs tmux).

The real command runs in a real terminal; what that shows is written as SVG.
"""

from __future__ import annotations

import io
import re
import subprocess
import sys
import time
from pathlib import Path

from rich.ansi import AnsiDecoder
from rich.console import Console

HERE = Path(__file__).parent
ROOT = HERE.parent.parent
WIDTH, HEIGHT = 150, 38
BUG = "tests/data/bugs/metadata-throttle-first--java.pcap.gz"
STALL = "tests/data/groups/application-does-not-poll.jsonl.gz"
PICTURES = (("tui-frames", BUG, ("!",)), ("tui-groups", STALL, ("5",)))


def main() -> None:
    """Draw all of them."""
    for name, source, keys in PICTURES:
        (HERE / f"{name}.svg").write_text(drawn(name, source, keys), encoding="utf-8")


def drawn(name: str, source: str, keys: tuple[str, ...]) -> str:
    """What the terminal shows of `source` after these keys, as SVG."""
    tmux = ["tmux", "-L", "kproxy-picture"]
    command = f"COLORTERM=truecolor {sys.executable} -m kproxy tui {source}"
    size = ("-x", str(WIDTH), "-y", str(HEIGHT))
    subprocess.run([*tmux, "-f", "/dev/null", "new-session", "-d", *size, command], check=True, cwd=ROOT)
    try:
        time.sleep(25)
        for key in keys:
            subprocess.run([*tmux, "send-keys", key], check=True)
        time.sleep(6)
        seen = subprocess.run(
            [*tmux, "capture-pane", "-e", "-N", "-p"], check=True, capture_output=True, text=True
        ).stdout
    finally:
        subprocess.run([*tmux, "kill-server"], check=False)
    console = Console(record=True, width=WIDTH, file=io.StringIO(), force_terminal=True, color_system="truecolor")
    for line in AnsiDecoder().decode(seen.rstrip("\n")):  # colours go on from line to line
        console.print(line, no_wrap=True, overflow="crop")
    svg = console.export_svg(title=f"kproxy tui {Path(source).name}")
    return re.sub(r"@font-face \{.*?\}\s*", "", svg, flags=re.S)  # a picture fetches nothing


if __name__ == "__main__":
    main()
