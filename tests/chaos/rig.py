"""The test rig on which faults act: a broker, a kproxy in front of it, and load through it."""

from __future__ import annotations

import os
import re
import signal
import socket
import subprocess
import threading
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path

import pytest

from tests.chaos.disk import Disk
from tests.chaos.expectations import ExpectedReport
from tests.chaos.load import Load, Pace, create_topic
from tests.chaos.proxy import JudgedProxy, Ports
from tests.chaos.upstreams import BuiltInBroker, Upstream
from tests.chaos.wire import responds
from tests.peers.kafka import HOST
from tests.peers.processes import until

#: A name that the machine resolves as usual, and the tested kproxy with a separate file.
NAME = "localhost"


class Rig:
    """Starts everything; `close` ends it, whatever has happened.

    Args:
        directory: An empty or new directory.
        upstream: A running broker; None starts the built-in one.
        pace: The pace of the load.
        options: Options of kproxy.
        own_disk: Whether the trace gets a small disk of its own.
        own_hosts: Whether kproxy finds the broker by a name in `hosts`.
    """

    def __init__(
        self,
        directory: Path,
        upstream: Upstream | None,
        pace: Pace,
        *options: str,
        own_disk: bool = False,
        own_hosts: bool = False,
    ) -> None:
        self._stack = ExitStack()
        with ExitStack() as stack:
            self.disk = Disk(directory / "disk") if own_disk else None
            if self.disk is not None:
                stack.callback(self.disk.unmount)
            self.hosts = directory / "hosts"
            self._prefix = _hosts_prefix(self.hosts) if own_hosts else []
            self.upstream = BuiltInBroker(directory, NAME if own_hosts else HOST) if upstream is None else upstream
            stack.callback(self.upstream.close)
            self.upstream.start()
            self.topic = f"chaos-{os.urandom(4).hex()}"
            create_topic(self.broker, self.topic)
            self.trace = (self.disk.path if self.disk else directory) / "trace"
            self.ports = Ports()
            self.runs: list[JudgedProxy] = []
            self._directory = directory
            self._options = ("--trace", str(self.trace), *options)
            self._name = NAME if own_hosts else HOST
            stack.callback(self._kill_all)
            self.start_proxy()
            self.load = Load("{}:{}".format(*self.ports.kafka), self.topic, pace)
            stack.callback(self.load.finish, timeout=0)
            self._clients: list[socket.socket] = []
            stack.callback(self.disconnect_silent_clients)
            self._throttled = ExitStack()
            stack.enter_context(self._throttled)
            self._stack = stack.pop_all()

    @property
    def proxy(self) -> JudgedProxy:
        """The latest kproxy."""
        return self.runs[-1]

    @property
    def broker(self) -> str:
        """The address of the broker itself."""
        return "{}:{}".format(*self.upstream.address)

    def start_proxy(self) -> None:
        """Start or restart kproxy, at the same addresses."""
        output_path = self._directory / f"printed-{len(self.runs)}.txt"
        upstream = f"{self._name}:{self.upstream.address[1]}"
        self.runs.append(JudgedProxy(upstream, self.ports, output_path, self._options, self._prefix))

    def expect(self, reported: ExpectedReport) -> None:
        """Wait for the expected reports.

        Raises:
            TimeoutError: A report is missing; the message names it and shows the output.
        """
        proxy = self.proxy
        conditions: dict[str, Callable[[], object]] = {
            f"message {reported.message!r}": lambda: re.search(reported.message, proxy.printed),
            f"health {reported.health!r}": lambda: re.search(reported.health, proxy.health),
        } | {f"metric {metric!r}": lambda metric=metric: proxy.satisfies_metric(metric) for metric in reported.metrics}  # type: ignore[misc]

        def are_all_met() -> bool:
            for name in [name for name, holds in conditions.items() if holds()]:
                del conditions[name]
            return not conditions

        try:
            until("reported", are_all_met, timeout=reported.timeout, every=0.1)
        except TimeoutError:
            raise TimeoutError(
                f"not reported within {reported.timeout:g} s by {' and '.join(conditions)}; health is {proxy.health}; "
                f"it printed: {proxy.printed[-2000:]}"
            ) from None

    def try_new_client(self, timeout: float = 10) -> bool:
        """Connect a new client; return whether it gets a response in time."""
        return responds(self.ports.kafka, timeout)

    def connect_silent_clients(self, clients: int, request: bytes = b"") -> None:
        """Connect clients that send a request and read nothing."""
        for _ in range(clients):
            self._clients.append(socket.create_connection(self.ports.kafka, timeout=10))
            self._clients[-1].sendall(request)

    def disconnect_silent_clients(self) -> None:
        """Disconnect the clients that read nothing."""
        while self._clients:
            self._clients.pop().close()

    def throttle(self, name: str) -> None:
        """Let a process run only a twentieth of the time."""
        process, stopped = self.proxy.wait_for_process(name), threading.Event()

        def throttle_process() -> None:
            while not stopped.wait(0.1):
                process.signal(signal.SIGSTOP)
                stopped.wait(1.9)
                process.signal(signal.SIGCONT)

        thread = threading.Thread(target=throttle_process, daemon=True)
        thread.start()
        self._throttled.callback(thread.join)
        self._throttled.callback(stopped.set)

    def unthrottle(self) -> None:
        """Let the throttled process run normally again."""
        self._throttled.close()

    def _kill_all(self) -> None:
        for run in self.runs:
            run.kill_all()

    def close(self) -> None:
        """End everything."""
        self._stack.close()


def _hosts_prefix(hosts: Path) -> list[str]:
    """Return a command prefix for a mount namespace in which only `hosts` resolves names."""
    if os.geteuid() != 0 or subprocess.run(["unshare", "--mount", "true"], capture_output=True).returncode:
        pytest.skip("needs root, to mount a different /etc/hosts")
    hosts.write_text(f"{HOST} {NAME}\n")
    name_switch = hosts.with_name("nsswitch.conf")
    name_switch.write_text("hosts: files\n")
    mounts = 'mount --bind "$0" /etc/hosts && mount --bind "$1" /etc/nsswitch.conf && shift && exec "$@"'
    return ["unshare", "--mount", "sh", "-c", mounts, str(hosts), str(name_switch)]
