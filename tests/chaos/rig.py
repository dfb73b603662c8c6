"""The rig: a broker, the kproxy in front of it and a load through it, for the faults to act on."""

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
from tests.chaos.expectations import Reported
from tests.chaos.load import Load, Pace, create_topic
from tests.chaos.proxy import JudgedProxy, Ports
from tests.chaos.upstreams import BuiltInBroker, Upstream
from tests.chaos.wire import answers
from tests.peers.kafka import HOST
from tests.peers.processes import until

#: A name that the machine resolves, and that the kproxy under test resolves with a file of its own.
NAME = "localhost"


class Rig:
    """Starts everything; `close` ends it, however the story went.

    Args:
        directory: Empty or new.
        upstream: A broker that runs; None starts the built-in one.
        pace: Of the load.
        options: Of kproxy.
        own_disk: The trace gets a small disk.
        own_hosts: kproxy finds the broker by a name in `hosts`.
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
            self._prefix = _with_hosts(self.hosts) if own_hosts else []
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
            stack.callback(self.load.finish, seconds=0)
            self._clients: list[socket.socket] = []
            stack.callback(self.hang_up)
            self._throttled = ExitStack()
            stack.enter_context(self._throttled)
            self._stack = stack.pop_all()

    @property
    def proxy(self) -> JudgedProxy:
        """The kproxy that runs, or ran last."""
        return self.runs[-1]

    @property
    def broker(self) -> str:
        """The broker itself, past kproxy."""
        return "{}:{}".format(*self.upstream.address)

    def start_proxy(self) -> None:
        """Start kproxy, also again at the same addresses."""
        printed = self._directory / f"printed-{len(self.runs)}.txt"
        upstream = f"{self._name}:{self.upstream.address[1]}"
        self.runs.append(JudgedProxy(upstream, self.ports, printed, self._options, self._prefix))

    def expect(self, reported: Reported) -> None:
        """Wait until it has been reported.

        Raises:
            TimeoutError: Not in time; it says by which way, and what was printed instead.
        """
        proxy = self.proxy
        ways: dict[str, Callable[[], object]] = {
            f"message {reported.message!r}": lambda: re.search(reported.message, proxy.printed),
            f"health {reported.health!r}": lambda: re.search(reported.health, proxy.health),
        } | {f"metric {metric!r}": lambda each=metric: proxy.measures(each) for metric in reported.metrics}  # type: ignore[misc]

        def all_held() -> bool:
            for name in [name for name, holds in ways.items() if holds()]:
                del ways[name]
            return not ways

        try:
            until("reported", all_held, seconds=reported.seconds, every=0.1)
        except TimeoutError:
            raise TimeoutError(
                f"not reported within {reported.seconds:g} s by {' and '.join(ways)}; health is {proxy.health}; "
                f"it printed: {proxy.printed[-2000:]}"
            ) from None

    def is_answered(self, seconds: float = 10) -> bool:
        """A new client sends a request; whether it is answered in time."""
        return answers(self.ports.kafka, seconds)

    def crowd(self, clients: int, request: bytes = b"") -> None:
        """So many clients connect, send this, and read nothing."""
        for _ in range(clients):
            self._clients.append(socket.create_connection(self.ports.kafka, timeout=10))
            self._clients[-1].sendall(request)

    def hang_up(self) -> None:
        """Those clients leave."""
        while self._clients:
            self._clients.pop().close()

    def throttle(self, part: str) -> None:
        """Let a part run for a twentieth of the time."""
        process, ended = self.proxy.part(part), threading.Event()

        def work() -> None:
            while not ended.wait(0.1):
                process.signal(signal.SIGSTOP)
                ended.wait(1.9)
                process.signal(signal.SIGCONT)

        thread = threading.Thread(target=work, daemon=True)
        thread.start()
        self._throttled.callback(thread.join)
        self._throttled.callback(ended.set)

    def unthrottle(self) -> None:
        """Let it run all the time."""
        self._throttled.close()

    def _kill_all(self) -> None:
        for run in self.runs:
            run.kill_all()

    def close(self) -> None:
        """End everything."""
        self._stack.close()


def _with_hosts(hosts: Path) -> list[str]:
    """What runs a command in a mount namespace where `hosts` alone resolves names."""
    if os.geteuid() != 0 or subprocess.run(["unshare", "--mount", "true"], capture_output=True).returncode:
        pytest.skip("needs root, to mount another /etc/hosts")
    hosts.write_text(f"{HOST} {NAME}\n")
    switch = hosts.with_name("nsswitch.conf")
    switch.write_text("hosts: files\n")
    mounts = 'mount --bind "$0" /etc/hosts && mount --bind "$1" /etc/nsswitch.conf && shift && exec "$@"'
    return ["unshare", "--mount", "sh", "-c", mounts, str(hosts), str(switch)]
