"""One run: a kproxy with its built-in broker, a client process, and a judgement of what was printed."""

from __future__ import annotations

import functools
import json
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Final

from tests.faults.apis import FRANZ, JAVA, LIBRDKAFKA
from tests.faults.expectations import lacking
from tests.faults.scenarios import Scenario
from tests.faults.screen import Said, Screen
from tests.peers.kafka import RELEASES, class_path
from tests.peers.processes import dies_with_us, until
from tests.peers.toolchains import cache, go_program

#: Seconds from the fault to the first line, from the client's start to the fault, and of a right run.
FIRST_S: Final = 10.0
REACHED_S: Final = 15.0
RIGHT_S: Final = 12.0
_SEVERITIES: Final = ("error", "warning", "info")
#: Seconds that the machine may take to print what is known; and after the client has ended, on a busy machine.
SLACK_S: Final = 1.0
ENDED_S: Final = 5.0
_ADDRESS: Final = re.compile(r"bootstrap\.servers=(\S+)")
_JAVA_SOURCE: Final = Path(__file__).with_name("clients") / "Faults.java"


@dataclass(frozen=True, slots=True)
class Outcome:
    """How a run ended.

    Attributes:
        scenario: What was played.
        result: first, later, never; quiet or alarm for a right run; unreached if the client never sent the API.
        first: What was said first about the fault, or nothing.
        lacks: What the first line does not say.
        said: All that was said.
        fault_at: When the fault came (s since the epoch).
    """

    scenario: Scenario
    result: str
    first: str
    lacks: tuple[str, ...]
    said: tuple[Said, ...]
    fault_at: float | None


def prepare(client: str) -> list[str]:
    """The command of a client, which is built if it must be."""
    if client == FRANZ:
        return [str(go_program("faults"))]
    if client == JAVA:
        return ["java", "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-Xshare:auto", "-Xmx128m",
                "-Dorg.slf4j.simpleLogger.defaultLogLevel=off", "-cp", _java_class_path(), "Faults"]  # fmt: skip
    assert client == LIBRDKAFKA
    return [sys.executable, "-m", "tests.faults.clients.librdkafka"]


@functools.cache
def _java_class_path() -> str:
    built, path = cache() / "faults-java", class_path(RELEASES[0])
    compile_ = ["javac", "-nowarn", "-Xlint:none", "-cp", path, "-d", str(built), str(_JAVA_SOURCE)]
    subprocess.run(compile_, check=True, capture_output=True, timeout=120)
    return f"{built}:{path}"


def play(scenario: Scenario, directory: Path) -> Outcome:
    """Play a scenario; its trace and what was printed stay in the directory."""
    shutil.rmtree(directory, ignore_errors=True)  # an earlier run's
    directory.mkdir(parents=True)
    trace = directory / "trace"
    command = [sys.executable, "-m", "kproxy", "--listen", "0", "--upstream", "-q", "--no-control", "--trace",
               str(trace), "--topic", "orders:2", "--topic", "copies:2", *scenario.options]  # fmt: skip
    with (directory / "client.txt").open("w") as log:
        proxy = subprocess.Popen(
            dies_with_us(command), stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
        )
        assert proxy.stdout is not None
        screen = Screen(proxy.stdout)
        client: subprocess.Popen[bytes] | None = None
        try:
            until("kproxy listens", lambda: proxy.poll() is not None or _address(screen), seconds=30, every=0.05)
            assert proxy.poll() is None, "".join(screen.raw)
            security = ("PLAIN", "alice", "secret") if "--sasl" in scenario.options else ()
            run = [*prepare(scenario.client), str(_address(screen)), scenario.workload, *security]
            client = subprocess.Popen(dies_with_us(run), stdin=subprocess.DEVNULL, stdout=log, stderr=log)
            fault_at = _watch(scenario, client, screen, Traced(trace))
            live = len(screen.said)
        finally:
            if client is not None:
                client.kill()
                client.wait()
            proxy.send_signal(signal.SIGINT)
            with suppress(subprocess.TimeoutExpired):
                proxy.wait(15)
            proxy.kill()
            proxy.wait()
            screen.join()
            proxy.stdout.close()
    (directory / "printed.txt").write_text("".join(screen.raw))
    if fault_at is None and scenario.api:
        fault_at = Traced(trace).first_request(scenario.api)
    return judge(scenario, screen.said, live, fault_at, Traced(trace).severities())


def _address(screen: Screen) -> str | None:
    found = (_ADDRESS.search(row) for row in screen.raw)
    return next((each[1] for each in found if each), None)


def _watch(scenario: Scenario, client: subprocess.Popen[bytes], screen: Screen, traced: Traced) -> float | None:
    """Return when it has been said, or it is too late; the time of the fault."""
    started = time.time()
    fault_at: float | None = None
    ended_at: float | None = None
    while True:
        time.sleep(0.2)
        now = time.time()
        if client.poll() is not None and ended_at is None:
            ended_at = now
        if not scenario.api:
            if now > started + RIGHT_S or (ended_at and now > ended_at + ENDED_S):
                return None
            continue
        if fault_at is None:
            fault_at = traced.first_request(scenario.api)
        if any(not lacking(scenario, each) for each in screen.said):
            time.sleep(0.3)  # what is printed with it
            return fault_at or traced.first_request(scenario.api)
        late = started + REACHED_S if fault_at is None else fault_at + FIRST_S + SLACK_S
        if now > late or (ended_at and now > ended_at + ENDED_S):
            return fault_at


def judge(
    scenario: Scenario, said: list[Said], live: int, fault_at: float | None, severities: Mapping[str, str]
) -> Outcome:
    """What was said first, and whether it is right: a warning or an error comes before what is only information.

    Args:
        scenario: What was played.
        said: What was said, in order.
        live: How much of it was said before the proxy ended.
        fault_at: When the fault came.
        severities: By code.
    """
    if not scenario.api:
        loud = [said for said in said if severities.get(said.code, "warning") != "info"]
        return Outcome(scenario, "alarm" if loud else "quiet", str(loud[0]) if loud else "", (), tuple(said), None)
    if fault_at is None:
        return Outcome(scenario, "unreached", "", (), tuple(said), None)
    at_once = [said for said in said[:live] if fault_at - 0.5 <= said.at <= fault_at + FIRST_S + SLACK_S]
    ranked = sorted(at_once, key=lambda said: severities.get(said.code, "warning") == "info")
    lacks = lacking(scenario, ranked[0] if ranked else Said(0, "", ""))
    if not lacks:
        return Outcome(scenario, "first", str(ranked[0]), (), tuple(said), fault_at)
    later = any(not lacking(scenario, said) for said in said)
    first = str(ranked[0]) if ranked else ""
    return Outcome(scenario, "later" if later else "never", first, lacks, tuple(said), fault_at)


class Traced:
    """What the trace of a run knows; it may still be written."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._read = 0

    def first_request(self, api: str) -> float | None:
        """When the first request of an API came (s since the epoch); each line is looked at once."""
        needle = f'"api":"{api}"'
        for line in self._new():
            if '"kind":"request"' in line and needle in line:
                return datetime.fromisoformat(json.loads(line)["ts"]).timestamp()
        return None

    def severities(self) -> dict[str, str]:
        """The severity of each finding and of stalls, by code; the highest."""
        severities: dict[str, str] = {}
        for line in self._new():
            if '"severity"' in line:
                entry = json.loads(line)
                for finding in (*entry.get("findings", ()), *([entry] if "severity" in entry else ())):
                    code = finding.get("code", "stall")
                    severities[code] = min(severities.get(code, "info"), finding["severity"], key=_SEVERITIES.index)
        return severities

    def _new(self) -> Iterator[str]:
        for path in sorted(self._directory.rglob("*.jsonl*")):  # `.part` while it is written
            with suppress(FileNotFoundError), path.open("rb") as file:
                file.seek(self._read)
                for line in iter(file.readline, b""):
                    if not line.endswith(b"\n"):
                        break
                    self._read += len(line)
                    yield line.decode()
