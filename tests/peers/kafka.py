"""A real Kafka broker on loopback, from Maven's artifacts, and Kafka's command-line tools."""

from __future__ import annotations

import os
import random
import signal
import socket
import subprocess
from collections.abc import Sequence
from pathlib import Path

from tests.peers.processes import dies_with_us, until
from tests.peers.toolchains import absent, cache

#: The newest release, and the last one that still serves the API versions that 4.0 removed.
RELEASES = ("4.3.1", "3.9.1")
HOST = "127.0.0.1"
#: ApiVersions v0, correlation id 1, client id "lab".
_API_VERSIONS = bytes.fromhex("0000000d 0012 0000 00000001 0003 6c6162")
_TOOLS = {
    "topics": "org.apache.kafka.tools.TopicCommand",
    "producer-perf": "org.apache.kafka.tools.ProducerPerformance",
    "consumer-perf": "org.apache.kafka.tools.ConsumerPerformance",
    "console-consumer": "org.apache.kafka.tools.consumer.ConsoleConsumer",
    "console-share-consumer": "org.apache.kafka.tools.consumer.ConsoleShareConsumer",
    "groups": "org.apache.kafka.tools.consumer.group.ConsumerGroupCommand",
    "delegation-tokens": "org.apache.kafka.tools.DelegationTokenCommand",
    "configs": "kafka.admin.ConfigCommand",
    "dump-log": "org.apache.kafka.tools.DumpLogSegments",
    "end-to-end-latency": "org.apache.kafka.tools.EndToEndLatency",
}
#: With these options a JVM starts in half the time, and a broker in a third; no test needs fast compiled code.
_SHORT_LIVED = ("-XX:TieredStopAtLevel=1", "-XX:ReservedCodeCacheSize=240m", "-XX:+UseSerialGC", "-Xshare:auto")


def missing() -> str | None:
    """Return the reason why Kafka cannot run, or None."""
    return absent("java", "mvn")


_used_ports: set[int] = set()


def free_port() -> int:
    """Return a free port below the range of outgoing connections; never the same port twice."""
    while True:
        port = random.randint(15000, 30000)
        with socket.socket() as probe:
            if port not in _used_ports and probe.connect_ex((HOST, port)):
                _used_ports.add(port)
                return port


def class_path(release: str) -> str:
    """Return the Java class path of a release; Maven fetches missing artifacts."""
    class_path_file = cache() / f"kafka-{release}.classpath"
    if not class_path_file.exists() or not all(map(os.path.exists, class_path_file.read_text().split(":"))):
        class_path_file.parent.mkdir(parents=True, exist_ok=True)
        pom = Path(__file__).with_name("pom.xml")
        goal = ["dependency:build-classpath", f"-Dmdep.outputFile={class_path_file}", f"-Dkafka.version={release}"]
        subprocess.run(["mvn", "-q", "-B", "-f", pom, *goal], check=True, timeout=900)
    return class_path_file.read_text()


class Tools:
    """Kafka's own command-line tools, of one release."""

    def __init__(self, release: str) -> None:
        self.release = release
        self._class_path = class_path(release)

    def tool(self, name: str, *arguments: str, timeout: float = 120) -> str:
        """Run a tool, which must succeed; return its output."""
        process = subprocess.run(
            dies_with_us(self.command(name, *arguments)),
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=timeout,
        )  # fmt: skip
        assert process.returncode == 0, f"{name} exited {process.returncode}: {process.stdout}"
        return process.stdout

    def command(self, name: str, *arguments: str, jvm: Sequence[str] = ()) -> list[str]:
        """Return the command that runs a tool; `jvm` are options of its JVM."""
        return self._java(_TOOLS[name], *arguments, jvm=jvm)

    def start_tool(self, name: str, *arguments: str) -> subprocess.Popen[bytes]:
        """Start a tool in the background; the test must end it."""
        command = dies_with_us(self.command(name, *arguments))
        return subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)

    def _java(self, main_class: str, *arguments: str, jvm: Sequence[str] = ()) -> list[str]:
        quiet = "-Dorg.slf4j.simpleLogger.defaultLogLevel=error"
        return ["java", *_SHORT_LIVED, "-Xmx256m", quiet, *jvm, "-cp", self._class_path, main_class, *arguments]


class Kafka(Tools):
    """One KRaft node (broker and controller), which is ready when the constructor returns.

    Clients reach it at `direct`. Each listener in `advertised` has an address of its own in `listeners`, and refers
    clients to a different port, that of a proxy in front of it. A listener whose name begins with SASL requires
    authentication (user and password as in `properties`); one whose name begins with SSL or SASL_SSL uses TLS.

    Args:
        release: The release as Maven names it, e.g. ``4.3.1``.
        directory: An empty or new directory for data, configuration and log.
        advertised: Ports on loopback to advertise, by the name of the listener; 0 for the listener's own port.
        properties: More lines of server.properties.
        member_of: The controller of an existing cluster, which the node joins only as a broker.
        jvm: Options of the JVM.
        start: Whether to start it; otherwise, only configuration and data are prepared, for `launch` and `wait`.
    """

    def __init__(
        self,
        release: str,
        directory: Path,
        advertised: dict[str, int],
        properties: dict[str, str],
        member_of: Kafka | None = None,
        jvm: Sequence[str] = (),
        *,
        start: bool = True,
    ) -> None:
        super().__init__(release)
        self.log = directory / "server.log"
        self.direct = (HOST, free_port())
        self.listeners = {name: (HOST, free_port()) for name in advertised}
        directory.mkdir(parents=True, exist_ok=True)
        controller = f"{properties.get('node.id', '1')}@{HOST}:{free_port()}"
        self.controller = controller if member_of is None else member_of.controller
        ports = {"DIRECT": self.direct[1], **{name: port for name, (_, port) in self.listeners.items()}}
        protocols = {name: _protocol(name) for name in ports}
        configuration = {
            "process.roles": "broker,controller" if member_of is None else "broker",
            "node.id": "1",
            "listeners": _addresses(
                {**ports, "CONTROLLER": int(controller.rpartition(":")[2])} if member_of is None else ports
            ),
            "advertised.listeners": _addresses({**ports, **{name: port for name, port in advertised.items() if port}}),
            "listener.security.protocol.map": ",".join(
                f"{name}:{protocol}" for name, protocol in {**protocols, "CONTROLLER": "PLAINTEXT"}.items()
            ),
            "inter.broker.listener.name": "DIRECT",
            "controller.listener.names": "CONTROLLER",
            "controller.quorum.voters": self.controller,
            "log.dirs": str(directory / "data"),
            "offsets.topic.replication.factor": "1",
            "offsets.topic.num.partitions": "4",
            "transaction.state.log.replication.factor": "1",
            "transaction.state.log.min.isr": "1",
            "transaction.state.log.num.partitions": "4",
            "share.coordinator.state.topic.replication.factor": "1",
            "share.coordinator.state.topic.min.isr": "1",
            "group.initial.rebalance.delay.ms": "0",
            **properties,
        }
        properties_path = directory / "server.properties"
        properties_path.write_text("".join(f"{key}={value}\n" for key, value in configuration.items()))
        format_command = self._java(
            "kafka.tools.StorageTool", "format", "-t", "kproxypeersAAAAAAAAAAA", "-c", str(properties_path)
        )
        subprocess.run(format_command, check=True, capture_output=True, timeout=120)
        options = ["-Xmx512m", *_SHORT_LIVED, "-Dorg.slf4j.simpleLogger.defaultLogLevel=warn", *jvm]
        self._command = ["java", *options, "-cp", self._class_path, "kafka.Kafka", str(properties_path)]
        if start:
            self.start()

    def start(self) -> None:
        """Start or restart the node; it keeps its data and its addresses."""
        self.launch()
        self.wait()

    def launch(self) -> None:
        """Launch the process. It ends with the calling thread, which should be the main thread."""
        with self.log.open("ab") as log:
            self._process = subprocess.Popen(dies_with_us(self._command), stdout=log, stderr=log)

    def wait(self) -> None:
        """Wait until the node is ready."""
        until(f"Kafka {self.release} answers, see {self.log}", self._is_ready, timeout=180, every=0.1)

    def kill(self) -> None:
        """Kill the node; its data may be lost."""
        self.signal(signal.SIGKILL)

    def signal(self, number: int) -> None:
        """Send the process a signal; after SIGKILL, wait until it has ended."""
        self._process.send_signal(number)
        if number == signal.SIGKILL:
            self._process.wait()

    def _is_ready(self) -> bool:
        if self._process.poll() is not None:
            raise RuntimeError(f"Kafka {self.release} ended: {self.log.read_text()[-2000:]}")
        try:
            with socket.create_connection(self.direct, timeout=10) as connection:
                connection.sendall(_API_VERSIONS)
                return connection.recv(8)[4:] == bytes([0, 0, 0, 1])
        except OSError:
            return False


def _protocol(name: str) -> str:
    return next((word for word in ("SASL_SSL", "SSL") if name.startswith(word)),
                "SASL_PLAINTEXT" if name.startswith("SASL") else "PLAINTEXT")  # fmt: skip


def _addresses(ports: dict[str, int]) -> str:
    return ",".join(f"{name}://{HOST}:{port}" for name, port in ports.items())
