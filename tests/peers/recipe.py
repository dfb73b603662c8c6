"""Run recipes of docs/deployment.md as printed, on a machine with the host names, files and commands of a recipe."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

from tests.peers.kafka import RELEASES, class_path
from tests.peers.processes import dies_with_us, until
from tests.peers.toolchains import absent

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "deployment.md"
_TOOLS = {
    "kafka-topics.sh": "org.apache.kafka.tools.TopicCommand",
    "kafka-get-offsets.sh": "org.apache.kafka.tools.GetOffsetShell",
    "kafka-console-producer.sh": "org.apache.kafka.tools.ConsoleProducer",
    "kafka-console-consumer.sh": "org.apache.kafka.tools.consumer.ConsoleConsumer",
}
_START_NAMESPACE = 'mount --bind "$0" /etc/hosts && ip link set lo up && echo ready && exec sleep infinity'
_SELF_SIGNED = "openssl req -x509 -newkey rsa:2048 -nodes -keyout ca-key.pem -out ca.pem -days 1 -subj /CN=CA"


class Recipe:
    """The files and commands of a section; each file starts with a comment that contains its name."""

    def __init__(self, title: str) -> None:
        section = PAGE.read_text().partition(f"\n## {title}\n")[2].partition("\n## ")[0]
        blocks = re.findall(r"^```(\w+)\n(.*?)^```", section, re.MULTILINE | re.DOTALL)
        self.files = {text.split("\n")[0].removeprefix("# "): text for language, text in blocks if language != "sh"}
        self.commands = [line for language, text in blocks if language == "sh" for line in text.splitlines()]
        assert self.files
        assert self.commands

    def command(self, start: str) -> str:
        """Return the only command that starts with this text."""
        commands: list[str] = [command for command in self.commands if command.startswith(start)]
        assert len(commands) == 1
        return commands[0]


def missing() -> str | None:
    """Return the reason why recipes cannot run, or None."""
    if reason := absent("java", "mvn", "kcat", "openssl", "unshare", "nsenter", "ip"):
        return reason
    probe = subprocess.run([*_unshare(), "true"], capture_output=True, check=False)
    return "a network namespace of its own is not allowed" if probe.returncode else None


def _unshare() -> list[str]:
    return ["unshare", *([] if os.geteuid() == 0 else ["--map-root-user"]), "--mount", "--net"]


class Machine:
    """A network namespace with only a loopback interface, and a separate ``/etc/hosts``.

    Args:
        directory: The working directory of commands; it also gets the programs that recipes expect on PATH.
        names: IP addresses on loopback by host name.
        environment: Additional variables for the commands.
    """

    def __init__(self, directory: Path, names: Mapping[str, str], environment: Mapping[str, str]) -> None:
        self.directory = directory
        self._processes: list[subprocess.Popen[bytes]] = []
        hosts = directory / "hosts"
        hosts.write_text("127.0.0.1 localhost\n" + "".join(f"{address} {name}\n" for name, address in names.items()))
        programs = directory / "bin"
        programs.mkdir()
        java = ["java", "-XX:TieredStopAtLevel=1", "-Xmx256m", "-Dorg.slf4j.simpleLogger.defaultLogLevel=error"]
        _write_program(programs / "kproxy", [sys.executable, "-m", "kproxy"])
        for name, main_class in _TOOLS.items():
            _write_program(programs / name, [*java, "-cp", class_path(RELEASES[0]), main_class])
        self._environment = {**os.environ, "PATH": f"{programs}:{os.environ['PATH']}", "PYTHONPATH": str(ROOT),
                             "XDG_RUNTIME_DIR": str(directory), **environment}  # fmt: skip
        self._namespace_process = subprocess.Popen(
            dies_with_us([*_unshare(), "sh", "-c", _START_NAMESPACE, str(hosts)]), stdout=subprocess.PIPE
        )
        assert self._namespace_process.stdout is not None
        assert self._namespace_process.stdout.readline() == b"ready\n"

    def run(self, command: str, *, status: int = 0) -> str:
        """Run a shell command; return its output."""
        process = subprocess.run(
            self._command_inside(["sh", "-c", command]), env=self._environment, stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=180, check=False,
        )  # fmt: skip
        assert process.returncode == status, f"{command}: {process.returncode}: {process.stdout}"
        return process.stdout

    def start(self, command: str, *, ready: str) -> subprocess.Popen[bytes]:
        """Run a program in the background; return when it has printed `ready`, at once if that is empty."""
        log = self.directory / f"log-{len(self._processes)}.txt"
        with log.open("wb") as output:
            process = subprocess.Popen(
                dies_with_us(self._command_inside(["sh", "-c", f"exec {command}"])),
                env=self._environment, stdin=subprocess.DEVNULL, stdout=output, stderr=output,
            )  # fmt: skip
        self._processes.append(process)

        def is_ready() -> bool:
            assert process.poll() is None, log.read_text()[-3000:]
            return ready in log.read_text()

        until(f"{command} prints {ready!r}, see {log}", is_ready, timeout=180, every=0.1)
        return process

    def close(self) -> None:
        """Kill all processes of the machine."""
        for process in reversed(self._processes):
            process.kill()
            process.wait()
        self._namespace_process.kill()
        self._namespace_process.wait()
        assert self._namespace_process.stdout is not None
        self._namespace_process.stdout.close()

    def _command_inside(self, command: list[str]) -> list[str]:
        user = [] if os.geteuid() == 0 else ["--user", "--preserve-credentials"]
        enter = ["nsenter", "--target", str(self._namespace_process.pid), *user, "--mount", "--net", "--"]
        return [*enter, "sh", "-c", 'cd "$0" && exec "$@"', str(self.directory), *command]


def create_certificate(machine: Machine, request: str, sign: str, name: str) -> None:
    """Create a certificate for a host, ``NAME.pem`` with its key, with the commands of a recipe."""
    machine.run(request.replace("kproxy", name))
    machine.run(f"{sign.replace('kproxy', name)} && cat {name}-key.pem >> {name}.pem")


def create_authority(machine: Machine) -> None:
    """Create ``ca.pem`` and ``ca-key.pem``."""
    machine.run(_SELF_SIGNED)


def start_brokers(machine: Machine, settings: Mapping[int, str], scram: Mapping[str, str] = {}) -> None:
    """Start a cluster in which each broker is also a controller.

    Args:
        machine: The machine to run it on.
        settings: Lines of server.properties, including ``listeners`` for clients, by node id.
        scram: Passwords of the SCRAM users, by name.
    """
    java = ["java", "-Xmx384m", "-XX:+UseSerialGC", "-cp", class_path(RELEASES[0])]
    quiet = ["-Dorg.slf4j.simpleLogger.defaultLogLevel=error",
             "-Dorg.slf4j.simpleLogger.log.kafka.server.KafkaRaftServer=info"]  # fmt: skip
    voters = ",".join(f"{number}@127.0.0.{10 + number}:19090" for number in settings)
    for number, text in settings.items():
        parsed_settings = dict(
            line.split("=", 1) for line in text.splitlines() if "=" in line and not line.startswith("#")
        )
        parsed_settings["listeners"] += f",CONTROLLER://127.0.0.{10 + number}:19090"
        factors = {f"{topic_kind}.replication.factor": str(len(settings)) for topic_kind in (
            "default", "offsets.topic", "transaction.state.log", "share.coordinator.state.topic")}  # fmt: skip
        properties = {
            "process.roles": "broker,controller",
            "node.id": str(number),
            "controller.listener.names": "CONTROLLER",
            "controller.quorum.voters": voters,
            "listener.security.protocol.map": "CONTROLLER:PLAINTEXT,INTERNAL:PLAINTEXT,SASL_SSL:SASL_SSL",
            "log.dirs": f"data-{number}",
            "offsets.topic.num.partitions": "4",
            "group.initial.rebalance.delay.ms": "0",
            **factors,
            **parsed_settings,
        }
        path = machine.directory / f"server-{number}.properties"
        path.write_text("".join(f"{key}={value}\n" for key, value in properties.items()))
        users = [option for name, password in scram.items()
                 for option in ("--add-scram", f"SCRAM-SHA-512=[name={name},password={password}]")]  # fmt: skip
        command = ["kafka.tools.StorageTool", "format", "-t", "kproxypeersAAAAAAAAAAA", "-c", str(path), *users]
        machine.run(shlex.join([*java, *quiet, *command]))
    for number in settings:  # all are started before the first is awaited: they elect a leader together
        machine.start(shlex.join([*java, *quiet, "kafka.Kafka", f"server-{number}.properties"]), ready="")
    for directory in range(len(settings)):
        log = machine.directory / f"log-{directory}.txt"
        until("brokers start", lambda log=log: "Kafka Server started" in log.read_text(), timeout=180, every=0.1)  # type: ignore[misc]


def _write_program(path: Path, command: list[str]) -> None:
    path.write_text(f'#!/bin/sh\nexec {shlex.join(command)} "$@"\n')
    path.chmod(0o755)
