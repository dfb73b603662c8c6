"""Draw the pictures of a browser anew: ``python -m docs.images.browser [NAME...]``.

It needs chromium, and the extra ``spark`` for the report. The captures are recordings of Kafka's Java client.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
from collections.abc import Callable
from functools import partial
from pathlib import Path

from tests.kproxy.spark import sample_fleet
from tests.peers.browser import Browser, Tab, browser, executable
from tests.peers.web import open_window, run_web

HERE = Path(__file__).parent
ROOT = HERE.parent.parent
BUG = ROOT / "tests" / "data" / "bugs" / "metadata-throttle-first--java.pcap.gz"
JAVA = ROOT / "tests" / "data" / "pcap" / "java-4.3.1.pcap.gz"
BROKERS = ROOT / "tests" / "data" / "pcap" / "three-brokers-java-4.3.1.pcap.gz"
#: Names of pictures of a page: its capture, the view's address, the theme, what shows that it is drawn, and its height.
VIEWS = {
    "ladder": (BROKERS, "ladder?filter=client_id%3Dlab-java&start=40", "light", ".ladder a", 640),
    "over-time": (BROKERS, "over-time", "dark", ".throughput", 800),
    "timelines": (JAVA, "timelines", "light", ".timelines a", 640),
}
#: Bytes of a picture at most.
MAX_SIZE = 200_000
WIDTH, HEIGHT = 1188, 714  # 132 columns, 34 lines


def main() -> None:
    """Draw all of them."""
    program = executable()
    if program is None:
        sys.exit("there is no chromium on PATH")
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as directory:
        place = Path(directory)
        with browser(program, place / "profile") as tab:
            pictures: dict[str, Callable[[], bytes]] = {
                "web": lambda: application(tab.browser, place),
                "page": lambda: page(tab, place / "page.html"),
                **{name: partial(view, tab, place / "page.html", *other) for name, other in VIEWS.items()},
                "report": lambda: report(tab, place),
            }
            for name in sys.argv[1:] or pictures:
                picture = pictures[name]()
                if len(picture) > MAX_SIZE:
                    sys.exit(f"{name}.png has {len(picture):,} bytes: show less")
                (HERE / f"{name}.png").write_bytes(picture)


def application(chromium: Browser, place: Path) -> bytes:
    """`kproxy web`, with the APIs of a capture."""
    with run_web(JAVA, cwd=place) as server:
        window = open_window(chromium, server.address, width=WIDTH)
        window.run("location.hash = '#/apis?key=Fetch'")
        window.until("document.querySelector('.facts a')")
        window.until("document.getElementById('facts').textContent.includes('342 exchanges')")
        return window.picture()


def page(tab: Tab, path: Path) -> bytes:
    """The page that `kproxy dissect --html` writes, the finding open."""
    open_page(tab, path, BUG)
    tab.run("document.querySelector('.cause a.primary').click()")
    tab.until("document.querySelector('.node.marked')")
    return tab.picture()


def view(tab: Tab, path: Path, capture: Path, address: str, theme: str, drawn: str, height: int) -> bytes:
    """A view of the page of a capture."""
    open_page(tab, path, capture, height)
    tab.run(f"document.documentElement.dataset.theme = '{theme}'; location.hash = '#/{address}'")
    tab.until(f"document.querySelector('{drawn}')")
    return tab.picture()


def open_page(tab: Tab, path: Path, capture: Path, height: int = 640) -> None:
    """Open the page of a capture."""
    command = [sys.executable, "-m", "kproxy", "dissect", "--html", "--fail-on", "never", str(capture)]
    path.write_bytes(subprocess.run(command, check=True, capture_output=True).stdout)
    tab.resize(WIDTH, height)
    tab.navigate(path.as_uri())
    tab.until("document.documentElement?.dataset.ready")


def report(tab: Tab, place: Path) -> bytes:
    """The report of a week of the fleet that tests analyze."""
    sample_fleet.write(place / "traces", 100_000)
    made = place / "report.html"
    subprocess.run([sys.executable, "-m", "kproxy", "analyze", place / "traces", "--html", made], check=True)
    tab.resize(WIDTH, HEIGHT)
    tab.call("Page.navigate", url=made.as_uri())
    tab.until("document.documentElement?.dataset.ready")
    return tab.picture()


if __name__ == "__main__":
    main()
