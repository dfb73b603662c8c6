"""`kproxy tui` in a real terminal: its sources, its start and its end."""

from __future__ import annotations

import gzip
import os
import re
import shlex
import signal
import socket
import subprocess
import tempfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from pathlib import Path

import pytest

from tests.kproxy.browse.lines import line
from tests.kproxy.capture_results import DATA
from tests.kproxy.frames import request
from tests.kproxy.tui.terminal import KPROXY, Terminal, environment, kproxy
from tests.peers.processes import until

pytestmark = pytest.mark.peers

CAPTURES = Path(__file__).parents[2] / "captures"
CAPTURE = CAPTURES / "metadata-retry-loop.pcap.gz"
TRACE = CAPTURES / "trace-1.jsonl"
SMALL, LARGE = (80, 24), (200, 50)
API_VERSIONS_REQUEST = request("ApiVersions", 0, {}, correlation_id=7, client_id="tester")


@pytest.fixture
def isolated_environment() -> Iterator[Mapping[str, str]]:
    """Yield an environment without other proxies, with a short path because the paths of Unix sockets are limited."""
    with tempfile.TemporaryDirectory(prefix="k", dir="/tmp") as directory:
        yield environment(Path(directory))


def quit_application(terminal: Terminal) -> None:
    """Quit the application, and wait until it ends."""
    terminal.press("q")
    assert terminal.wait_for_end() == 0


def send_requests(port: int, times: int = 1) -> None:
    with socket.create_connection(("127.0.0.1", port), timeout=60) as client:
        for _ in range(times):
            client.sendall(API_VERSIONS_REQUEST)
            assert client.recv(65536)


@pytest.mark.parametrize("size", [SMALL, LARGE], ids=["80x24", "200x50"])
@pytest.mark.parametrize(("path", "rows"), [(TRACE, 5), (CAPTURE, 13)], ids=["trace", "capture"])
def test_file_is_shown(
    tmp_path: Path, isolated_environment: Mapping[str, str], size: tuple[int, int], path: Path, rows: int
) -> None:
    with kproxy("tui", path, size=size, cwd=tmp_path, env=isolated_environment) as terminal:
        screen = terminal.wait_for(f"{rows} rows")
        assert path.name in screen.splitlines()[0]
        terminal.wait_for("Metadata v")
        terminal.wait_for(lambda screen: "/ filter" in screen.splitlines()[-1])
        assert len(terminal.lines) == size[1]
        assert size[0] * 0.75 < max(map(len, terminal.lines)) <= size[0]
        quit_application(terminal)


def test_filter_option_applies_at_the_start(tmp_path: Path, isolated_environment: Mapping[str, str]) -> None:
    with kproxy("tui", "-f", "api=ApiVersions", TRACE, cwd=tmp_path, env=isolated_environment) as terminal:
        terminal.wait_for("1 shown")
        assert sum("Metadata v13 " in row for row in terminal.lines) == 0
        quit_application(terminal)


def test_growing_trace_is_followed(tmp_path: Path, isolated_environment: Mapping[str, str]) -> None:
    part_path = tmp_path / "date=2026-11-21" / "hour=00" / ".kproxy-web-1-1.jsonl.part"
    part_path.parent.mkdir(parents=True)
    part_path.write_bytes(line(1, "web-1-1"))
    with kproxy("tui", tmp_path, cwd=tmp_path, env=isolated_environment) as terminal:
        terminal.wait_for(lambda screen: "following" in screen and "1 rows" in screen)
        with part_path.open("ab") as file:
            file.write(line(2, "web-1-2"))
        terminal.wait_for("2 rows")
        part_path.rename(part_path.with_name("kproxy-web-1-1.jsonl"))
        part_path.with_name(".kproxy-web-1-2.jsonl.part").write_bytes(line(3, "web-1-3"))
        terminal.wait_for("3 rows")
        quit_application(terminal)


def test_piped_data_and_terminal_keys_are_read(tmp_path: Path, isolated_environment: Mapping[str, str]) -> None:
    (tmp_path / "all").write_bytes(gzip.decompress(CAPTURE.read_bytes()))
    piped = "{ head -c 1500 all; cat go; tail -c +1501 all; }"
    os.mkfifo(tmp_path / "go")
    with kproxy("tui", "-", cwd=tmp_path, piped=piped, env=isolated_environment) as terminal:
        screen = terminal.wait_for(lambda screen: re.search(r"\b[1-9]\d* rows", screen))
        assert "standard input" in screen
        assert "13 rows" not in screen
        terminal.press("?")
        terminal.wait_for("─ help ─")
        terminal.press("Escape")
        (tmp_path / "go").write_bytes(b"")
        terminal.wait_for("13 rows")
        quit_application(terminal)


def test_process_substitution_of_the_shell_is_read(tmp_path: Path, isolated_environment: Mapping[str, str]) -> None:
    command = shlex.join([*KPROXY, "tui"])
    with Terminal(f"bash -c '{command} <(zcat {CAPTURE})'", cwd=tmp_path, env=isolated_environment) as terminal:
        terminal.wait_for("13 rows")
        quit_application(terminal)


def test_standard_input_without_a_pipe_is_rejected(tmp_path: Path, isolated_environment: Mapping[str, str]) -> None:
    with kproxy("tui", "-", cwd=tmp_path, env=isolated_environment) as terminal:
        assert terminal.wait_for_end() == 2
        assert "kproxy: '-' needs a pipe" in terminal.screen


def test_damaged_file_opens_without_rows(tmp_path: Path, isolated_environment: Mapping[str, str]) -> None:
    damaged = tmp_path / "torn.pcap"
    damaged.write_bytes(gzip.decompress(CAPTURE.read_bytes())[:40] + b"\xff" * 200)
    with kproxy("tui", damaged, cwd=tmp_path, env=isolated_environment) as terminal:
        terminal.wait_for("0 rows")
        quit_application(terminal)


def test_tui_starts_and_stops_a_proxy_with_the_built_in_broker(
    tmp_path: Path, isolated_environment: Mapping[str, str]
) -> None:
    with kproxy(
        "tui", "--listen", "127.0.0.1:0", "--upstream", size=LARGE, cwd=tmp_path, env=isolated_environment
    ) as terminal:
        port = listener_port(terminal)
        send_requests(port, 3)
        screen = terminal.wait_for(lambda screen: "5 rows" in screen and screen.count("ApiVersions v0") == 3)
        assert "tester" in screen
        terminal.press("q")
        terminal.wait_for("Quitting stops the proxy")
        terminal.press("Escape")
        terminal.wait_for(lambda screen: "Quitting" not in screen)
        assert not is_not_listening(port)
        terminal.press("q")
        terminal.wait_for("Quitting stops the proxy")
        quit_application(terminal)
    assert is_not_listening(port)
    assert [path.suffix for path in (tmp_path / "kproxy-trace").rglob("*.jsonl*")] == [".jsonl"]


def test_closing_the_terminal_stops_its_proxy(tmp_path: Path, isolated_environment: Mapping[str, str]) -> None:
    with kproxy(
        "tui", "--listen", "127.0.0.1:0", "--upstream", size=LARGE, cwd=tmp_path, env=isolated_environment
    ) as terminal:
        port = listener_port(terminal)
    until("the proxy ends", lambda: is_not_listening(port))


def listener_port(terminal: Terminal) -> int:
    screen = terminal.wait_for(lambda screen: re.search(r"127\.0\.0\.1:\d+ -> ", screen))
    match = re.search(r"127\.0\.0\.1:(\d+) -> ", screen)
    assert match
    return int(match[1])


def is_not_listening(port: int) -> bool:
    with suppress(OSError), socket.create_connection(("127.0.0.1", port), timeout=5):
        return False
    return True


class Proxy:
    """A proxy process on a given port, with the built-in broker."""

    def __init__(self, port: int, cwd: Path, env: Mapping[str, str]) -> None:
        self.process = subprocess.Popen(
            [*KPROXY, "--listen", f"127.0.0.1:{port}", "--upstream", "-q"],
            stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, cwd=cwd,
            env={**os.environ, **env}, text=True,
        )  # fmt: skip
        assert self.process.stderr is not None
        match = re.search(r"bootstrap\.servers=\S+:(\d+)", self.process.stderr.readline())
        assert match
        self.port = int(match[1])
        socket_name = f"{self.process.pid}.sock"
        until("it can be watched", lambda: list(Path(env["XDG_RUNTIME_DIR"]).rglob(socket_name)))

    def end(self, signal_number: int) -> None:
        self.process.send_signal(signal_number)
        self.process.communicate(timeout=60)


StartProxy = Callable[[int], Proxy]


@pytest.fixture
def start_proxy(tmp_path: Path, isolated_environment: Mapping[str, str]) -> Iterator[StartProxy]:
    """Yield a function that starts a proxy on a port; 0 chooses a free port."""
    proxies = []

    def start_and_keep(port: int) -> Proxy:
        proxies.append(proxy := Proxy(port, tmp_path, isolated_environment))
        return proxy

    yield start_and_keep
    for proxy in proxies:
        if proxy.process.returncode is None:
            proxy.end(signal.SIGKILL)


@pytest.mark.parametrize("by_port", [True, False], ids=["by its port", "as the only one"])
def test_tui_reconnects_after_the_proxy_is_killed(
    tmp_path: Path, isolated_environment: Mapping[str, str], start_proxy: StartProxy, *, by_port: bool
) -> None:
    proxy = start_proxy(0)
    send_requests(proxy.port)  # before the viewer connects
    arguments = [proxy.port] if by_port else []
    with kproxy("tui", *arguments, size=LARGE, cwd=tmp_path, env=isolated_environment) as terminal:
        terminal.wait_for("3 rows")
        send_requests(proxy.port, 2)
        terminal.wait_for("7 rows")
        with socket.create_connection(("127.0.0.1", proxy.port), timeout=60):
            terminal.wait_for("8 rows")
            proxy.end(signal.SIGKILL)
            terminal.wait_for("lost the connection to the proxy")
        assert "reconnecting" in terminal.screen
        new_proxy = start_proxy(proxy.port)
        send_requests(new_proxy.port)
        screen = terminal.wait_for("the proxy ended", timeout=60)
        assert "lost the connection to the proxy" not in screen
        quit_application(terminal)


def test_tui_offers_a_choice_between_running_proxies(
    tmp_path: Path, isolated_environment: Mapping[str, str], start_proxy: StartProxy
) -> None:
    first, second = start_proxy(0), start_proxy(0)
    with kproxy("tui", size=LARGE, cwd=tmp_path, env=isolated_environment) as terminal:
        screen = terminal.wait_for("several proxies are running: which one?")
        assert f"1  127.0.0.1:{first.port}" in screen or f"1  127.0.0.1:{second.port}" in screen
        terminal.press("2")
        terminal.wait_for("Waiting for clients: set bootstrap.servers to 127.0.0.1:")
        quit_application(terminal)
    with kproxy("tui", size=LARGE, cwd=tmp_path, env=isolated_environment) as terminal:
        terminal.wait_for("several proxies are running: which one?")
        quit_application(terminal)
    first.end(signal.SIGTERM)
    with kproxy("tui", size=LARGE, cwd=tmp_path, env=isolated_environment) as terminal:
        terminal.wait_for("0 rows")
        second.end(signal.SIGTERM)
        terminal.wait_for("lost the connection to the proxy")
        quit_application(terminal)


@pytest.mark.parametrize(
    ("arguments", "variables", "message"),
    [
        (["missing.pcap"], {}, "kproxy: missing.pcap: No such file or directory"),
        ([], {}, "kproxy: this user runs no kproxy on this machine"),
        ([Path(__file__)], {}, "is not a capture file"),
        ([CAPTURE], {"TERM": "dumb"}, "kproxy: TERM=dumb: this terminal cannot draw the view"),
        (["--theme", "none", CAPTURE], {}, "kproxy: unknown theme 'none'"),
        (["-f", "oops=1", CAPTURE], {}, "oops"),
    ],
)
def test_unusable_input_is_reported_in_a_sentence(
    tmp_path: Path,
    isolated_environment: Mapping[str, str],
    arguments: list[object],
    variables: Mapping[str, str],
    message: str,
) -> None:
    with kproxy("tui", *arguments, size=LARGE, cwd=tmp_path, env={**isolated_environment, **variables}) as terminal:
        assert terminal.wait_for_end() == 2
        assert message in terminal.screen.replace("\n", "")


def test_tui_works_without_a_cache_directory(tmp_path: Path, isolated_environment: Mapping[str, str]) -> None:
    with kproxy(
        "tui", CAPTURE, cwd=tmp_path, env={**isolated_environment, "XDG_CACHE_HOME": "/dev/null/none"}
    ) as terminal:
        terminal.wait_for("13 rows")
        quit_application(terminal)


@pytest.mark.parametrize(
    ("env", "colour_pattern"),
    [
        ({"NO_COLOR": "1"}, r"48;2;(\d+);\1;\1m"),
        ({"TERM": "xterm", "COLORTERM": ""}, r"\x1b\[31m"),
        ({"LANG": "C", "LC_ALL": "C"}, r"48;2;"),
    ],
    ids=["no colour", "sixteen colours", "no locale"],
)
def test_errors_are_marked_with_limited_colours_or_no_locale(
    tmp_path: Path, isolated_environment: Mapping[str, str], env: Mapping[str, str], colour_pattern: str
) -> None:
    bug = DATA / "bugs" / "metadata-throttle-first--java.pcap.gz"
    with kproxy("tui", bug, cwd=tmp_path, env={**isolated_environment, **env}) as terminal:
        terminal.wait_for(lambda screen: re.search(r"^ E \d\d:", screen, re.MULTILINE))
        terminal.wait_for("L005 field-from-newer-version")
        coloured_screen = terminal.coloured
        assert re.search(colour_pattern, coloured_screen)
        colours = set(re.findall(r"[34]8;2;(\d+);(\d+);(\d+)", coloured_screen))
        assert "NO_COLOR" not in env or all(len(set(rgb)) == 1 for rgb in colours)
        assert "TERM" not in env or not colours
        quit_application(terminal)


@pytest.mark.parametrize(
    "arguments", [[CAPTURE], ["--listen", "127.0.0.1:0", "--upstream"]], ids=["capture", "own proxy"]
)
def test_closed_terminal_leaves_no_processes(
    tmp_path: Path, isolated_environment: Mapping[str, str], arguments: list[object]
) -> None:
    with kproxy("tui", *arguments, size=LARGE, cwd=tmp_path, env=isolated_environment) as terminal:
        terminal.wait_for("rows")
        assert processes_in(tmp_path)
    until("all have ended", lambda: not processes_in(tmp_path))


def processes_in(path: Path) -> list[str]:
    """Return the command lines of processes with this working directory."""
    commands = []
    for process in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            if (process / "cwd").readlink() == path:
                commands.append((process / "cmdline").read_text())
    return commands


def test_tui_adapts_to_any_terminal_size(tmp_path: Path, isolated_environment: Mapping[str, str]) -> None:
    with kproxy("tui", CAPTURE, cwd=tmp_path, env=isolated_environment) as terminal:
        terminal.wait_for("13 rows")
        for key, (columns, rows) in zip("1234567", ((300, 80), (20, 6), (1, 1), (40, 10), (200, 60), (40, 10), SMALL),
                                        strict=True):  # fmt: skip
            terminal.press(key)
            terminal.resize(columns, rows)
            until("it has the size", lambda rows=rows: len(terminal.lines) == rows)
        terminal.wait_for("13 rows")
        quit_application(terminal)
