"""Run one scenario: a kproxy with its built-in broker, a client process, and a check of the output."""

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
from tests.faults.expectations import missing_facts
from tests.faults.scenarios import Scenario
from tests.faults.screen import Report, Screen
from tests.peers.kafka import RELEASES, class_path
from tests.peers.processes import dies_with_us, until
from tests.peers.toolchains import cache, go_program

#: Limits in seconds: from the fault to the first report, from the start of the client to the fault, and for a run
#: without a fault.
FIRST_REPORT_S: Final = 10.0
REACHED_S: Final = 15.0
FAULTLESS_RUN_S: Final = 12.0
_SEVERITIES: Final = ("error", "warning", "info")
#: Additional seconds for a report on a busy machine, and after the client has ended.
SLACK_S: Final = 1.0
ENDED_S: Final = 5.0
_ADDRESS: Final = re.compile(r"bootstrap\.servers=(\S+)")
_JAVA_SOURCE: Final = Path(__file__).with_name("clients") / "Faults.java"


@dataclass(frozen=True, slots=True)
class Outcome:
    """The result of a run.

    Attributes:
        scenario: The scenario.
        result: first, later or never; quiet or alarm without a fault; unreached if the client never sent the API.
        first: The first report about the fault, or "".
        lacks: The facts that the first report lacks.
        reports: All reports.
        fault_at: Time of the fault (s since the epoch).
    """

    scenario: Scenario
    result: str
    first: str
    lacks: tuple[str, ...]
    reports: tuple[Report, ...]
    fault_at: float | None


def prepare(client: str) -> list[str]:
    """Build a client if necessary; return its command."""
    if client == FRANZ:
        return [str(go_program("faults"))]
    if client == JAVA:
        return ["java", "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-Xshare:auto", "-Xmx128m",
                "-Dorg.slf4j.simpleLogger.defaultLogLevel=off", "-cp", _java_class_path(), "Faults"]  # fmt: skip
    assert client == LIBRDKAFKA
    return [sys.executable, "-m", "tests.faults.clients.librdkafka"]


@functools.cache
def _java_class_path() -> str:
    class_directory, classpath = cache() / "faults-java", class_path(RELEASES[0])
    compiler_command = [
        "javac",
        "-nowarn",
        "-Xlint:none",
        "-cp",
        classpath,
        "-d",
        str(class_directory),
        str(_JAVA_SOURCE),
    ]
    subprocess.run(compiler_command, check=True, capture_output=True, timeout=120)
    return f"{class_directory}:{classpath}"


def play(scenario: Scenario, directory: Path) -> Outcome:
    """Run a scenario; keep its trace and output in the directory."""
    shutil.rmtree(directory, ignore_errors=True)  # from an earlier run
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
            until("kproxy listens", lambda: proxy.poll() is not None or _address(screen), timeout=30, every=0.05)
            assert proxy.poll() is None, "".join(screen.raw)
            security = ("PLAIN", "alice", "secret") if "--sasl" in scenario.options else ()
            client_command = [*prepare(scenario.client), str(_address(screen)), scenario.workload, *security]
            client = subprocess.Popen(dies_with_us(client_command), stdin=subprocess.DEVNULL, stdout=log, stderr=log)
            fault_at = _wait_for_report(scenario, client, screen, TraceReader(trace))
            live_count = len(screen.reports)
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
        fault_at = TraceReader(trace).first_request(scenario.api)
    return judge(scenario, screen.reports, live_count, fault_at, TraceReader(trace).severities())


def _address(screen: Screen) -> str | None:
    matches = (_ADDRESS.search(row) for row in screen.raw)
    return next((match[1] for match in matches if match), None)


def _wait_for_report(
    scenario: Scenario, client: subprocess.Popen[bytes], screen: Screen, trace_reader: TraceReader
) -> float | None:
    """Wait until the fault is reported or time is up; return the time of the fault."""
    started = time.time()
    fault_at: float | None = None
    ended_at: float | None = None
    while True:
        time.sleep(0.2)
        now = time.time()
        if client.poll() is not None and ended_at is None:
            ended_at = now
        if not scenario.api:
            if now > started + FAULTLESS_RUN_S or (ended_at and now > ended_at + ENDED_S):
                return None
            continue
        if fault_at is None:
            fault_at = trace_reader.first_request(scenario.api)
        if any(not missing_facts(scenario, report) for report in screen.reports):
            time.sleep(0.3)  # for the rest of the output
            return fault_at or trace_reader.first_request(scenario.api)
        deadline = started + REACHED_S if fault_at is None else fault_at + FIRST_REPORT_S + SLACK_S
        if now > deadline or (ended_at and now > ended_at + ENDED_S):
            return fault_at


def judge(
    scenario: Scenario, reports: list[Report], live_count: int, fault_at: float | None, severities: Mapping[str, str]
) -> Outcome:
    """Judge the first report, where warnings and errors rank before information.

    Args:
        scenario: The scenario.
        reports: All reports, in order.
        live_count: How many reports were printed before the proxy was stopped.
        fault_at: Time of the fault.
        severities: Severities by code.
    """
    if not scenario.api:
        alarms = [report for report in reports if severities.get(report.code, "warning") != "info"]
        return Outcome(
            scenario, "alarm" if alarms else "quiet", str(alarms[0]) if alarms else "", (), tuple(reports), None
        )
    if fault_at is None:
        return Outcome(scenario, "unreached", "", (), tuple(reports), None)
    in_time = [
        report for report in reports[:live_count] if fault_at - 0.5 <= report.at <= fault_at + FIRST_REPORT_S + SLACK_S
    ]
    ranked = sorted(in_time, key=lambda report: severities.get(report.code, "warning") == "info")
    missing = missing_facts(scenario, ranked[0] if ranked else Report(0, "", ""))
    if not missing:
        return Outcome(scenario, "first", str(ranked[0]), (), tuple(reports), fault_at)
    later = any(not missing_facts(scenario, report) for report in reports)
    first = str(ranked[0]) if ranked else ""
    return Outcome(scenario, "later" if later else "never", first, missing, tuple(reports), fault_at)


class TraceReader:
    """Reads the trace of a run, which may still be growing."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._read_bytes = 0

    def first_request(self, api: str) -> float | None:
        """Return the time of the first request of an API (s since the epoch), among the lines not yet read."""
        needle = f'"api":"{api}"'
        for line in self._new_lines():
            if '"kind":"request"' in line and needle in line:
                return datetime.fromisoformat(json.loads(line)["ts"]).timestamp()
        return None

    def severities(self) -> dict[str, str]:
        """Return the highest severity of findings and stalls, by code."""
        severities: dict[str, str] = {}
        for line in self._new_lines():
            if '"severity"' in line:
                entry = json.loads(line)
                for finding in (*entry.get("findings", ()), *([entry] if "severity" in entry else ())):
                    code = finding.get("code", "stall")
                    severities[code] = min(severities.get(code, "info"), finding["severity"], key=_SEVERITIES.index)
        return severities

    def _new_lines(self) -> Iterator[str]:
        for path in sorted(self._directory.rglob("*.jsonl*")):  # the name ends in `.part` while the file is written
            with suppress(FileNotFoundError), path.open("rb") as file:
                file.seek(self._read_bytes)
                for line in iter(file.readline, b""):
                    if not line.endswith(b"\n"):
                        break
                    self._read_bytes += len(line)
                    yield line.decode()
