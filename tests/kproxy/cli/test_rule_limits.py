"""Limits of rules: --rule, [rules.CODE] in the configuration file, and the pages that list them."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from dissectors.limits import Limit
from dissectors.trackers.in_flight import LATE_AFTER
from kproxy.cli import COMMANDS, config_file, relay
from kproxy.errors import UserError
from kproxy.inspection.inspector import Inspector
from kproxy.live.options import InspectorOptions
from kproxy.outputs.finding_selection import Selection
from kproxy.outputs.line_outputs import OutputOptions
from kproxy.outputs.rule_limits import parse_limits
from kproxy.outputs.rulebook import entries
from kproxy.proxy.tap_messages import Hello
from kproxy.trace.lines import Detail, FindingLine
from tests.kproxy.cli.conftest import Run
from tests.kproxy.stories import StoryPlayer


def test_parses_limits_with_units() -> None:
    assert parse_limits(["C020:wait=500ms"]) == {LATE_AFTER: 0.5}
    assert parse_limits(["request-waits:wait=2m"]) == {LATE_AFTER: 120}
    assert parse_limits(["C020:wait=7", "c020: wait = 8s"]) == {LATE_AFTER: 8}


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("C020", "--rule C020: use CODE:LIMIT=VALUE, e.g. C020:wait=5s"),
        ("C020:wait", "--rule C020:wait: use CODE:LIMIT=VALUE, e.g. C020:wait=5s"),
        ("C020:weight=5", "--rule C020:weight=5: C020 has no limit 'weight'; it has wait"),
        ("C020:wait=long", "--rule C020:wait=long: invalid wait 'long': use 0.1s to 86400s, e.g. 5s or 500ms"),
        ("C020:wait=5kg", "--rule C020:wait=5kg: invalid wait '5kg': use 0.1s to 86400s, e.g. 5s or 500ms"),
        ("C020:wait=nan", "--rule C020:wait=nan: invalid wait 'nan': use 0.1s to 86400s, e.g. 5s or 500ms"),
        ("C020:wait=-1", "--rule C020:wait=-1: invalid wait '-1': use 0.1s to 86400s, e.g. 5s or 500ms"),
        ("C001:wait=5", "--rule C001:wait=5: C001 has no limits; kproxy rules C001 has its page"),
        ("C999:wait=5", "--rule C999:wait=5: unknown rule"),
    ],
)
def test_invalid_limit_is_reported_in_one_sentence(text: str, sentence: str) -> None:
    with pytest.raises(UserError) as raised:
        parse_limits([text])
    assert str(raised.value).startswith(sentence)


@pytest.mark.parametrize(
    ("unit", "text", "value"),
    [("%", "90%", 90), ("%", "12.5", 12.5), ("bytes", "64K", 65536), ("bytes", "1M", 1 << 20), ("records", "3", 3)],
)
def test_parses_values_of_every_unit(unit: str, text: str, value: float) -> None:
    assert Limit("most", 1, unit, "").parse(text) == value


@pytest.mark.parametrize(("unit", "text"), [("%", "101%"), ("records", "2.5"), ("records", "3s"), ("bytes", "inf")])
def test_rejects_values_that_do_not_fit_the_unit(unit: str, text: str) -> None:
    with pytest.raises(ValueError, match="use 1"):
        Limit("most", 1, unit, "").parse(text)


def test_every_limit_accepts_its_own_default() -> None:
    limits = [limit for entry in entries() for limit in entry.limits]
    assert limits
    for limit in limits:
        assert limit.parse(limit.text(limit.default)) == limit.default, limit
    assert len(set(limits)) == len(limits)  # a limit belongs to one rule


def expand(file: Path, config: str, *words: str) -> list[str]:
    file.write_text(config)
    return config_file.expand([f"--config-file={file}", *words], relay.declare, COMMANDS)[: -1 - len(words)]


def test_configuration_file_sets_limits(tmp_path: Path) -> None:
    config = '[rules.C020]\nwait = "30s"\n[rules.request-waits]\nwait = 7'
    assert expand(tmp_path / "a.toml", config, "--rule=C020:wait=8") == ["--rule=C020:wait=30s",
                                                                        "--rule=request-waits:wait=7"]  # fmt: skip


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("rules = 3", "rules takes a table for each rule, e.g. [rules.C020]"),
        ("[rules]\nC020 = 3", "rules takes a table for each rule, e.g. [rules.C020]"),
        ("[rules.C020]\nwait = true", "[rules.C020] wait takes a number or text with a unit, not True"),
    ],
)
def test_rejects_an_invalid_table_in_the_configuration_file(tmp_path: Path, text: str, sentence: str) -> None:
    with pytest.raises(UserError, match=r".*") as raised:
        expand(tmp_path / "a.toml", text)
    assert str(raised.value).endswith(sentence)


def test_page_of_a_rule_lists_its_limits(kproxy: Run) -> None:
    assert "| `wait` | 5s | s | a request waits this much longer" in kproxy("rules", "C020").stdout
    page = json.loads(kproxy("rules", "--json", "C020").stdout)
    assert [(limit["name"], limit["default"], limit["unit"]) for limit in page["limits"]] == [("wait", 5, "s")]


def test_invalid_limit_is_a_usage_error(kproxy: Run) -> None:
    for words in (["dissect", "--rule=C020:wait=no", "none.pcap"],
                  ["--listen=0", "--upstream=localhost:1", "--rule=C020:wait=no"]):  # fmt: skip
        result = kproxy(*words)
        assert result.returncode == 2
        assert "invalid wait 'no': use 0.1s" in result.stderr


WAITS = """
> Metadata v8 {"topics": []}
< {}
> ListGroups v2 {}
+3s
"""


def finding_codes(inspector: Inspector) -> list[str]:
    player = StoryPlayer(inspector)
    player.play(WAITS)
    return [line.code for line in player.lines if isinstance(line, FindingLine)]


def test_limit_decides_whether_a_wait_is_reported() -> None:
    assert finding_codes(Inspector("story")) == []
    assert finding_codes(Inspector("story", limits={LATE_AFTER: 2})) == ["C020"]


@pytest.mark.parametrize("partial", [False, True])
def test_every_inspector_of_a_live_proxy_applies_the_limits(partial: bool) -> None:
    options = InspectorOptions(OutputOptions(None), Selection(), Detail.SUMMARY, limits={LATE_AFTER: 2})
    assert finding_codes(options.inspector(Hello(0, "node", 1, [], 0), partial=partial)) == ["C020"]


def test_dissect_applies_limits(kproxy: Run) -> None:
    capture = Path(__file__).parents[3] / "captures" / "advertised-address-not-dialled.pcap.gz"
    words = ("dissect", "--findings", "--json", "--select", "S009", capture)
    assert json.loads(kproxy(*words).stdout) == []
    [finding] = json.loads(kproxy(*words, "--rule=S009:responses=2,within=1h").stdout)
    assert finding["code"] == "S009"
