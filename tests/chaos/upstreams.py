"""Brokers behind the proxy that a fault can kill, stop and restart: the built-in broker, or real Kafka."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Protocol

from tests.chaos.wire import responds
from tests.peers.forwarder import Address
from tests.peers.kafka import HOST, Kafka, free_port
from tests.peers.processes import dies_with_us, until


class Upstream(Protocol):
    """A broker on loopback that keeps its address and its records when it is restarted."""

    address: Address

    def start(self) -> None:
        """Start or resume the broker, and wait until it responds."""

    def signal(self, number: int) -> None:
        """Send a signal to all processes of the broker; after SIGKILL, wait until it has ended."""

    def close(self) -> None:
        """End the broker after the story."""


class BuiltInBroker:
    """`kproxy --upstream` with a data directory. It advertises `name`, so that the proxy must resolve it repeatedly."""

    def __init__(self, directory: Path, name: str = HOST) -> None:
        self.address: Address = (HOST, free_port())
        self._process: subprocess.Popen[bytes] | None = None
        self._printed = directory / "broker.txt"
        data = str(directory / "data")
        self._command = [
            sys.executable, "-m", "kproxy", "--listen", "{}:{}".format(*self.address), "--upstream", "--data", data,
            "--advertised", f"{name}:{self.address[1]}", "--no-trace", "--no-control", "-q",
        ]  # fmt: skip

    def start(self) -> None:
        if self._process is not None:
            self.signal(signal.SIGCONT)
        else:
            with self._printed.open("ab") as output:
                command = dies_with_us(self._command)
                self._process = subprocess.Popen(
                    command, stdin=subprocess.DEVNULL, stdout=output, stderr=output, process_group=0
                )
        until(f"the broker answers, see {self._printed}", lambda: responds(self.address, 5))

    def signal(self, number: int) -> None:
        assert self._process is not None
        os.killpg(self._process.pid, number)
        if number == signal.SIGKILL:
            self._process.wait()
            self._process = None

    def close(self) -> None:
        if self._process is not None:
            self.signal(signal.SIGKILL)


class RealKafka:
    """A real Kafka, shared by several stories."""

    def __init__(self, kafka: Kafka) -> None:
        self.address = kafka.direct
        self._kafka = kafka
        self._runs = True

    def start(self) -> None:
        if self._runs:
            self._kafka.signal(signal.SIGCONT)
        else:
            self._kafka.start()
            self._runs = True

    def signal(self, number: int) -> None:
        self._kafka.signal(number)
        self._runs = number != signal.SIGKILL

    def close(self) -> None:
        """Leave the broker running for the next story."""
        self.start()
