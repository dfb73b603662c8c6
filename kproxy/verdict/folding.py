"""Finds causes that are consequences of others, and are therefore listed below them."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from itertools import islice
from typing import Final

from dissectors.findings import Severity
from kproxy.verdict.cause import Cause

#: Code -> codes, or families, of findings that explain it on the same connection or in the same group. A rule that
#: knows little reports a hang early, and a rule that knows more reports it later.
EXPLAINED_BY: Final[Mapping[str, tuple[str, ...]]] = {
    "C002": ("C004", "C020"),
    "C004": ("C021", "C023", "G001", "G002", "G004", "M"),
    "C012": ("C004", "C020", "C023", "G001", "G002", "G004"),
    "C013": ("C015", "C022", "L", "M", "V007", "X"),
    "C015": ("C022", "X010"),
    "C017": ("C013", "C015", "C022", "L", "M", "V", "X"),
    "C020": ("C004", "C006", "C007", "C021", "C023", "G001", "G002", "G004", "M"),
    "E002": ("E002", "T008"),
    "E005": ("S032", "S033", "S035", "S074", "S084", "T003"),
    "G001": ("S014",),
    "G003": ("S013",),
    "G005": ("S078",),
    "G006": ("S019",),
    "G007": ("S013", "S019", "E", "L", "M", "S078"),
    "G008": ("S016", "L", "S078"),
    "G009": ("S015", "S020", "E", "L", "S064", "S078"),
    "G010": ("E", "S064"),
    "G011": ("S020", "E", "S078"),
    "G013": ("C001", "C004", "C020", "L", "M"),
    "G014": ("S022", "S023", "E"),
    "G015": ("E", "G008", "G009", "L", "S015", "S016", "S021", "S064", "S078"),
    "L034": ("L",),
    "S012": ("G008", "G015", "S016", "S078"),
    "S019": ("C004", "C020", "G013"),
    "S020": ("S078",),
    "S035": ("S084",),
    "T001": ("T002", "T005", "T006"),
    "T002": ("T005",),
    "T005": ("T003",),
    "X008": ("X013", "X020"),
}

#: Maximum number of causes, the most urgent ones, that are compared with a possible consequence.
_MAX_CANDIDATES: Final = 100
#: Findings about connections that a server closes. The client sends the request again on another connection, so the
#: findings are also linked by the request that they name.
_CLOSED: Final = frozenset({"C013", "C015", "C022", "V007"})
#: A producer, its coordinator and the consumers that wait for it are on different connections: findings of this family
#: are also linked by the producer that they name.
_TRANSACTIONS: Final = "T"
_PRODUCER: Final = re.compile(r"\bproducer \d+, epoch \d+")
#: Findings of the families above that break nothing by themselves.
_BYSTANDERS: Final = frozenset({"X005", "X009", "X019"})
#: A remark on the diagnosis of a frame, which has a finding of its own.
_ALTERNATIVES: Final = "L034"
#: A streak of refusals that lasts is reported once more, as an error.
_STREAK: Final = "E002"
_REFUSED: Final = re.compile(r"\d+ of \d+ (\w+ requests of .+? were refused with \w+)")


def explain(ranked: Sequence[Cause]) -> None:
    """Set `consequences` and `explained_by` of these causes, which are sorted by urgency."""
    candidates: dict[str, list[Cause]] = {}
    parents: dict[Cause, Cause] = {}
    relevant = [cause for cause in ranked if cause.finding.severity != Severity.INFO]
    for cause in (*relevant, *(info for info in ranked if info.finding.code == _ALTERNATIVES)):
        code = cause.finding.code
        if (codes := EXPLAINED_BY.get(code)) is None:
            continue
        if code not in candidates:
            causes = (
                cause
                for cause in relevant
                if cause.finding.code.startswith(codes) and cause.finding.code not in _BYSTANDERS
            )
            candidates[code] = list(islice(causes, _MAX_CANDIDATES))
        parent = next(
            (
                candidate
                for candidate in candidates[code]
                if candidate is not cause and _belongs_together(cause, candidate)
            ),
            None,
        )
        if parent is not None:
            parents[cause] = parent
    for cause in parents:
        if (root := _root(cause, parents)) is not cause:
            cause.explained_by = root
            root.consequences.append(cause)


def _belongs_together(cause: Cause, other: Cause) -> bool:
    """Whether two causes meet, or name the same transaction, or the same request that makes a server close."""
    codes = cause.finding.code, other.finding.code
    if set(codes) == {_STREAK}:
        refused, other_refused = (_REFUSED.match(streak_cause.finding.message) for streak_cause in (cause, other))
        is_later = other.finding.severity == Severity.ERROR != cause.finding.severity
        return is_later and refused is not None and other_refused is not None and refused[1] == other_refused[1]
    if _ALTERNATIVES in codes:
        return cause.place.api == other.place.api and cause.meets(other)
    if cause.meets(other):
        return True
    if _CLOSED.issuperset(codes):
        return not cause.requests.isdisjoint(other.requests)
    if not all(code.startswith(_TRANSACTIONS) for code in codes):
        return False
    producer, other_producer = (_PRODUCER.search(named_cause.finding.message) for named_cause in (cause, other))
    return producer is not None and other_producer is not None and producer[0] == other_producer[0]


def _root(cause: Cause, parents: Mapping[Cause, Cause]) -> Cause:
    """Return the unexplained cause at the end of the chain of parents, or the cause itself if the chain is circular."""
    chain = [cause]
    while (parent := parents.get(chain[-1])) is not None:
        if parent in chain:
            return cause
        chain.append(parent)
    return chain[-1]
