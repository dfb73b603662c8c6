"""One run of the kproxy that is judged: what it prints, its health, its metrics, its processes, its exit status."""

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

from tests.chaos.processes import Census, Process
from tests.peers.forwarder import Address
from tests.peers.kafka import HOST, free_port
from tests.peers.processes import dies_with_us, until

NO_ANSWER: Final = "no answer"
#: Seconds that a kproxy may take to end: its own limit of 10 s, and what a busy machine adds.
END_S: Final = 12.0
_COMPARISONS: Final = {
    "==": operator.eq, ">=": operator.ge, ">": operator.gt, "<=": operator.le, "<": operator.lt,
}  # fmt: skip


class Ports:
    """Where clients and the judge connect; the same for each run of a story."""

    def __init__(self) -> None:
        self.kafka: Address = (HOST, free_port())
        self.http: Address = (HOST, free_port())


class JudgedProxy:
    """A kproxy that answers when the constructor returns.

    Args:
        upstream: HOST:PORT of the broker.
        printed: A file for what it prints.
        options: Of the command line, beside the addresses.
        prefix: A command that runs it, in its own process.
    """

    def __init__(
        self, upstream: str, ports: Ports, printed: Path, options: Sequence[str], prefix: Sequence[str] = ()
    ) -> None:
        self._printed = printed
        self._http = "http://{}:{}".format(*ports.http)
        command = [
            *prefix, sys.executable, "-m", "kproxy", "--listen", "{}:{}".format(*ports.kafka), "--upstream", upstream,
            "--advertise", "--http", "{}:{}".format(*ports.http), *options,
        ]  # fmt: skip
        with printed.open("wb") as output:
            self._process = subprocess.Popen(
                dies_with_us(command), stdin=subprocess.DEVNULL, stdout=output, stderr=output,
                start_new_session=True,  # otherwise, the system continues stopped processes when the relay ends
            )  # fmt: skip
        relay = Process.find(self._process.pid)
        assert relay is not None, self.printed
        self.census = Census(relay)
        until(f"kproxy is healthy, see {printed}", self._is_healthy)

    @property
    def printed(self) -> str:
        """All it wrote so far, standard output and standard error."""
        return self._printed.read_text()

    @property
    def health(self) -> str:
        """Status and body of /healthz, such as `200 {"status": "ok", ...}`."""
        status, body = self._get("/healthz")
        return f"{status} {body}" if status else NO_ANSWER

    def part(self, name: str) -> Process:
        """A part that runs, or will soon."""
        found = until(f"kproxy has a {name}", lambda: self.census.count().get(name))
        assert found is not None
        return found

    def measures(self, expression: str) -> bool:
        """Whether /metrics agrees with an expression such as `kproxy_inspector_up == 0`; labels are added up."""
        name, comparison, number = expression.split()
        _, text = self._get("/metrics")
        samples = [sample for family in text_string_to_metric_families(text) for sample in family.samples]
        values = [sample.value for sample in samples if sample.name == name]
        return bool(values) and _COMPARISONS[comparison](sum(values), float(number))

    def signal(self, number: int) -> None:
        """Send the relay a signal."""
        self._process.send_signal(number)

    def wait(self) -> int:
        """The exit status, once it has ended.

        Raises:
            TimeoutError: It has not ended in `END_S`.
        """
        try:
            return self._process.wait(END_S)
        except subprocess.TimeoutExpired:
            raise TimeoutError(f"kproxy has not ended in {END_S:g} s; it printed: {self.printed}") from None

    def kill_all(self) -> None:
        """End what is left of it."""
        self.census.close()
        for process in self.census.left:
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
