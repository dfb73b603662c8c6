"""Limits of rules that users set: ``--rule 'C018:connections=50,within=60s'``."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Final

from kproxy.errors import UserError

if TYPE_CHECKING:
    from dissectors.limits import Limit
    from kproxy.outputs.rulebook import RulebookEntry

OPTION: Final = "--rule"


def parse_limits(texts: Iterable[str]) -> dict[Limit, float]:
    """Return the values of limits; later values replace earlier ones.

    Raises:
        UserError: A rule or limit is unknown, or a value is invalid.
    """
    return {limit: value for text in texts for limit, value in _parse_rule_limits(text)}


def _parse_rule_limits(text: str) -> Iterable[tuple[Limit, float]]:
    from kproxy.outputs import rulebook  # it imports all rules

    name, _, settings = text.partition(":")
    rule = rulebook.find(name.strip())
    if rule is None:
        raise UserError(f"{OPTION} {text}: {rulebook.unknown_rule_message(name)}")
    if not rule.limits:
        raise UserError(f"{OPTION} {text}: {rule.code} has no limits; kproxy rules {rule.code} has its page")
    for setting in settings.split(","):
        limit_name, equals, value = setting.partition("=")
        if not equals:
            raise UserError(f"{OPTION} {text}: use CODE:LIMIT=VALUE, e.g. {_example_setting(rule)}")
        limit = next((limit for limit in rule.limits if limit.name == limit_name.strip().lower()), None)
        if limit is None:
            limit_names = ", ".join(limit.name for limit in rule.limits)
            raise UserError(f"{OPTION} {text}: {rule.code} has no limit {limit_name.strip()!r}; it has {limit_names}")
        try:
            yield limit, limit.parse(value)
        except ValueError as error:
            raise UserError(f"{OPTION} {text}: invalid {limit.name} {value.strip()!r}: {error}") from None


def _example_setting(rule: RulebookEntry) -> str:
    limit = rule.limits[0]
    return f"{rule.code}:{limit.name}={limit.text(limit.default)}"
