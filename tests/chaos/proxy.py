"""A run of the tested kproxy: its output, health, metrics, processes and exit status."""

from __future__ import annotations

import operator
import signal
import subprocess
import sys
import urllib.error
import urllib.request
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from prometheus_client.parser import text_string_to_metric_families

from tests.chaos.processes import Process, ProcessTracker
from tests.peers.forwarder import Address
from tests.peers.kafka import HOST, free_port
from tests.peers.processes import dies_with_us, until

NO_RESPONSE: Final = "no answer"
#: Seconds that kproxy may take to end: its own limit of 10 s, and a margin for a busy machine.
END_S: Final = 12.0
_COMPARISONS: Final = {
    "==": operator.eq, ">=": operator.ge, ">": operator.gt, "<=": operator.le, "<": operator.lt,
}  # fmt: skip


class Ports:
    """Addresses for clients and for the judge; they are the same for each run in a story."""

    def __init__(self) -> None:
        self.kafka: Address = (HOST, free_port())
        self.http: Address = (HOST, free_port())


class JudgedProxy:
    """A kproxy that is healthy when the constructor returns.

    Args:
        upstream: HOST:PORT of the broker.
        output_path: A file for its output.
        options: Further command line options.
        prefix: A command that executes kproxy in the same process.
    """

    def __init__(
        self, upstream: str, ports: Ports, output_path: Path, options: Sequence[str], prefix: Sequence[str] = ()
    ) -> None:
        self._output_path = output_path
        self._http = "http://{}:{}".format(*ports.http)
        command = [
            *prefix, sys.executable, "-m", "kproxy", "--listen", "{}:{}".format(*ports.kafka), "--upstream", upstream,
            "--advertise", "--http", "{}:{}".format(*ports.http), *options,
        ]  # fmt: skip
        with output_path.open("wb") as output:
            self._process = subprocess.Popen(
                dies_with_us(command), stdin=subprocess.DEVNULL, stdout=output, stderr=output,
                start_new_session=True,  # otherwise, the system resumes stopped processes when the relay ends
            )  # fmt: skip
        relay = Process.find(self._process.pid)
        assert relay is not None, self.printed
        self.tracker = ProcessTracker(relay)
        until(f"kproxy is healthy, see {output_path}", self._is_healthy)

    @property
    def printed(self) -> str:
        """The output so far: standard output and standard error."""
        return self._output_path.read_text()

    @property
    def health(self) -> str:
        """The status and body of /healthz, such as `200 {"status": "ok", ...}`."""
        status, body = self._get("/healthz")
        return f"{status} {body}" if status else NO_RESPONSE

    def wait_for_process(self, name: str) -> Process:
        """Wait until a process is running, and return it."""
        process = until(f"kproxy has a {name}", lambda: self.tracker.record_running().get(name))
        assert process is not None
        return process

    def satisfies_metric(self, expression: str) -> bool:
        """Return whether /metrics satisfies an expression such as `kproxy_inspector_up == 0`, summed over labels."""
        name, comparison, number = expression.split()
        _, text = self._get("/metrics")
        samples = [sample for family in text_string_to_metric_families(text) for sample in family.samples]
        values = [sample.value for sample in samples if sample.name == name]
        return bool(values) and _COMPARISONS[comparison](sum(values), float(number))

    def signal(self, number: int) -> None:
        """Send the relay a signal."""
        self._process.send_signal(number)

    def wait(self) -> int:
        """Wait until the relay ends, and return its exit status.

        Raises:
            TimeoutError: The relay has not ended within `END_S`.
        """
        try:
            return self._process.wait(END_S)
        except subprocess.TimeoutExpired:
            raise TimeoutError(f"kproxy has not ended in {END_S:g} s; it printed: {self.printed}") from None

    def kill_all(self) -> None:
        """Kill all remaining processes."""
        self.tracker.close()
        for process in self.tracker.remaining:
            process.signal(signal.SIGKILL)
        self._process.wait()

    def _is_healthy(self) -> bool:
        assert self._process.poll() is None, self.printed
        return self.health.startswith("200 ")

    def _get(self, path: str) -> tuple[int, str]:
        try:
            with urllib.request.urlopen(self._http + path, timeout=2) as response:
                return response.status, response.read().decode()
        except urllib.error.HTTPError as error:
            with error:
                return error.code, error.read().decode()
        except OSError:
            return 0, ""
