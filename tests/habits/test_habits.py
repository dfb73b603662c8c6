"""With librdkafka and Kafka's Java client, kproxy names the bad variant of each habit, but not the fixed one."""

from __future__ import annotations

import json
import re
import sys
import tempfile
from collections import defaultdict
from pathlib import Path
from typing import Any

import pytest

from tests.habits.table import BAD, CLIENTS, DEFAULT_IDS, FIXED, HABITS, LIBRDKAFKA, client_id
from tests.peers.kafka import RELEASES, Kafka
from tests.peers.kafka import missing as no_kafka
from tests.peers.proxy import Proxy
from tests.peers.trace import read_lines

pytestmark = pytest.mark.peers

librdkafka = pytest.importorskip("tests.habits.clients.librdkafka", exc_type=ImportError)

from tests.habits.clients import java  # noqa: E402

Reported = dict[str, dict[str, dict[str, Any]]]
CASES = [(habit, client) for client in CLIENTS for habit in HABITS if client in HABITS[habit].clients]
#: The habits that are also played with real Kafka: they need neither faults of the broker nor tiny timeouts.
KAFKA_HABITS = (
    "client-per-message", "flush-each", "acks-1-beside-all", "key-skew", "near-limit", "commit-each", "small-fetches",
    "assignors", "manual-commits", "reset-to-the-end", "many-connections", "same-question",
)  # fmt: skip


def rule_options() -> list[str]:
    # Even with the fixed variants, these groups rebalance more within seconds than others in an hour.
    limits = ["V020:generations=100", *(habit.limits for habit in HABITS.values() if habit.limits)]
    return [f"--rule={limit}" for limit in limits]


def broker_options() -> list[str]:
    """Return options of the built-in broker: short sessions, no delay before the first rebalance, and its quirks."""
    settings = {"group.min.session.timeout.ms": "1000", "group.initial.rebalance.delay.ms": "0"}
    quirks = [
        quirk.format(client=client_id(name, BAD, client))
        for name, habit in HABITS.items()
        for client in habit.clients
        for quirk in habit.quirks
    ]
    return [f"--config={name}={value}" for name, value in settings.items()] + [f"--quirk={quirk}" for quirk in quirks]


def play(proxy: Proxy, habits: list[str]) -> Reported:
    """Play both variants of habits; return the findings by client id and code."""
    scenery = librdkafka.Scenery(proxy.bootstrap)
    try:
        alone = [habit for habit in habits if HABITS[habit].alone]
        java.finish(java.start(proxy.bootstrap, alone, at_once=1))
        librdkafka.run_all(proxy.bootstrap, alone, at_once=1)
        concurrent = [habit for habit in habits if habit not in alone]
        java_process = java.start(proxy.bootstrap, concurrent)
        librdkafka.run_all(proxy.bootstrap, concurrent)
        java.finish(java_process)
    finally:
        scenery.close()
    proxy.interrupt()
    return findings(proxy)


def findings(proxy: Proxy) -> Reported:
    """Return the findings by client id and code; client ids with a suffix count as their variant."""
    ids = {
        client_id(habit, variant, client): client_id(habit, variant, client)
        for habit, client in CASES
        for variant in (BAD, FIXED)
    } | {default: client_id("default-id", BAD, client) for client, default in DEFAULT_IDS.items()}
    findings: Reported = defaultdict(dict)
    for line in read_lines(proxy.trace):
        entries = [line] if line.get("kind") == "finding" else line.get("findings") or []
        for entry in entries:
            # from the frame, or else from the message, which names the client or its group first
            sender = line.get("client_id") or next(iter(re.findall("'([^']+)'", entry["message"])), "")
            variant_id = next(
                (variant_id for name, variant_id in ids.items() if sender == name or sender.startswith(f"{name}-")),
                sender,
            )
            findings[variant_id][entry["code"]] = entry
    return findings


@pytest.fixture(scope="module")
def reported(tmp_path_factory: pytest.TempPathFactory) -> Reported:
    """Return the findings with the built-in broker. One proxy serves all habits because starting many takes long."""
    if reason := java.missing_program():
        pytest.skip(reason)
    proxy = Proxy(None, tmp_path_factory.mktemp("habits"), "--no-control", *rule_options(), *broker_options())
    return play(proxy, [*HABITS])


@pytest.mark.parametrize(("habit", "client"), CASES)
def test_bad_variant_is_named(habit: str, client: str, reported: Reported) -> None:
    assert set(reported[client_id(habit, BAD, client)]) & set(HABITS[habit].codes)


@pytest.mark.parametrize(("habit", "client"), CASES)
def test_fixed_variant_has_no_findings(habit: str, client: str, reported: Reported) -> None:
    assert reported.get(client_id(habit, FIXED, client), {}) == {}


def test_rules_of_family_h_are_never_errors(reported: Reported) -> None:
    severities = {
        (code, finding["severity"])
        for findings_of_client in reported.values()
        for code, finding in findings_of_client.items()
        if code.startswith("H")
    }
    assert len({code for code, _ in severities}) > 18
    assert {severity for _, severity in severities} <= {"info", "warning"}


def test_almost_all_habits_have_a_variant_for_each_client() -> None:
    assert len(CASES) > 80


def test_flush_after_each_record_differs_from_a_short_linger_time(reported: Reported) -> None:
    # Only librdkafka is compared: even without flushes, the Java client sends each request only after the response to
    # the one before, if the broker is fast.
    flush_message, linger_message = (
        reported[client_id(habit, BAD, LIBRDKAFKA)]["R026"]["message"] for habit in ("flush-each", "no-linger")
    )
    assert flush_message.endswith("each sent only after the response to the one before")
    assert "response" not in linger_message


@pytest.fixture(scope="module")
def reported_with_kafka(tmp_path_factory: pytest.TempPathFactory) -> Reported:
    """Return the findings with real Kafka."""
    if reason := no_kafka() or java.missing_program():
        pytest.skip(reason)
    directory = tmp_path_factory.mktemp("kafka")
    kafka = Kafka(RELEASES[0], directory / "kafka", {}, {"group.initial.rebalance.delay.ms": "0"})
    try:
        proxy = Proxy(kafka.direct, directory, "--advertise", "--no-control", *rule_options())
        return play(proxy, [*KAFKA_HABITS])
    finally:
        kafka.kill()


KAFKA_CASES = [(habit, client) for habit, client in CASES if habit in KAFKA_HABITS]


@pytest.mark.parametrize(("habit", "client"), KAFKA_CASES)
def test_bad_variant_is_named_with_real_kafka(habit: str, client: str, reported_with_kafka: Reported) -> None:
    assert set(reported_with_kafka[client_id(habit, BAD, client)]) & set(HABITS[habit].codes)


@pytest.mark.parametrize(("habit", "client"), KAFKA_CASES)
def test_fixed_variant_has_no_findings_with_real_kafka(habit: str, client: str, reported_with_kafka: Reported) -> None:
    assert reported_with_kafka.get(client_id(habit, FIXED, client), {}) == {}


@pytest.mark.parametrize(
    ("options", "is_reported"),
    [
        (["--inspectors=2"], False),
        (["--inspectors=2", "--rule=C018:connections=5"], True),
        (["--config-file=kproxy.toml"], True),
        (["--config-file=kproxy.toml", "--rule=C018:connections=100"], False),
    ],
)
def test_rule_limits_of_a_live_proxy_are_configurable(
    options: list[str], is_reported: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "kproxy.toml").write_text("[rules.C018]\nconnections = 5\n")
    proxy = Proxy(None, tmp_path, "--no-control", "-q", *options)
    run_leak = librdkafka.repeat_variant(librdkafka.produce({}, records=1), 10)
    run_leak({"bootstrap.servers": proxy.bootstrap, "client.id": "leak"})
    proxy.interrupt()
    assert ("C018" in proxy.printed) is is_reported


if __name__ == "__main__":
    wanted = sys.argv[1:] or [*HABITS]
    findings_by_client = play(
        Proxy(None, Path(tempfile.mkdtemp()), "--no-control", *rule_options(), *broker_options()), wanted
    )
    json.dump(findings_by_client, sys.stdout, indent=1)
