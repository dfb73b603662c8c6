"""The live proxy as a user runs it: one process with clients, a signal, and the files that it leaves behind."""

import contextlib
import json
import os
import re
import signal
import socket
import socketserver
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import pytest

from kproxy.trace.encoding import parse_line
from kproxy.trace.reader import trace_files
from tests.kproxy.frames import request, response

REQUEST = request("ApiVersions", 0, {}, correlation_id=7, client_id="tester")
ANSWER = response("ApiVersions", 0, {"api_keys": [{"api_key": 18, "max_version": 4}]}, correlation_id=7)


class Broker(socketserver.ThreadingTCPServer):
    """A broker that responds to every frame with the same bytes."""

    allow_reuse_address = True
    daemon_threads = True

    class RequestHandlerClass(socketserver.BaseRequestHandler):  # type: ignore[assignment]
        def handle(self) -> None:
            with contextlib.suppress(ConnectionError), self.request.makefile("rb") as stream:
                while size := stream.read(4):
                    stream.read(int.from_bytes(size, "big"))
                    self.request.sendall(self.server.answer)  # type: ignore[attr-defined]

    def __init__(self, answer: bytes = ANSWER) -> None:
        self.answer = answer
        super().__init__(("127.0.0.1", 0), self.RequestHandlerClass)
        self.port: int = self.server_address[1]
        self.thread = threading.Thread(target=self.serve_forever, kwargs={"poll_interval": 0.01})
        self.thread.start()

    def stop(self) -> None:
        self.shutdown()
        self.thread.join()
        self.server_close()


@pytest.fixture
def broker() -> Iterator[Broker]:
    broker = Broker()
    yield broker
    broker.stop()


class Proxy:
    """A running kproxy."""

    def __init__(self, process: "subprocess.Popen[str]") -> None:
        self.process = process
        self.printed: list[str] = []
        self.port = 0

    def wait_until_listening(self) -> None:
        assert self.process.stderr is not None
        for line in self.process.stderr:
            self.printed.append(line)
            if match := re.match(r"listening on 127\.0\.0\.1:(\d+) -> ", line):
                self.port = int(match[1])
                return
        raise AssertionError("".join(self.printed))

    def wait_for_message(self, text: str) -> None:
        assert self.process.stderr is not None
        while text not in "".join(self.printed):
            line = self.process.stderr.readline()
            assert line, "".join(self.printed)
            self.printed.append(line)

    def connect(self, source: str = "") -> socket.socket:
        return socket.create_connection(("127.0.0.1", self.port), timeout=10, source_address=(source, 0))

    def send_requests(self, times: int = 1) -> None:
        with self.connect() as client:
            for _ in range(times):
                client.sendall(REQUEST)
                received = b""
                while len(received) < len(ANSWER):
                    chunk = client.recv(65536)
                    assert chunk
                    received += chunk
                assert received == ANSWER

    def end(self, signal_number: int = signal.SIGINT) -> tuple[str, str]:
        """Send a signal; return all of standard output and standard error."""
        self.process.send_signal(signal_number)
        out, err = self.process.communicate(timeout=20)
        return out, "".join(self.printed) + err


@contextmanager
def running(
    tmp_path: Path,
    *args: object,
    program: Sequence[str] = ("-m", "kproxy"),
    listen: Sequence[str] = ("--listen", "127.0.0.1:0"),
    **options: object,
) -> Iterator[Proxy]:
    process = subprocess.Popen(
        [sys.executable, *program, *listen, *map(str, args)],
        stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd=tmp_path,
        env={**os.environ, "PYTHONWARNINGS": "error", "COLUMNS": "120"}, **options,
    )  # type: ignore[call-overload]  # fmt: skip
    try:
        proxy = Proxy(process)
        proxy.wait_until_listening()
        yield proxy
    finally:
        process.kill()
        process.communicate()


def children(pid: int) -> list[int]:
    result = subprocess.run(["ps", "-o", "pid=", "--ppid", str(pid)], capture_output=True, text=True, check=False)
    return [int(child) for child in result.stdout.split()]


def inspectors(pid: int) -> list[int]:
    """Return the inspectors of the proxy with this process id: its grandchildren that are not zombies."""
    return [child for spawner in children(pid) for child in children(spawner) if state(child) != "Z"]


def read_trace(directory: Path) -> list[dict[str, object]]:
    while True:
        with contextlib.suppress(FileNotFoundError):  # a file is renamed when it is complete
            texts = [path.read_text() for path in trace_files(directory)]
            break
    complete_lines = (line for text in texts for line in text.splitlines(keepends=True) if line.endswith("\n"))
    return [json.loads(line) for line in complete_lines]  # the last line may still be incomplete


def are_complete(directory: Path, suffix: str = ".jsonl") -> bool:
    """Return whether all files of a trace have the suffix of complete files (two if a new hour has started)."""
    return {path.suffix for path in trace_files(directory)} == {suffix}


def until(condition: object, timeout: float = 10) -> None:
    deadline = time.monotonic() + timeout
    while not condition():  # type: ignore[operator]
        assert time.monotonic() < deadline
        time.sleep(0.01)


@pytest.mark.parametrize("signal_number", [signal.SIGINT, signal.SIGTERM])
def test_relays_and_traces_until_a_signal(tmp_path: Path, broker: Broker, signal_number: int) -> None:
    with running(tmp_path, "--upstream", f"127.0.0.1:{broker.port}") as proxy:
        proxy.send_requests(3)
        out, err = proxy.end(signal_number)
        assert proxy.process.returncode == 0
    kinds = [line["kind"] for line in read_trace(tmp_path / "kproxy-trace")]
    assert kinds == ["open", *["request", "response"] * 3, "close"]
    assert are_complete(tmp_path / "kproxy-trace")
    rows = out.splitlines()
    assert " > ApiVersions v0 " in rows[1]
    assert " < ApiVersions v0 " in rows[2]
    assert "1 connection, 6 frames" in err
    assert re.search(r"ApiVersions +0 +3 +3 ", err)


@pytest.mark.slow
def test_trace_lines_are_written_immediately_and_complete_after_a_kill(tmp_path: Path, broker: Broker) -> None:
    with running(tmp_path, "--upstream", f"127.0.0.1:{broker.port}", "-q") as proxy:
        proxy.send_requests(5)
        until(lambda: len(read_trace(tmp_path / "kproxy-trace")) >= 11)
        proxy.process.send_signal(signal.SIGKILL)
        until(lambda: are_complete(tmp_path / "kproxy-trace"))
    for path in trace_files(tmp_path / "kproxy-trace"):
        for line in path.read_bytes().splitlines():
            parse_line(line)


@pytest.mark.slow
def test_json_on_standard_output_equals_the_trace(tmp_path: Path, broker: Broker) -> None:
    with running(tmp_path, "--upstream", f"127.0.0.1:{broker.port}", "--json", "--detail", "full") as proxy:
        proxy.send_requests()
        out, _ = proxy.end()
    assert [json.loads(line) for line in out.splitlines()] == read_trace(tmp_path / "kproxy-trace")
    assert json.loads(out.splitlines()[2])["body"]["api_keys"][0]["max_version"] == 4


@pytest.mark.slow
def test_verbose_fields_are_shown_but_are_not_in_a_summary_trace(tmp_path: Path, broker: Broker) -> None:
    with running(tmp_path, "--upstream", f"127.0.0.1:{broker.port}", "-v") as proxy:
        proxy.send_requests()
        out, _ = proxy.end()
    assert "max_version: 4" in out
    assert all("body" not in line for line in read_trace(tmp_path / "kproxy-trace"))


@pytest.mark.slow
def test_filter_applies_to_the_output_but_not_to_the_trace(tmp_path: Path, broker: Broker) -> None:
    with running(tmp_path, "--upstream", f"127.0.0.1:{broker.port}", "-f", "kind=response") as proxy:
        proxy.send_requests(2)
        out, _ = proxy.end()
    assert len(out.splitlines()) == 2
    assert len(read_trace(tmp_path / "kproxy-trace")) == 6


@pytest.mark.slow
def test_ignored_rules_are_hidden_but_traced(tmp_path: Path, broker: Broker) -> None:
    malformed_request = REQUEST[:3] + bytes([REQUEST[3] + 2]) + REQUEST[4:] + b"\xab\xcd"
    with running(tmp_path, "--upstream", f"127.0.0.1:{broker.port}", "-q", "--ignore", "L") as proxy:
        with proxy.connect() as client:
            client.sendall(malformed_request)
            assert client.recv(65536) == ANSWER
        out, err = proxy.end()
        assert proxy.process.returncode == 0
    assert " L0" not in out + err
    assert "'code': 'L" in str(read_trace(tmp_path / "kproxy-trace"))


#: Runs kproxy with a function that fails only for the second request; {} is the line that makes it fail.
BUGGY = """
import sys
from kproxy.inspection import frame_lines, inspector
from kproxy.cli import main
from kproxy.live.sink import InspectionSink as Sink
from dissectors.messages import message
matching = []
def failing(function, matches):
    def fail(*args, **kwargs):
        if matches(*args):
            matching.append(args)
            if len(matching) == 2:
                raise KeyError("no such thing")
        return function(*args, **kwargs)
    return fail
{}
sys.exit(main(sys.argv[1:]))
"""
BUGS = {
    "decoder": """
compile_decoder = message._compile_decoder
message._compile_decoder = lambda head, body: failing(compile_decoder(head, body), lambda _: "Request" in body.name)
""",
    "message": """
receive = inspector.Inspector.receive
inspector.Inspector.receive = failing(receive, lambda _, number, way, *__: way == 0)
""",
    "line": "Sink._take = failing(Sink._take, lambda _, line: type(line.line).__name__ == 'RequestLine')",
}  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize("bug", ["decoder", "message", "line"])
def test_bug_in_one_frame_stops_neither_the_trace_nor_the_inspector(tmp_path: Path, broker: Broker, bug: str) -> None:
    program = ["-c", BUGGY.format(BUGS[bug])]
    with running(tmp_path, "--upstream", f"127.0.0.1:{broker.port}", program=program) as proxy:
        for _ in range(3):
            proxy.send_requests()
        out, err = proxy.end()
        assert proxy.process.returncode == 0, err
    lines = read_trace(tmp_path / "kproxy-trace")
    requests = [line["offset"] for line in lines if line["kind"] == "request"]
    assert len(requests) == (3 if bug == "decoder" else 2)
    assert len([line for line in lines if line["kind"] == "open"]) == 3
    assert len([line for line in lines if line["kind"] == "close"]) == 3
    assert str(lines).count("'internal-error'") == 1
    assert "K007 internal-error" in out
    assert "KeyError: 'no such thing'" in out
    assert "inspector failed" not in err


def state(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return "Z"


@pytest.mark.slow
def test_missing_request_is_reported_while_there_is_no_traffic(tmp_path: Path) -> None:
    request_body = {"group_id": "g", "rebalance_timeout_ms": 100, "session_timeout_ms": 100}
    response_body = {"generation_id": 1, "member_id": "m-1", "leader": "m-1"}
    broker = Broker(response("JoinGroup", 5, response_body, correlation_id=3))
    try:
        with running(tmp_path, "--upstream", f"127.0.0.1:{broker.port}") as proxy:
            with proxy.connect() as client:
                client.sendall(request("JoinGroup", 5, request_body, correlation_id=3))
                assert client.recv(65536) == broker.answer
                until(lambda: "S013" in str(read_trace(tmp_path / "kproxy-trace")))
                assert proxy.process.poll() is None
            out, _ = proxy.end()
    finally:
        broker.stop()
    assert "S013 join-without-sync" in out


@pytest.mark.slow
def test_no_trace_writes_no_files(tmp_path: Path, broker: Broker) -> None:
    with running(tmp_path, "--upstream", f"127.0.0.1:{broker.port}", "--no-trace", "-q") as proxy:
        proxy.send_requests()
        out, _ = proxy.end()
    assert out == ""
    assert list(tmp_path.iterdir()) == []


@pytest.mark.slow
def test_closed_standard_output_does_not_stop_the_trace(tmp_path: Path, broker: Broker) -> None:
    with running(tmp_path, "--upstream", f"127.0.0.1:{broker.port}") as proxy:
        assert proxy.process.stdout is not None
        proxy.process.stdout.close()
        for _ in range(3):
            proxy.send_requests()
        until(lambda: len(read_trace(tmp_path / "kproxy-trace")) == 12)
        proxy.process.send_signal(signal.SIGINT)
        assert proxy.process.wait(20) == 0


@pytest.mark.slow
def test_unreachable_upstream_prints_one_sentence_and_exits_with_3(tmp_path: Path) -> None:
    with socket.socket() as unused_port_socket:
        unused_port_socket.bind(("127.0.0.1", 0))
        upstream = f"127.0.0.1:{unused_port_socket.getsockname()[1]}"
        result = subprocess.run(
            [sys.executable, "-m", "kproxy", "--listen", "127.0.0.1:0", "--upstream", upstream, "--no-trace"],
            capture_output=True, text=True, cwd=tmp_path, timeout=30, check=False,
        )  # fmt: skip
    assert result.returncode == 3
    assert result.stderr == (
        f"kproxy: upstream {upstream} is unreachable: connection refused; "
        "start it, or use --no-check to start kproxy without it\n"
    )


@pytest.mark.slow
@pytest.mark.parametrize("host", ["127.0.0.1", "0.0.0.0"])
@pytest.mark.parametrize("options", [[], ["--no-check"]])
def test_upstream_that_is_the_proxy_itself_is_rejected_with_status_2(
    tmp_path: Path, host: str, options: list[str]
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as sock:
        port = sock.getsockname()[1]
    result = subprocess.run(
        [sys.executable, "-m", "kproxy", "--listen", f"{host}:{port}", "--upstream", f"localhost:{port}", "--no-trace",
         *options],
        capture_output=True, text=True, cwd=tmp_path, timeout=30, check=False,
    )  # fmt: skip
    assert result.returncode == 2
    assert result.stderr == (
        f"kproxy: --upstream localhost:{port} is this proxy's own listener {host}:{port}: use the address of a broker, "
        "or another port with --listen\n"
    )


@pytest.mark.slow
def test_upstream_that_is_down_is_reported_once_and_the_relay_continues(tmp_path: Path) -> None:
    with socket.socket() as unused_port_socket:
        unused_port_socket.bind(("127.0.0.1", 0))
        with running(tmp_path, "--upstream", f"127.0.0.1:{unused_port_socket.getsockname()[1]}", "--no-check") as proxy:
            for _ in range(2):
                with (
                    contextlib.suppress(ConnectionResetError),
                    proxy.connect() as client,
                ):
                    assert client.recv(10) == b""
            _, err = proxy.end()
            assert proxy.process.returncode == 0
    assert err.count("is unreachable") == 1


@pytest.mark.slow
def test_occupied_port_prints_one_sentence_and_exits_with_2(tmp_path: Path, broker: Broker) -> None:
    result = subprocess.run(
        [sys.executable, "-m", "kproxy", "--listen", f"127.0.0.1:{broker.port}", "--upstream", "127.0.0.1:1"],
        capture_output=True, text=True, cwd=tmp_path, timeout=30, check=False,
    )  # fmt: skip
    assert result.returncode == 2
    assert result.stderr.startswith("kproxy: ")
    assert "in use" in result.stderr
    assert result.stderr.count("\n") == 1


@pytest.mark.slow
def test_relays_from_several_listeners_including_a_unix_socket(tmp_path: Path, broker: Broker) -> None:
    upstream = f"127.0.0.1:{broker.port}"
    with running(tmp_path, "--upstream", upstream, "--listen", "unix:k.sock", "--upstream", upstream) as proxy:
        until((tmp_path / "k.sock").exists)
        with socket.socket(socket.AF_UNIX) as client:
            client.connect(str(tmp_path / "k.sock"))
            client.sendall(REQUEST)
            assert client.recv(65536) == ANSWER
        proxy.send_requests()
        proxy.end()
    lines = read_trace(tmp_path / "kproxy-trace")
    assert len({line["connection_id"] for line in lines}) == 2
    assert not (tmp_path / "k.sock").exists()


@pytest.mark.slow
def test_dissect_reads_a_compressed_trace(tmp_path: Path, broker: Broker) -> None:
    with running(tmp_path, "--upstream", f"127.0.0.1:{broker.port}", "--compress", "-q", "--strict-trace") as proxy:
        proxy.send_requests(2)
        proxy.end()
    assert are_complete(tmp_path / "kproxy-trace", ".zst")
    command = [sys.executable, "-m", "kproxy", "dissect", "--json", *trace_files(tmp_path / "kproxy-trace")]
    result = subprocess.run(command, capture_output=True, text=True, check=True, timeout=30)
    assert len(result.stdout.splitlines()) == 6


@pytest.mark.slow
def test_sighup_reloads_the_configuration_file(tmp_path: Path, broker: Broker) -> None:
    config_file = tmp_path / "kproxy.toml"
    config_file.write_text(f'listen = "127.0.0.1:0"\nupstream = "127.0.0.1:{broker.port}"\nquiet = true\n')
    with running(tmp_path, "--config-file", str(config_file), listen=()) as proxy:
        proxy.send_requests()
        with socket.create_server(("127.0.0.1", 0)) as free_port_socket:
            port = free_port_socket.getsockname()[1]
        for config, message in (
            ("listen = 1\nupstream =", "is not TOML"),
            ('listen = "127.0.0.1:0"', "each --listen needs one --upstream"),
            (
                f'listen = "127.0.0.1:{port}"\nupstream = "127.0.0.1:{broker.port}"\n',
                "restart kproxy to change --quiet",
            ),
        ):
            config_file.write_text(config)
            proxy.process.send_signal(signal.SIGHUP)
            proxy.wait_for_message(message)
        proxy.wait_for_message(f"listening on 127.0.0.1:{port} -> ")
        with socket.create_connection(("127.0.0.1", port)):
            pass
        proxy.end()
