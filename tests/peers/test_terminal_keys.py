"""`kproxy tui` in a real terminal: every view and every key in docs/tui.md."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import pytest
from rich.ansi import AnsiDecoder
from rich.style import Style

from tests.kproxy.capture_results import DATA
from tests.kproxy.tui.terminal import Terminal, environment, kproxy
from tests.peers.processes import until

pytestmark = pytest.mark.peers

BUG = DATA / "bugs" / "metadata-throttle-first--java.pcap.gz"
STALL = DATA / "groups" / "application-does-not-poll.jsonl.gz"
GUIDE = Path(__file__).parents[2] / "docs" / "tui.md"
LARGE = (180, 50)

#: A key as tmux names it, and the text that the screen then shows; with the prefix "no ", text that it must not show.
Step = tuple[str, str]


@pytest.fixture
def isolated_environment(tmp_path: Path) -> Mapping[str, str]:
    return environment(tmp_path)


@pytest.fixture
def terminal(tmp_path: Path, isolated_environment: Mapping[str, str]) -> Iterator[Terminal]:
    """Show the capture of a bug on a large screen; the editor copies its file."""
    variables = {**isolated_environment, "EDITOR": "sh -c 'cp \"$0\" copy && mv copy edited'", "VISUAL": ""}
    with kproxy("tui", BUG, size=LARGE, cwd=tmp_path, env=variables) as terminal:
        terminal.wait_for("11 rows")
        terminal.wait_for("client: 127.0.0.1:53998")  # the first row
        terminal.wait_for("L005 field-from-newer-version 2x")  # the banner
        yield terminal


def press_and_check(terminal: Terminal, steps: Sequence[Step]) -> None:
    for key, expected in steps:
        terminal.press(key)
        unwanted = expected.removeprefix("no ") if expected.startswith("no ") else None
        terminal.wait_for((lambda screen, text=unwanted: text not in screen) if unwanted else expected)


def test_keys_move_among_frames(terminal: Terminal) -> None:
    first_client, last_time, finding_time = "client: 127.0.0.1:53998", "02:20:01.830 UTC", "02:19:55.762 UTC"
    press_and_check(terminal,
                    [("j", "request  ApiVersions v4"), ("Down", "request  ApiVersions v3"), ("j", finding_time),
                    ("k", "request  ApiVersions v3"), ("Up", "request  ApiVersions v4"), ("G", last_time),
                    ("g", first_client), ("End", last_time), ("Home", first_client), ("PageDown", last_time),
                    ("PageUp", first_client), ("C-d", last_time), ("C-u", first_client), ("n", finding_time),
                    ("g", first_client), ("!", finding_time), ("G", last_time), ("N", "02:20:01.467 UTC"),
                    ("N", finding_time), ])  # fmt: skip


def test_keys_work_in_an_exchange(terminal: Terminal) -> None:
    press_and_check(terminal,
                    [("!", "hint: do not write throttle_time_ms in version 2"), ("Enter", "no latency error / finding"),
                    ("j", "▼ brokers"), ("h", "▶ brokers"), ("l", "▼ brokers"), ("]", "127.0.0.1:35052"),
                    ("[", "02:19:55.762 UTC"), ])  # fmt: skip
    until("the cursor is on the field", lambda: "throttle_time_ms" in highlighted(terminal))
    press_and_check(
        terminal,
        [("Enter", "tab:  as it fits"), ("Escape", "no tab:  as it fits"), ("Escape", "latency error / finding")],
    )


def test_fields_and_bytes_follow_each_other_on_both_sides(terminal: Terminal) -> None:
    press_and_check(terminal, [("!", "hint: do not"), ("Enter", "no latency error / finding")])
    until("the field of the finding is marked", lambda: "throttle_time_ms" in highlighted(terminal))
    terminal.press("Tab", "j", *"llllllll")  # from byte 8 to the port
    until("the field of that byte is marked", lambda: "port" in highlighted(terminal))
    terminal.press("r")
    until("the request is looked at", lambda: "request" in highlighted(terminal))
    terminal.press("j", "j")
    until("a field of the request is marked", lambda: highlighted(terminal) & {"size", "header", "body"})
    terminal.press("r")
    until("the response is looked at", lambda: "response" in highlighted(terminal))
    terminal.press("k")
    until("the field above is marked", lambda: "host" in highlighted(terminal))


def highlighted(terminal: Terminal) -> set[str]:
    """Return the words on a blue background."""
    words: set[str] = set()
    for line in AnsiDecoder().decode(terminal.coloured):
        for span in line.spans:
            background = span.style.bgcolor.triplet if isinstance(span.style, Style) and span.style.bgcolor else None
            if background is not None and background.blue > background.red + 40:
                words.update(line.plain[span.start : span.end].split())
    return words


def test_keys_edit_the_filter(terminal: Terminal) -> None:
    press_and_check(terminal, [("/", "api=Fetch and latency")])
    terminal.write("laten")
    terminal.wait_for(lambda screen: "latency" in screen.splitlines()[-2])
    terminal.press("Tab")
    terminal.write(">oops")
    terminal.press("Enter")
    terminal.wait_for("^^^^")
    press_and_check(terminal, [("Escape", "no ^^^^"), ("/", "api=Fetch and latency")])
    terminal.write("api=Metadata")
    press_and_check(
        terminal,
        [("Enter", "2 shown"), ("z", "only rows with findings"), ("z", "no only rows"), ("Escape", "no shown")],
    )


def test_keys_sort_mark_and_annotate_rows(terminal: Terminal) -> None:
    press_and_check(terminal, [("o", "─ sort by ─"), ("l", "no ─ sort by ─"), ("g", "02:20:01.457")])
    terminal.wait_for(lambda screen: screen.splitlines()[4].split()[0] == "02:20:01.457")
    press_and_check(
        terminal, [("o", "─ sort by ─"), ("Escape", "no ─ sort by ─"), ("o", "─ sort by ─"), ("t", "no ─ sort by ─")]
    )
    press_and_check(
        terminal,
        [("g", "client: 127.0.0.1:53998"), ("m", "*  02:19:54.864"), ("G", "02:20:01.830 UTC"), (";", "─ note ─")],
    )
    terminal.write("look here")
    press_and_check(terminal,
                    [("Enter", ";  02:20:01.830"), ("g", "client: 127.0.0.1:53998"), ("'", "02:20:01.830 UTC"),
                    ("g", "client: 127.0.0.1:53998"), ("m", "no *  02:19:54.864")])  # fmt: skip


def test_keys_copy_save_and_edit_frames(tmp_path: Path, terminal: Terminal) -> None:
    terminal.press("!")
    terminal.wait_for("02:19:55.762 UTC")
    for letter, format_name, expected_start in (("x", "hex", "00 00 00 54"), ("j", "JSON", "{"),
                                                ("c", "command", "kproxy explain"),
                                                ("m", "Markdown", "### Metadata v2")):  # fmt: skip
        press_and_check(terminal, [("y", "─ copy as ─"), (letter, f"copied {format_name}")])
        until("it is on the clipboard", lambda beginning=expected_start: terminal.copied.startswith(beginning))
    terminal.press("w")
    terminal.wait_for("rows as a trace")
    press_and_check(terminal, [("C-u", "no kproxy-2")])
    terminal.write("saved.jsonl")
    terminal.wait_for("saved.jsonl")
    press_and_check(terminal, [("Enter", "11 rows written to saved.jsonl")])
    terminal.press("e")
    until("the editor has ended", lambda: (tmp_path / "edited").exists())
    assert json.loads((tmp_path / "edited").read_text())["request"]["api"] == "Metadata"
    terminal.wait_for("Connections")
    kinds = [json.loads(line)["kind"] for line in (tmp_path / "saved.jsonl").read_text().splitlines()]
    assert (kinds.count("request"), kinds.count("response")) == (7, 7)


def test_keys_open_help_commands_and_themes_and_quit(terminal: Terminal) -> None:
    press_and_check(
        terminal, [("?", "─ help ─"), ("G", "filters"), ("Escape", "no ─ help ─"), (":", "Search for commands")]
    )
    terminal.write("theme")
    press_and_check(terminal, [("Enter", "Search for themes")])
    terminal.write("textual-light")
    terminal.press("Enter")
    until("it is light", lambda: "48;2;2" in terminal.coloured)
    terminal.wait_for(lambda screen: "textual-light" not in screen)
    press_and_check(
        terminal, [("Space", "PAUSED"), ("Space", "no PAUSED"), ("F", "02:20:01.830 UTC"), ("k", "no 02:20:01.830 UTC")]
    )
    terminal.press("q")
    assert terminal.wait_for_end() == 0


def test_keys_open_every_view(terminal: Terminal) -> None:
    press_and_check(terminal,
                    [("2", "versions used: ApiVersions"), ("o", "─ sort by ─"), ("Escape", "no ─ sort by ─"),
                    ("Enter", "5 shown"), ("3", "UNSUPPORTED_VERSION 1x"), ("Enter", "2 shown"), ("Escape", "5 shown"),
                    ("c", "UNSUPPORTED_VERSION 2x"), ("Enter", "4 shown"), ("c", "no shown"), ("4", "written"),
                    ("5", "why it is stalled"), ("6", "= hint: do not write throttle_time_ms"),
                    ("p", "Checks that a message has no field"), ("Escape", "no Checks that a message"),
                    ("s", "2 shown"), ("6", "= hint: do not write"), ("Enter", "latency error / finding"),
                    ("7", "Kafka 4: works"), ("Escape", "latency error"), ("1", "latency error / finding"),
                    ])  # fmt: skip


def test_keys_move_and_zoom_the_timeline(tmp_path: Path, isolated_environment: Mapping[str, str]) -> None:
    with kproxy("tui", STALL, size=LARGE, cwd=tmp_path, env=isolated_environment) as terminal:
        terminal.wait_for("142 rows")  # the whole trace
        terminal.press("5")
        full_times = axis_times(terminal.wait_for(lambda screen: "time (UTC)" in screen and "must rejoin" in screen))
        terminal.press("Tab", "l", "h", "j", "k", "L", "L", "H", "+")
        zoomed_times = axis_times(terminal.wait_for(lambda screen: axis_times(screen) != full_times))
        terminal.press(">")
        shifted_times = axis_times(terminal.wait_for(lambda screen: axis_times(screen) != zoomed_times))
        terminal.press("<")
        terminal.wait_for(lambda screen: axis_times(screen) == zoomed_times)
        terminal.press("-", "0")
        terminal.wait_for(lambda screen: axis_times(screen) == full_times)
        assert shifted_times != full_times
        terminal.press("Enter")
        terminal.wait_for("latency error / finding")
        press_and_check(terminal, [("5", "time (UTC)"), ("s", "latency error / finding")])


def axis_times(screen: str) -> list[str]:
    return next((line.split()[2:] for line in screen.splitlines() if line.lstrip().startswith("time (UTC)")), [])


def test_mouse_selects_rows_views_and_help(terminal: Terminal) -> None:
    click(terminal, 30, 7)
    terminal.wait_for("02:19:55.762 UTC")
    click(terminal, 18, 1)
    terminal.wait_for("versions used: ApiVersions")
    click(terminal, 2, 49)  # help, in the footer
    terminal.wait_for("─ help ─")


def click(terminal: Terminal, column: int, row: int) -> None:
    terminal.write(f"\x1b[<0;{column + 1};{row + 1}M\x1b[<0;{column + 1};{row + 1}m")


def test_every_documented_key_is_tested() -> None:
    """Check that a test above presses every key in docs/tui.md."""
    table = GUIDE.read_text().partition("## Keys")[2].partition("\n## ")[0]
    documented = set(re.findall(r"`([^` ]{1,5})`", table))
    source = Path(__file__).read_text()
    tmux_names = {"enter": "Enter", "esc": "Escape", "tab": "Tab", "space": "Space"}
    missing = {key for key in documented if f'"{tmux_names.get(key, key)}"' not in source}
    assert missing <= {"e", ".pcap"}, missing
