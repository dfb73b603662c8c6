"""`kproxy probe` as a user runs it."""

from __future__ import annotations

import json
import re
from pathlib import Path
from xml.etree import ElementTree

import pytest

from kproxy.broker.threaded import BrokerThread
from tests.kproxy.cli.conftest import Run


def test_correct_broker_passes(kproxy: Run, kproxy_broker: BrokerThread) -> None:
    result = kproxy("probe", kproxy_broker.bootstrap, "--only", "versions,ListGroups/v4")
    assert (result.returncode, result.stderr) == (0, "")
    *clients, summary = result.stdout.splitlines()
    assert summary == "8 passed, 0 failed, 0 skipped"
    assert "KafkaJS 2.2.4: needs 5 of these checks, 5 pass" in clients
    assert "Java 4.3.1: needs 5 of these checks, 5 pass" in clients
    result = kproxy("probe", kproxy_broker.bootstrap, "--only", "ListGroups/v4", "--verbose")
    assert "pass ListGroups/v4/2: the ListGroups v4 response decodes to its last byte\n" in result.stdout


@pytest.mark.kproxy_broker(quirks=["ListGroups:2:truncated:3"])
def test_failed_check_shows_the_frames(kproxy: Run, kproxy_broker: BrokerThread, tmp_path: Path) -> None:
    command = ("probe", kproxy_broker.bootstrap, "--only", "ListGroups/v2,producers")
    result = kproxy(*command, "--junit", tmp_path / "probe.xml", "--html", tmp_path / "probe.html")
    assert result.returncode == 1
    assert "fail ListGroups/v2/2: the ListGroups v2 response decodes to its last byte\n" in result.stdout
    assert "ListGroups v2 response, " in result.stdout
    assert result.stdout.endswith("1 passed, 1 failed, 7 skipped\n")
    suite = ElementTree.parse(tmp_path / "probe.xml").getroot()[0]  # written by kproxy
    assert (suite.get("tests"), suite.get("failures"), suite.get("skipped")) == ("9", "1", "7")
    page = (tmp_path / "probe.html").read_text(encoding="utf-8")
    assert f"<h1>{kproxy_broker.bootstrap} passes 1 of 2 checks that apply</h1>" in page
    result = kproxy(*command, "--json")
    *lines, summary = map(json.loads, result.stdout.splitlines())
    assert summary["summary"] == {"pass": 1, "fail": 1, "skip": 7}
    scores = {client["name"]: client for client in summary["clients"]}
    assert scores["KafkaJS 2.2.4"]["failed"] == ["ListGroups/v2/2"]
    assert scores["KafkaJS 2.2.4"]["missing"] == []
    [failed] = [line for line in lines if line["id"] == "ListGroups/v2/2"]
    assert failed["evidence"][1]["api"] == "ListGroups"
    assert bytes.fromhex(failed["evidence"][1]["hex"])
    assert kproxy(*command, "--junit", "-").stdout.startswith("<?xml")


def test_skipped_checks_fail_only_with_strict(kproxy: Run, kproxy_broker: BrokerThread) -> None:
    command = ("probe", kproxy_broker.bootstrap, "--only", "producers,versions/ranges")
    assert kproxy(*command).returncode == 0
    assert kproxy(*command, "--strict").returncode == 1
    assert kproxy("probe", kproxy_broker.bootstrap, "--only", "producers").returncode == 5


def test_lists_the_checks(kproxy: Run) -> None:
    result = kproxy("probe", "--list", "--only", "framing", "--verbose")
    assert "framing/huge-size  " in result.stdout
    assert "can be stopped by anyone who connects" in result.stdout
    assert "Source: socket.request.max.bytes" in result.stdout
    result = kproxy("probe", "--list", "--only", "ListGroups/v2/1,Metadata/v13/1", "--verbose")
    assert re.findall("Kafka 4.3.1: (.*)", result.stdout) == [
        "Java 4.3.1, librdkafka 2.16.0 (confluent-kafka 2.16.1), kafka-python 3.0.12",
        "KafkaJS 2.2.4",
    ]
    result = kproxy("probe", "--list", "--only", "framing", "--skip", "framing/huge-size,versions")
    assert "framing/negative-size" in result.stdout
    assert "framing/huge-size" not in result.stdout
    assert len(kproxy("probe", "--list").stdout.splitlines()) > 900


@pytest.mark.parametrize(
    ("words", "status", "sentence"),
    [
        ((), 2, "pass the broker's address"),
        (("localhost:1",), 3, "cannot connect to localhost:1: connection refused"),
        (("localhost:1", "--only", "framin"), 2, "--only framin: no such check; did you mean framing?"),
        (("localhost:1", "--skip", "framing/hug"), 2, "--skip framing/hug: no such check; did you mean framing/huge"),
        (("localhost:1", "--json", "--junit", "x"), 2, "not allowed with argument"),
    ],
)
def test_usage_errors_are_reported(kproxy: Run, words: tuple[object, ...], status: int, sentence: str) -> None:
    result = kproxy("probe", *words)
    assert result.returncode == status
    assert sentence in result.stderr


@pytest.mark.kproxy_broker(quirks=["Metadata:9:missing:throttle_time_ms"])
def test_example_in_the_documentation_matches_the_output(kproxy: Run, kproxy_broker: BrokerThread) -> None:
    page = (Path(__file__).parents[3] / "docs/probe.md").read_text()
    result = kproxy("probe", kproxy_broker.bootstrap, "--only", "Metadata")
    first, second, *_, last = result.stdout.splitlines()
    for line in (first, second, last):
        assert f"    {line}\n" in page
