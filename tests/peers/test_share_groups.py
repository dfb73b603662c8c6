"""With Kafka's Java client and real Kafka, problems in share groups are reported, but correct members are not."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.peers.kafka import RELEASES, Kafka, missing
from tests.peers.processes import until
from tests.peers.proxy import Proxy
from tests.peers.share_members import ShareMember
from tests.peers.trace import all_findings, read_lines

pytestmark = pytest.mark.peers

#: Short sessions and acquisition locks, instead of the defaults of 45 s and 30 s.
PROPERTIES = {
    "num.partitions": "1",
    "group.share.heartbeat.interval.ms": "1000",
    "group.share.min.heartbeat.interval.ms": "1000",
    "group.share.session.timeout.ms": "10000",
    "group.share.min.session.timeout.ms": "10000",
    "group.share.record.lock.duration.ms": "5000",
    "group.share.min.record.lock.duration.ms": "1000",
}
RECORDS = 10


class Lab:
    """A real Kafka, a proxy in front of it, and members of share groups that use the proxy."""

    def __init__(self, kafka: Kafka, directory: Path) -> None:
        self.kafka, self._directory = kafka, directory
        directory.mkdir()
        self.proxy = Proxy(kafka.direct, directory, "--advertise", "-q")
        self._direct = "{}:{}".format(*kafka.direct)
        self.name = directory.name
        self._members: list[ShareMember] = []
        self._processes: list[subprocess.Popen[bytes]] = []

    def prepare(self, partitions: int = 1) -> None:
        """Create a topic, and a group that reads the topic from its start; both have the name of the test."""
        server_option, entity = (
            ("--bootstrap-server", self._direct),
            ("--entity-type", "groups", "--entity-name", self.name),
        )
        self.kafka.tool("topics", *server_option, "--create", "--topic", self.name, "--partitions", str(partitions))
        self.kafka.tool(
            "configs", *server_option, "--alter", *entity, "--add-config", "share.auto.offset.reset=earliest"
        )
        until("the group begins at the earliest",
              lambda: "=earliest" in self.kafka.tool("configs", *server_option, "--describe", *entity))  # fmt: skip

    def produce(self) -> None:
        """Write `RECORDS` records."""
        self.kafka.tool("producer-perf", *self._producer_options(RECORDS, -1))

    def keep_producing(self) -> None:
        """Write records until the lab is closed."""
        self._processes.append(self.kafka.start_tool("producer-perf", *self._producer_options(1_000_000, 100)))

    def _producer_options(self, records: int, throughput: int) -> tuple[str, ...]:
        sizes = ("--num-records", str(records), "--record-size", "100", "--throughput", str(throughput))
        return ("--topic", self.name, *sizes, "--producer-props", f"bootstrap.servers={self._direct}")

    def start_member(self, client_id: str, workload: str, *arguments: str) -> ShareMember:
        member = ShareMember(
            self.proxy.bootstrap, client_id, self.name, self.name, workload, *arguments, printed=self._directory
        )
        self._members.append(member)
        return member

    def close(self) -> None:
        """Kill all remaining processes."""
        for member in self._members:
            member.kill()
        for process in self._processes:
            process.kill()
            process.wait()
        self.proxy.kill_all()

    def findings(self) -> list[tuple[str, str]]:
        """Stop the proxy; return the code and message of each finding above info."""
        self.proxy.interrupt()
        lines = all_findings(read_lines(self.proxy.trace))
        return [(line["code"], line["message"]) for line in lines if line["severity"] != "info"]


def codes(lab: Lab) -> set[str]:
    """Return the codes of the findings so far."""
    return {finding["code"] for finding in all_findings(read_lines(lab.proxy.trace, torn_end=True))}


@pytest.fixture(scope="module")
def kafka(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Kafka]:
    if reason := missing():
        pytest.skip(reason)
    broker = Kafka(RELEASES[0], tmp_path_factory.mktemp("kafka"), {}, PROPERTIES)
    yield broker
    broker.kill()


@pytest.fixture
def lab(kafka: Kafka, tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Lab]:
    share_lab = Lab(kafka, tmp_path / request.function.__name__.removeprefix("test_")[:40])
    yield share_lab
    share_lab.close()


def test_other_member_continues_after_a_member_is_killed(lab: Lab) -> None:
    lab.prepare()
    survivor, victim = lab.start_member("survivor", "accept"), lab.start_member("victim", "accept")

    lab.keep_producing()
    until("both have read", lambda: survivor.records and victim.records, timeout=60)
    victim.kill()
    until("the loss is reported", lambda: "G007" in codes(lab), timeout=30)
    records_before = survivor.records
    until("the survivor reads on", lambda: survivor.records > records_before, timeout=30)
    survivor.close()
    [loss] = [
        finding["message"]
        for finding in all_findings(read_lines(lab.proxy.trace, torn_end=True))
        if finding["code"] == "G007"
    ]
    assert "other members are assigned all of its partitions and read on" in loss
    assert lab.findings() == []  # G007 is only information here


def test_records_released_until_they_are_archived_are_reported(lab: Lab) -> None:
    lab.prepare()
    lab.produce()
    member = lab.start_member("releaser", "release")
    until("they were delivered 5 times", lambda: sum(line.endswith(" 5") for line in member.lines) == RECORDS)
    until("they are archived", lambda: "Q003" in codes(lab), timeout=30)
    member.close()
    [(code, message)] = lab.findings()
    assert code == "Q003"
    assert "client 'releaser' at 127.0.0.1" in message
    assert "at delivery 5" in message


def test_acknowledgement_after_the_lock_expired_is_reported(lab: Lab) -> None:
    lab.prepare()
    lab.produce()
    # The client may acquire the records again once while it is working, so its second lock must also expire.
    late_member = lab.start_member("late", "late", "12000")
    until("it is refused", lambda: any("InvalidRecordState" in line for line in late_member.lines), timeout=60)
    until("it is named", lambda: "Q001" in codes(lab))
    late_member.kill()
    findings = dict(lab.findings())
    assert findings.keys() <= {"Q001", "Q002"}
    assert f"offsets 0 to {RECORDS - 1} of {lab.name}[0]" in findings["Q001"]
    assert "its lock ran out" in findings["Q001"]


def test_correct_members_cause_no_findings(lab: Lab) -> None:
    lab.prepare(partitions=2)
    renewing_member = lab.start_member("renews", "renew", "6500")
    accepting_member = lab.start_member("accepts", "accept")

    lab.keep_producing()
    until(
        "both have accepted records",
        lambda: accepting_member.records and "accept done" in renewing_member.lines,
        timeout=60,
    )
    renewing_member.close()
    accepting_member.close()
    assert lab.findings() == []
