"""Draw the pictures of a browser anew: ``python -m docs.images.browser`` (needs chromium and the extra ``spark``)."""

from __future__ import annotations

import subprocess
import sys
import tempfile
from pathlib import Path

from tests.kproxy.spark import planted
from tests.peers.browser import Browser, Tab, browser, executable
from tests.peers.web import opened, web

HERE = Path(__file__).parent
ROOT = HERE.parent.parent
BUG = ROOT / "tests" / "data" / "bugs" / "metadata-throttle-first--java.pcap.gz"
JAVA = ROOT / "tests" / "data" / "pcap" / "java-4.3.1.pcap.gz"
WIDTH, HEIGHT = 1188, 714  # 132 columns, 34 lines


def main() -> None:
    """Draw all of them."""
    program = executable()
    if program is None:
        sys.exit("there is no chromium on PATH")
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as directory:
        place = Path(directory)
        with browser(program, place / "profile") as tab:
            (HERE / "web.png").write_bytes(application(tab.browser, place))
            (HERE / "page.png").write_bytes(page(tab, place / "page.html"))
            (HERE / "report.png").write_bytes(report(tab, place))


def application(chromium: Browser, place: Path) -> bytes:
    """`kproxy web`, with the APIs of a capture."""
    with web(JAVA, cwd=place) as server:
        window = opened(chromium, server.address, width=WIDTH)
        window.run("location.hash = '#/apis?key=Fetch'")
        window.until("document.querySelector('.facts a')")
        window.until("document.getElementById('facts').textContent.includes('342 exchanges')")
        return window.picture()


def page(tab: Tab, path: Path) -> bytes:
    """The page that `kproxy dissect --html` writes, the finding open."""
    command = [sys.executable, "-m", "kproxy", "dissect", "--html", "--fail-on", "never", str(BUG)]
    path.write_bytes(subprocess.run(command, check=True, capture_output=True).stdout)
    tab.resize(WIDTH, 640)
    tab.call("Page.navigate", url=path.as_uri())
    tab.until("document.documentElement?.dataset.ready")
    tab.run("document.querySelector('.cause a.primary').click()")
    tab.until("document.querySelector('.node.marked')")
    return tab.picture()


def report(tab: Tab, place: Path) -> bytes:
    """The report of a week of the fleet that tests analyze."""
    planted.write(place / "traces", 100_000)
    made = place / "report.html"
    subprocess.run([sys.executable, "-m", "kproxy", "analyze", place / "traces", "--html", made], check=True)
    tab.resize(WIDTH, 2 * HEIGHT)
    tab.call("Page.navigate", url=made.as_uri())
    tab.until("document.documentElement?.dataset.ready")
    return tab.picture()


if __name__ == "__main__":
    main()
