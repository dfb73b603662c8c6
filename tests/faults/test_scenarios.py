"""The fault matrix itself: each scenario can be played, each fact can be missed."""

from __future__ import annotations

from collections import Counter

import pytest

from dissectors import schemas
from kproxy.broker.quirks import parse
from tests.faults.apis import APIS, CLIENTS
from tests.faults.expectations import lacking
from tests.faults.run import judge
from tests.faults.scenarios import Scenario, all_scenarios
from tests.faults.screen import Said, Screen

SCENARIOS = all_scenarios()
PRODUCE = Scenario("Produce", "error", "NOT_ENOUGH_REPLICAS", "librdkafka", "produce", ())
RIGHT = Scenario("", "right", "", "java", "consume", ())


def said(at: float, text: str, code: str = "S047") -> Said:
    return Said(at, code, f"{code} some-name  {text}")


NAMED = "Produce got NOT_ENOUGH_REPLICAS 9 times hint: start the brokers of its replicas"


def test_every_quirk_is_valid() -> None:
    for scenario in SCENARIOS:
        options = dict(zip(scenario.options[::2], scenario.options[1::2], strict=True))
        assert scenario.kind == "right" or parse(options["--quirk"])


def test_there_are_enough_of_them() -> None:
    names = Counter(scenario.name for scenario in SCENARIOS)
    assert not [name for name, count in names.items() if count > 1]
    assert len(names) >= 400
    for api in APIS:
        assert schemas.api_by_name(api.name)
        clients = {scenario.client for scenario in SCENARIOS if scenario.api == api.name}
        assert clients == {client for row in APIS if row.name == api.name for client in row.workloads}
    assert {scenario.client for scenario in SCENARIOS} == set(CLIENTS)


@pytest.mark.parametrize("scenario", [scenario for scenario in SCENARIOS if scenario.api], ids=lambda each: each.name)
def test_a_sentence_about_nothing_has_no_fact(scenario: Scenario) -> None:
    assert len(lacking(scenario, said(0, "something went wrong hint: call us"))) == 3
    assert "who" not in lacking(scenario, said(0, "ask the broker, the client and your acl: hint: they know"))


def test_a_closed_connection_is_not_said_to_want_a_login() -> None:
    close = Scenario("Metadata", "close", "", "java", "consume", ())
    right = "the server closed the connection upon Metadata hint: see its log"
    assert lacking(close, said(0, right)) == ()
    assert len(lacking(close, said(0, f"{right}; it may require SASL"))) == 3


@pytest.mark.parametrize(
    ("lines", "result", "lacks"),
    [
        ([said(11, NAMED)], "first", ()),
        ([said(11, "Produce got NOT_ENOUGH_REPLICAS 9 times")], "never", ("who",)),
        ([said(11, "the leader moved", "S008"), said(12, NAMED)], "later", ("API", "error", "who")),
        ([said(11, "it took 2 s", "C012"), said(12, NAMED)], "first", ()),  # information comes after warnings
        ([said(9, "before the fault", "S008"), said(12, NAMED)], "first", ()),
        ([said(22, NAMED)], "later", ("API", "error", "who")),
        ([], "never", ("API", "error", "who")),
    ],
)
def test_what_is_said_first_counts(lines: list[Said], result: str, lacks: tuple[str, ...]) -> None:
    outcome = judge(PRODUCE, lines, len(lines), 10.0, {"C012": "info"})
    assert (outcome.result, outcome.lacks) == (result, lacks)


def test_what_is_said_at_the_end_is_later() -> None:
    assert judge(PRODUCE, [said(11, NAMED)], 0, 10.0, {}).result == "later"
    assert judge(PRODUCE, [said(11, NAMED)], 1, None, {}).result == "unreached"


def test_a_right_run_is_quiet() -> None:
    assert judge(RIGHT, [said(1, "", "C012")], 1, None, {"C012": "info"}).result == "quiet"
    assert judge(RIGHT, [said(1, "")], 1, None, {"C012": "info"}).result == "alarm"


def test_the_screen_is_read_in_entries() -> None:
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
    assert [(said.code, bool(said.frame)) for said in screen.said] == [
        ("S008", True), ("L003", True), ("C004", False), ("stall", False),
    ]  # fmt: skip
    assert str(screen.said[0]).endswith("Metadata names broker 1 hint: check that both are connected")
    assert str(screen.said[2]).endswith("no answer to Heartbeat hint: answer it")
