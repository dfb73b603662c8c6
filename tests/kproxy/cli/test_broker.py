"""The built-in broker as a user runs it: one process with clients at its listener and commands on standard input."""

from __future__ import annotations

import json
import os
import re
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from dissectors import schemas
from dissectors.records import encode
from dissectors.wire.decode import decode
from dissectors.wire.layout import layout
from kproxy.broker.quirks import SETS
from kproxy.cli import main
from tests.kproxy.cli.conftest import Run
from tests.kproxy.cli.test_relay import read_trace
from tests.kproxy.frames import request

STARTED = re.compile(r"built-in Kafka (\S+): connect clients with bootstrap\.servers=(\S+)\n")


class RunningBroker:
    """A running kproxy with a broker in it."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self.process = process
        match = STARTED.fullmatch(self.read_stderr_line())
        assert match is not None
        self.release, servers = match.groups()
        self.servers = servers.split(",")
        self.ports = [int(server.rpartition(":")[2]) for server in self.servers]

    def read_stderr_line(self) -> str:
        """Read the next line of standard error."""
        assert self.process.stderr is not None
        return self.process.stderr.readline()

    def enter(self, command: str) -> str:
        """Enter a command; return the line that kproxy prints."""
        assert self.process.stdin is not None
        print(command, file=self.process.stdin, flush=True)
        return self.read_stderr_line().rstrip("\n")

    def request(self, api: str, version: int, body: dict[str, Any], broker: int = 0) -> Any:
        """Send a request; return the body of the response."""
        api_info = schemas.api_by_name(api)
        assert api_info is not None
        with socket.create_connection(("127.0.0.1", self.ports[broker]), timeout=10) as client:
            client.sendall(request(api, version, body))
            stream = client.makefile("rb")
            frame = stream.read(int.from_bytes(stream.read(4), "big"))
        header = decode(layout("ResponseHeader", schemas.header_versions(api_info.key, version)[1]), frame)
        return decode(layout(f"{api}Response", version), frame, header.end).values

    def end(self) -> tuple[str, str]:
        """Press Ctrl-C; return the rest of standard output and error."""
        self.process.send_signal(signal.SIGINT)
        return self.process.communicate(timeout=20)


@contextmanager
def running_broker(tmp_path: Path, *args: object) -> Iterator[RunningBroker]:
    process = subprocess.Popen(
        [sys.executable, "-m", "kproxy", "--listen", "0", "--upstream", *map(str, args)],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd=tmp_path,
        env={**os.environ, "PYTHONWARNINGS": "error", "COLUMNS": "120"},
    )  # fmt: skip
    try:
        yield RunningBroker(process)
    finally:
        process.kill()
        process.communicate()


def test_prints_the_bootstrap_servers_and_shows_and_traces_requests(tmp_path: Path) -> None:
    with running_broker(tmp_path, "--topic", "orders:3", "--kafka", "2.8") as kproxy:
        [port] = kproxy.ports
        assert (kproxy.release, kproxy.servers) == ("2.8", [f"localhost:{port}"])
        metadata = kproxy.request("Metadata", 9, {"topics": [{"name": "orders"}]})
        out, err = kproxy.end()
        assert kproxy.process.returncode == 0
    assert [(broker["host"], broker["port"]) for broker in metadata["brokers"]] == [("localhost", port)]
    assert len(metadata["topics"][0]["partitions"]) == 3
    assert [row.split()[2:5] for row in out.splitlines()[1:3]] == [[">", "Metadata", "v9"], ["<", "Metadata", "v9"]]
    assert "1 connection, 2 frames" in err
    assert [line["kind"] for line in read_trace(tmp_path / "kproxy-trace")] == ["open", "request", "response", "close"]


@pytest.mark.slow
def test_commands_stop_and_start_brokers_and_move_leaders(tmp_path: Path) -> None:
    def leader(broker_index: int) -> int:
        [topic] = kproxy.request("Metadata", 9, {"topics": [{"name": "t"}]}, broker_index)["topics"]
        [partition] = topic["partitions"]
        return int(partition["leader_id"])

    with running_broker(tmp_path, "--brokers", 3, "--topic", "t", "--no-trace", "-q") as kproxy:
        assert len(kproxy.ports) == 3
        commands = kproxy.read_stderr_line().removeprefix("commands: ").strip()
        assert kproxy.enter("help") == commands
        old_leader = leader(0)
        new_leader = old_leader % 3 + 1
        assert kproxy.enter(f"lead t 0 {new_leader}") == f"broker {new_leader} leads t-0"
        assert leader(old_leader - 1) == new_leader
        assert kproxy.enter(f"stop {new_leader}") == f"broker {new_leader} is down"
        assert leader(old_leader - 1) not in (new_leader, -1)
        host = kproxy.servers[new_leader - 1]
        assert f"{new_leader} {host} down" in kproxy.enter("brokers").split(", ")
        assert kproxy.enter(f"start {new_leader}") == f"broker {new_leader} is up"
        assert leader(new_leader - 1) > 0
        for invalid_command, expected in (
            ("stop 9", "unknown broker 9; brokers: 1, 2, 3"),
            ("start x", "unknown broker x; brokers: 1, 2, 3"),
            ("lead t 7 1", "unknown partition t-7"),
            ("lead t x 1", "unknown partition t-x"),
            ("lead nowhere 0 1", "unknown partition nowhere-0"),
            ("stop", f"unknown command 'stop'; commands: {commands}"),
            ("dance", f"unknown command 'dance'; commands: {commands}"),
        ):
            assert kproxy.enter(invalid_command) == expected
        kproxy.end()
        assert kproxy.process.returncode == 0


@pytest.mark.slow
def test_stop_and_start_are_idempotent_and_all_brokers_can_be_down(tmp_path: Path) -> None:
    with running_broker(tmp_path, "--brokers", 2, "--no-trace", "-q") as kproxy:
        kproxy.read_stderr_line()
        assert [kproxy.enter("stop 1"), kproxy.enter("stop 1")] == ["broker 1 is down"] * 2
        assert [kproxy.enter("start 1"), kproxy.enter("start 1")] == ["broker 1 is up"] * 2
        assert [kproxy.enter("stop 1"), kproxy.enter("stop 2")] == ["broker 1 is down", "broker 2 is down"]
        assert kproxy.enter("start 1") == "broker 1 is up"
        assert kproxy.request("Metadata", 9, {"topics": []})["controller_id"] == 1


def produce(kproxy: RunningBroker, partition: int, records: bytes) -> dict[str, Any]:
    """Produce records to a partition of topic t; return the response for that partition."""
    response_body = kproxy.request(
        "Produce", 9,
        {"acks": -1, "timeout_ms": 1000, "topic_data": [
            {"name": "t", "partition_data": [{"index": partition, "records": records}]}
        ]},
    )  # fmt: skip
    [topic] = response_body["responses"]
    [response] = topic["partition_responses"]
    return dict(response)


@pytest.mark.slow
def test_data_directory_survives_a_restart(tmp_path: Path) -> None:
    data = encode([{"records": [{"key": b"k", "value": b"v", "timestamp": time.time_ns() // 1_000_000}]}])
    options = "--data", tmp_path / "kept", "--no-trace", "-q"
    with running_broker(tmp_path, *options, "--topic", "t:2") as kproxy:
        assert produce(kproxy, 1, data)["error_code"] == 0
        kproxy.end()
    with running_broker(tmp_path, *options) as kproxy:
        [topic] = kproxy.request("Metadata", 9, {"topics": None})["topics"]
        [response] = kproxy.request(
            "Fetch", 11,
            {"replica_id": -1, "max_bytes": 1 << 20, "topics": [
                {"topic": "t", "partitions": [{"partition": 1, "fetch_offset": 0, "partition_max_bytes": 1 << 20}]}
            ]},
        )["responses"]  # fmt: skip
    assert (topic["name"], len(topic["partitions"])) == ("t", 2)
    assert response["partitions"][0]["high_watermark"] == 1
    assert len(response["partitions"][0]["records"]) == len(data)


BUILT_IN = ["--listen", "0", "--upstream"]
NEEDS_BUILT_IN_BROKER = "needs the built-in broker: pass --upstream without a value"


@pytest.mark.parametrize(
    ("args", "reason"),
    [
        *(
            (["--listen", "0", "--upstream", "k:9092", flag, *value], f"{flag} {NEEDS_BUILT_IN_BROKER}")
            for flag, *value in (
                ["--brokers", "3"], ["--kafka", "2.8"], ["--topic", "t"], ["--config", "a=b"], ["--quirk", "x"],
                ["--data", "d"], ["--fsync"], ["--retention", "1G"], ["--sasl", "PLAIN"], ["--user", "a:b"],
                ["--acls"], ["--super-user", "User:a"],
                ["--advertised", "h:1"], ["--registry-listen", "0"],
            )
        ),
        ([*BUILT_IN, "--upstream", "k:9092"], "the built-in broker cannot be combined with other upstreams"),
        ([*BUILT_IN, "--listen", "0", "--brokers", "3"], "--listen is given 2 times for 3 brokers: pass it once"),
        (["--listen", "unix:k.sock", "--upstream"], "the built-in broker needs a TCP port"),
        (["--listen", "65535", "--upstream", "--brokers", "2"], "2 brokers need 2 ports, up to"),
        ([*BUILT_IN, "--brokers", "0"], "invalid --brokers: use 1 to 16"),
        ([*BUILT_IN, "--brokers", "17"], "invalid --brokers: use 1 to 16"),
        ([*BUILT_IN, "--kafka", "5.0"], "no Kafka release '5.0' is known"),
        ([*BUILT_IN, "--topic", "t:0"], "invalid --topic 't:0': use NAME or NAME:PARTITIONS"),
        ([*BUILT_IN, "--topic", ".."], "--topic '..': Topic name is invalid"),
        ([*BUILT_IN, "--config", "x"], "invalid --config 'x': use KEY=VALUE"),
        ([*BUILT_IN, "--quirk", "nope"], "unknown quirk 'nope'"),
        ([*BUILT_IN, "--data", __file__], "is a file: pass a directory"),
        ([*BUILT_IN, "--fsync"], "--fsync needs --data DIR"),
        ([*BUILT_IN, "--registry-listen", "unix:r"], "--registry-listen does not take 'unix:r': use [HOST:]PORT"),
        ([*BUILT_IN, "--sasl", "PLAIN", "--user", "alice"], "invalid --user: use NAME:PASSWORD"),
        ([*BUILT_IN, "--user", "alice:secret"], "--user needs --sasl MECHANISM"),
        ([*BUILT_IN, "--acls", "--super-user", "alice"], "invalid --super-user 'alice': use User:NAME"),
        ([*BUILT_IN, "--tls-cert", "c.pem"], "--tls-cert and --tls-key must be used together"),
        ([*BUILT_IN, "--tls-key", "k.pem"], "--tls-cert and --tls-key must be used together"),
        (["--upstream"], "pass --listen PORT"),
        (["--listen", "SSL://0", "--upstream"], "--listen: listener SSL uses TLS but has no certificate"),
        (["--listen", "SASL_SSL://0", "--upstream"], "--listen: listener SASL_SSL uses TLS but has no certificate"),
        (["--listen", "sasl_plaintext://0", "--upstream"], "--listen: listener SASL_PLAINTEXT uses SASL but has no"),
        (["--listen", "PLAINTEXT://0", "--upstream", "--sasl", "PLAIN"], "a SASL mechanism is set but no listener"),
        (["--listen", "kafka://0", "--upstream"], "--listen: listener KAFKA has no security protocol: name it"),
        (["--listen", "PLAINTEXT://0", "--listen", "1", "--upstream"], "--listen 1: name this listener like"),
        (["--listen", "PLAINTEXT://kafka", "--upstream"], "--listen 'kafka' has no port: use kafka:9092"),
        ([*BUILT_IN, "--advertised", "kafka"], "--advertised 'kafka' has no port: use kafka:9092"),
        ([*BUILT_IN, "--advertised", "kafka:0"], "--advertised kafka:0: clients need a port"),
        ([*BUILT_IN, "--advertised", "SSL://k:1"], "--advertised SSL://k:1: unknown listener SSL: --listen"),
        ([*BUILT_IN, "--advertised", "k:65535", "--brokers", "2"], "--advertised k:65535: 2 brokers need 2 ports"),
        ([*BUILT_IN, "--config", "advertised.listeners=X://k:1"], "use --advertised NAME://HOST:PORT"),
        ([*BUILT_IN, "--config", "listeners=X://k:1"], "use --listen NAME://[HOST:]PORT"),
    ],
)  # fmt: skip
def test_invalid_usage_prints_one_sentence_and_exits_with_2(
    args: list[str], reason: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    assert main(args) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err.startswith("kproxy: ")
    assert captured.err.count("\n") == 1
    assert reason in captured.err
    assert list(tmp_path.iterdir()) == []


@pytest.mark.slow
def test_retention_limits_the_size_of_record_data(kproxy: Run, tmp_path: Path) -> None:
    result = kproxy(*BUILT_IN, "--retention", "1K")
    assert (result.returncode, result.stdout) == (2, "")
    assert "argument --retention: invalid size '1K': use 1M or more, e.g. 200M or 1G" in result.stderr

    batch = encode([{"records": [{"key": None, "value": bytes(500_000), "timestamp": 1_700_000_000_000}]}])
    with running_broker(tmp_path, "--no-trace", "-q", "--topic", "t", "--retention", "1M") as broker:
        for _ in range(10):
            response = produce(broker, 0, batch)
    assert (response["base_offset"], response["log_start_offset"]) == (9, 8)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("args", "reason"),
    [
        (["--sasl", "NOPE"], "unknown SASL mechanism NOPE: use one of PLAIN, "),
        (["--config", "num.partitions=many"], "Invalid value many for configuration num.partitions"),
        (["--tls-cert", "c.pem", "--tls-key", "k.pem"], "--tls-cert c.pem: No such file or directory"),
        (["--data", "/dev/null/kept"], "/dev/null/kept"),
    ],
)
def test_broker_startup_error_prints_one_sentence_and_exits_with_2(
    kproxy_process: Run, args: list[str], reason: str
) -> None:
    result = kproxy_process(*BUILT_IN, "--no-trace", *args)
    assert result.returncode == 2
    assert result.stderr.startswith("kproxy: ")
    assert result.stderr.count("\n") == 1
    assert reason in result.stderr


def test_quirks_command_lists_all_quirk_sets(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["quirks"]) == 0
    out = capsys.readouterr().out
    assert all(re.search(rf"^  {name} +\S", out, re.MULTILINE) for name in SETS)
    assert "\n  API:delay:" in out
    assert main(["quirks", "--json"]) == 0
    listing = json.loads(capsys.readouterr().out)
    assert sorted(listing) == ["behaviours", "layouts", "sets"]
    assert {name: entry["says"] for name, entry in listing["sets"].items()} == {
        name: entry.description for name, entry in SETS.items()
    }


@pytest.mark.parametrize("name", SETS)
def test_quirks_command_describes_a_set(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["quirks", name, "--json"]) == 0
    quirks = json.loads(capsys.readouterr().out)
    assert main(["quirks", name]) == 0
    assert capsys.readouterr().out == "".join(f"{quirk['quirk']}\n    {quirk['says']}\n" for quirk in quirks)
    assert len(quirks) >= len(SETS[name].quirks) > 0


def test_invalid_quirk_prints_one_sentence_and_exits_with_2(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["quirks", "JoinGroup:2:moved:nothing:last"]) == 2
    captured = capsys.readouterr()
    assert (captured.out, captured.err.count("\n")) == ("", 1)
    assert captured.err.startswith("kproxy: quirk 'JoinGroup:2:moved:nothing:last': ")
