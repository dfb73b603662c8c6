"""Every rule's page: its parts are there, its examples fire it, and what looks alike stays silent."""

import inspect
import re
from contextlib import nullcontext

import pytest

from dissectors import rules
from dissectors.hexdump import unhex
from tests import unreleased_schemas
from tests.kproxy.stories import findings

#: Rules about requests that no release has yet.
_UNRELEASED = {"V021": unreleased_schemas.header_v3}

_BLOCK = re.compile(r"```(hex request|hex response|story)\n(.*?)```", re.DOTALL)
_SECTION = re.compile(r"^## (.+)$", re.MULTILINE)


def stories(page: str, section: str) -> list[str]:
    """The stories of a section. Blocks of hex are told one after the other, as one."""
    parts = dict(zip(*[iter(_SECTION.split(inspect.cleandoc(page))[1:])] * 2, strict=True))
    blocks = _BLOCK.findall(parts.get(section, ""))
    lines = [f"{'>' if kind == 'hex request' else '<'} hex {unhex(block).hex()}"
             for kind, block in blocks if kind != "story"]  # fmt: skip
    return [block for kind, block in blocks if kind == "story"] + (["\n".join([*lines, "close"])] if lines else [])


@pytest.mark.parametrize("rule", rules.rules(), ids=lambda rule: rule.code)
def test_the_examples_on_the_page_fire_the_rule(rule: rules.Rule) -> None:
    told = stories(rule.page, "Example")
    assert told
    with _UNRELEASED.get(rule.code, nullcontext)():
        for story in told:
            assert findings(story, rule.code), story


@pytest.mark.parametrize("rule", rules.rules(), ids=lambda rule: rule.code)
def test_what_looks_alike_stays_silent(rule: rules.Rule) -> None:
    told = stories(rule.page, "Looks alike")
    assert told
    with _UNRELEASED.get(rule.code, nullcontext)():
        for story in told:
            assert not findings(story, rule.code), story


@pytest.mark.parametrize("rule", rules.rules(), ids=lambda rule: rule.code)
def test_the_page_has_its_parts(rule: rules.Rule) -> None:
    for part in ("## Why it matters", "## Usual cause", "## Example", "## Looks alike", "## Sources", "https://"):
        assert part in rule.page
    assert re.fullmatch(r"[LVCRPSGTQHEXMK]\d{3}", rule.code)
    assert rule.page.startswith(("Checks ", "Reports ", "Reports,"))


def test_codes_and_names_are_unique() -> None:
    known = rules.rules()
    assert len({rule.code for rule in known}) == len({rule.name for rule in known}) == len(known)


def test_right_frames_are_silent() -> None:
    assert not findings("""
        > Metadata v9 {"topics": [{"name": "a"}]}
        > ApiVersions v3 {"client_software_name": "x", "client_software_version": "1"}
        < {"brokers": [{"node_id": 1, "host": "10.0.0.1", "port": 9092}], "topics": [{"name": "a"}]}
        < {"api_keys": [{"api_key": 3, "max_version": 9}, {"api_key": 18, "max_version": 3}]}
    """)


def test_a_fallback_answer_to_a_version_too_new_is_right() -> None:
    # KIP-511: error 35, written as version 0
    assert not findings("""
        > ApiVersions v4 {"client_software_name": "x", "client_software_version": "1"}
        < as ApiVersions v0 {"error_code": 35}
    """)


def test_a_finding_points_at_its_bytes() -> None:
    frame = unhex("00 00 00 06  00 00 00 07  00 00")
    [finding] = findings(f"< hex {frame.hex()}", "C001")
    assert frame[slice(*finding.span)] == unhex("00 00 00 07")


def test_a_cause_is_told_once_and_then_counted() -> None:
    again = "< hex 00 00 00 06  00 00 00 07  00 00\n"
    assert len(findings(3 * again, "C001")) == 1


def test_registering_a_code_twice_is_an_error() -> None:
    [known, *_] = rules.rules()
    with pytest.raises(ValueError, match=f"rule {known.code} is registered twice"):
        rules.rule(known.code, severity=known.severity, events=(), since="0.1")(known.check)
