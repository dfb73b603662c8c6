"""Tests for the fault matrix itself: scenarios are valid, and missing facts are detected."""

from __future__ import annotations

from collections import Counter

import pytest

from dissectors import schemas
from kproxy.broker.quirks import parse
from tests.faults.apis import APIS, CLIENTS
from tests.faults.expectations import missing_facts
from tests.faults.run import judge
from tests.faults.scenarios import Scenario, all_scenarios
from tests.faults.screen import Report, Screen

SCENARIOS = all_scenarios()
PRODUCE = Scenario("Produce", "error", "NOT_ENOUGH_REPLICAS", "librdkafka", "produce", ())
FAULTLESS = Scenario("", "right", "", "java", "consume", ())


def report(at: float, text: str, code: str = "S047") -> Report:
    return Report(at, code, f"{code} some-name  {text}")


FULL_REPORT = "Produce got NOT_ENOUGH_REPLICAS 9 times hint: start the brokers of its replicas"


def test_every_quirk_is_valid() -> None:
    for scenario in SCENARIOS:
        options = dict(zip(scenario.options[::2], scenario.options[1::2], strict=True))
        assert scenario.kind == "right" or parse(options["--quirk"])


def test_scenarios_cover_all_apis_and_clients() -> None:
    names = Counter(scenario.name for scenario in SCENARIOS)
    assert not [name for name, count in names.items() if count > 1]
    assert len(names) >= 400
    for api in APIS:
        assert schemas.api_by_name(api.name)
        clients = {scenario.client for scenario in SCENARIOS if scenario.api == api.name}
        assert clients == {client for row in APIS if row.name == api.name for client in row.workloads}
    assert {scenario.client for scenario in SCENARIOS} == set(CLIENTS)


@pytest.mark.parametrize(
    "scenario", [scenario for scenario in SCENARIOS if scenario.api], ids=lambda scenario: scenario.name
)
def test_vague_report_lacks_all_facts(scenario: Scenario) -> None:
    assert len(missing_facts(scenario, report(0, "something went wrong hint: call us"))) == 3
    assert "who" not in missing_facts(scenario, report(0, "ask the broker, the client and your acl: hint: they know"))


def test_blaming_a_missing_login_for_a_closed_connection_is_rejected() -> None:
    close = Scenario("Metadata", "close", "", "java", "consume", ())
    valid_text = "the server closed the connection upon Metadata hint: see its log"
    assert missing_facts(close, report(0, valid_text)) == ()
    assert len(missing_facts(close, report(0, f"{valid_text}; it may require SASL"))) == 3


@pytest.mark.parametrize(
    ("reports", "result", "missing"),
    [
        ([report(11, FULL_REPORT)], "first", ()),
        ([report(11, "Produce got NOT_ENOUGH_REPLICAS 9 times")], "never", ("who",)),
        ([report(11, "the leader moved", "S008"), report(12, FULL_REPORT)], "later", ("API", "error", "who")),
        ([report(11, "it took 2 s", "C012"), report(12, FULL_REPORT)], "first", ()),  # information ranks after warnings
        ([report(9, "before the fault", "S008"), report(12, FULL_REPORT)], "first", ()),
        ([report(22, FULL_REPORT)], "later", ("API", "error", "who")),
        ([], "never", ("API", "error", "who")),
    ],
)
def test_only_the_first_report_is_judged(reports: list[Report], result: str, missing: tuple[str, ...]) -> None:
    outcome = judge(PRODUCE, reports, len(reports), 10.0, {"C012": "info"})
    assert (outcome.result, outcome.lacks) == (result, missing)


def test_report_after_the_live_output_counts_as_later() -> None:
    assert judge(PRODUCE, [report(11, FULL_REPORT)], 0, 10.0, {}).result == "later"
    assert judge(PRODUCE, [report(11, FULL_REPORT)], 1, None, {}).result == "unreached"


def test_run_without_a_fault_is_quiet() -> None:
    assert judge(FAULTLESS, [report(1, "", "C012")], 1, None, {"C012": "info"}).result == "quiet"
    assert judge(FAULTLESS, [report(1, "")], 1, None, {"C012": "info"}).result == "alarm"


def test_screen_parses_its_output_into_reports() -> None:
    screen = Screen(
        iter(
            """\
built-in Kafka 4.4.0: connect clients with bootstrap.servers=localhost:1
09:43:42.686     #1 < Metadata v4 #72                 110 B    426 us  orders[0]
                      S008 stale-metadata-served  Metadata names broker 1
                           hint: check that both are connected
                      L003 field-misplaced  throttle_time_ms
09:43:43.686     #1 ! C004 never-answered  no answer to Heartbeat
                             hint: answer it
09:43:44.686     #4 ! stall join-loop  group shop: it has joined 9 times
""".splitlines(keepends=True)
        )
    )
    screen.join()
    assert [(entry.code, bool(entry.frame)) for entry in screen.reports] == [
        ("S008", True), ("L003", True), ("C004", False), ("stall", False),
    ]  # fmt: skip
    assert str(screen.reports[0]).endswith("Metadata names broker 1 hint: check that both are connected")
    assert str(screen.reports[2]).endswith("no answer to Heartbeat hint: answer it")
