"""Selects checks by their ids or the beginnings of their ids."""

from __future__ import annotations

from collections.abc import Iterable

from kproxy.errors import UserError
from kproxy.filters.errors import nearest
from kproxy.probe.check import Check, checks


def select(only: Iterable[str] = (), skip: Iterable[str] = (), prefix: str = "--") -> list[Check]:
    """Return the checks that `only` names (all if it is empty), except those that `skip` names.

    Args:
        only: Ids or their beginnings, comma-separated: ``framing``, ``Metadata/v9``.
        skip: Also ids or their beginnings.
        prefix: The prefix of the two arguments' names in messages.

    Raises:
        UserError: A name matches no check.
    """
    skipped_ids = _find_matching_ids(f"{prefix}skip", skip)
    only = list(only)
    selected_ids = _find_matching_ids(f"{prefix}only", only) if only else {check.id for check in checks()}
    return [check for check in checks() if check.id in selected_ids - skipped_ids]


def _find_matching_ids(option: str, texts: Iterable[str]) -> set[str]:
    """Return the ids of the checks that an option names."""
    ids = [check.id for check in checks()]
    selected: set[str] = set()
    for name in (part.strip().lower() for text in texts for part in text.split(",") if part.strip()):
        matching_ids = {check_id for check_id in ids if _matches(check_id, name)}
        if not matching_ids:
            suggestion = nearest(name, {part for check_id in ids for part in (check_id, check_id.partition("/")[0])})
            raise UserError(
                f"{option} {name}: no such check; " + (f"did you mean {suggestion}?" if suggestion else "see --list")
            )
        selected |= matching_ids
    return selected


def _matches(check_id: str, name: str) -> bool:
    """Whether a name is the id or its first levels: ``metadata/v1`` matches ``Metadata/v1/2``, but not v10."""
    return f"{check_id.lower()}/".startswith(name.rstrip("/") + "/")
