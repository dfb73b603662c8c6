"""Members of share groups: Kafka's Java KafkaShareConsumer, one process per member."""

from __future__ import annotations

import functools
import subprocess
from pathlib import Path

from tests.peers.kafka import RELEASES, class_path
from tests.peers.processes import dies_with_us
from tests.peers.toolchains import cache

_SOURCE = Path(__file__).with_name("java") / "ShareMember.java"
_JVM = ("-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-Xshare:auto", "-Xmx128m")


class ShareMember:
    """A member of a share group that reads a topic; `workload` and `arguments` are those of ShareMember.java."""

    def __init__(
        self, bootstrap: str, client_id: str, group: str, topic: str, workload: str, *arguments: str, printed: Path
    ) -> None:
        self._printed = printed / f"{client_id}.txt"
        command = ["java", *_JVM, "-Dorg.slf4j.simpleLogger.defaultLogLevel=error", "-cp", _class_path(), "ShareMember"]
        with self._printed.open("wb") as output:
            self._process = subprocess.Popen(
                dies_with_us([*command, bootstrap, client_id, group, topic, workload, *arguments]),
                stdin=subprocess.PIPE, stdout=output, stderr=subprocess.STDOUT,
            )  # fmt: skip

    @property
    def lines(self) -> list[str]:
        """The output: one line per record, and one per result of an acknowledgement."""
        return self._printed.read_text().splitlines()

    @property
    def records(self) -> int:
        """The number of deliveries that the member received."""
        return sum(line[:1].isdigit() for line in self.lines)

    def kill(self) -> None:
        """Send SIGKILL, so that the member does not leave its group. Harmless if it has ended."""
        assert self._process.stdin is not None
        self._process.stdin.close()
        self._process.kill()
        self._process.wait()

    def close(self) -> None:
        """Close the consumer properly."""
        assert self._process.stdin is not None
        self._process.stdin.write(b"\n")
        self._process.stdin.flush()
        assert self._process.wait(60) == 0, self.lines[-5:]
        self.kill()


@functools.cache
def _class_path() -> str:
    class_directory, classpath = cache() / "share-member", class_path(RELEASES[0])
    command = ["javac", "-nowarn", "-Xlint:none", "-cp", classpath, "-d", str(class_directory), str(_SOURCE)]
    subprocess.run(command, check=True, capture_output=True, timeout=120)
    return f"{class_directory}:{classpath}"
