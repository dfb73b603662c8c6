"""Every rule's page: it has all sections, its examples fire the rule, and its lookalikes do not."""

import inspect
import re
from contextlib import nullcontext

import pytest

from dissectors import rules
from dissectors.hexdump import unhex
from tests import unreleased_schemas
from tests.kproxy.stories import findings

#: Rules about requests that no Kafka release has yet, and the schemas that they need.
_UNRELEASED = {"V021": unreleased_schemas.header_v3}

_BLOCK = re.compile(r"```(hex request|hex response|story)\n(.*?)```", re.DOTALL)
_SECTION = re.compile(r"^## (.+)$", re.MULTILINE)


def page_stories(page: str, section: str) -> list[str]:
    """Return the stories of a section. Blocks of hex are joined into one story."""
    parts = dict(zip(*[iter(_SECTION.split(inspect.cleandoc(page))[1:])] * 2, strict=True))
    blocks = _BLOCK.findall(parts.get(section, ""))
    lines = [f"{'>' if kind == 'hex request' else '<'} hex {unhex(block).hex()}"
             for kind, block in blocks if kind != "story"]  # fmt: skip
    return [block for kind, block in blocks if kind == "story"] + (["\n".join([*lines, "close"])] if lines else [])


@pytest.mark.parametrize("rule", rules.rules(), ids=lambda rule: rule.code)
def test_examples_on_the_page_fire_the_rule(rule: rules.Rule) -> None:
    examples = page_stories(rule.page, "Example")
    assert examples
    with _UNRELEASED.get(rule.code, nullcontext)():
        for story in examples:
            assert findings(story, rule.code), story


@pytest.mark.parametrize("rule", rules.rules(), ids=lambda rule: rule.code)
def test_lookalikes_on_the_page_do_not_fire_the_rule(rule: rules.Rule) -> None:
    lookalikes = page_stories(rule.page, "Look-alikes")
    assert lookalikes
    with _UNRELEASED.get(rule.code, nullcontext)():
        for story in lookalikes:
            assert not findings(story, rule.code), story


@pytest.mark.parametrize("rule", rules.rules(), ids=lambda rule: rule.code)
def test_page_has_all_its_sections(rule: rules.Rule) -> None:
    for heading in ("## Why it matters", "## Usual cause", "## Example", "## Look-alikes", "## Sources", "https://"):
        assert heading in rule.page
    assert re.fullmatch(r"[LVCRPSGTQHEXMK]\d{3}", rule.code)
    assert rule.page.startswith(("Checks ", "Reports ", "Reports,"))


def test_codes_and_names_are_unique() -> None:
    registered = rules.rules()
    assert len({rule.code for rule in registered}) == len({rule.name for rule in registered}) == len(registered)


def test_valid_frames_have_no_findings() -> None:
    assert not findings("""
        > Metadata v9 {"topics": [{"name": "a"}]}
        > ApiVersions v3 {"client_software_name": "x", "client_software_version": "1"}
        < {"brokers": [{"node_id": 1, "host": "10.0.0.1", "port": 9092}], "topics": [{"name": "a"}]}
        < {"api_keys": [{"api_key": 3, "max_version": 9}, {"api_key": 18, "max_version": 3}]}
    """)


def test_version_0_response_to_a_too_new_version_is_valid() -> None:
    # KIP-511: error 35, written as version 0
    assert not findings("""
        > ApiVersions v4 {"client_software_name": "x", "client_software_version": "1"}
        < as ApiVersions v0 {"error_code": 35}
    """)


def test_finding_points_at_its_bytes() -> None:
    frame = unhex("00 00 00 06  00 00 00 07  00 00")
    [finding] = findings(f"< hex {frame.hex()}", "C001")
    assert frame[slice(*finding.span)] == unhex("00 00 00 07")


def test_repeated_cause_is_reported_once() -> None:
    stray_response = "< hex 00 00 00 06  00 00 00 07  00 00\n"
    assert len(findings(3 * stray_response, "C001")) == 1


def test_registering_a_code_twice_is_an_error() -> None:
    [first_rule, *_] = rules.rules()
    with pytest.raises(ValueError, match=f"rule {first_rule.code} is registered twice"):
        rules.rule(first_rule.code, severity=first_rule.severity, events=(), since="0.1")(first_rule.check)
