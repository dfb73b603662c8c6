"""Which causes are consequences of others, and are therefore listed below them."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Final, Protocol, TypeVar

from kproxy.trace.lines import FindingEntry

#: Code -> codes, or families, of findings that explain it on the same connection or in the same group. A hang is
#: reported early by a rule that knows little, and later by one that knows more.
EXPLAINED_BY: Final[Mapping[str, tuple[str, ...]]] = {
    "C002": ("C004", "C020"),
    "C004": ("G001", "G002", "G004", "M"),
    "C012": ("C004", "C020", "G001", "G002", "G004"),
    "C013": ("C015", "C022", "L", "M", "V007", "X"),
    "C015": ("C022",),
    "C017": ("C013", "C015", "C022", "L", "M", "V", "X"),
    "C020": ("C004", "C006", "C007", "G001", "G002", "G004", "M"),
    "E005": ("S032", "S033", "S035", "S074"),
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
    "S012": ("G008", "G015", "S016", "S078"),
    "S019": ("C004", "C020", "G013"),
    "S020": ("S078",),
    "X008": ("X013",),
}

#: Findings about connections that a server closes. The client sends the request again on another connection, so they
#: are also linked by the request that they name.
_CLOSED: Final = frozenset({"C013", "C015", "C022", "V007"})
_REQUEST: Final = re.compile(r"\b[A-Z]\w+ v\d+\b")


class FoldableCause(Protocol):
    """A cause: its finding, and the connections and groups on which it was found."""

    @property
    def finding(self) -> FindingEntry: ...

    @property
    def scope(self) -> Collection[str]:
        """Connection ids and group ids."""


CauseT = TypeVar("CauseT", bound=FoldableCause)


def explanations(ranked: Sequence[CauseT]) -> dict[int, CauseT]:
    """By the place of a consequence in `ranked`: the cause that explains it, which is never a consequence itself."""
    parents: dict[int, int] = {}
    for place, cause in enumerate(ranked):
        explaining = EXPLAINED_BY.get(cause.finding.code)
        if explaining is None or cause.finding.severity == "info":
            continue
        for other_place, other in enumerate(ranked):
            if (
                other_place != place
                and other.finding.code.startswith(explaining)
                and other.finding.severity != "info"
                and (not set(cause.scope).isdisjoint(other.scope) or _close_upon_same_request(cause, other))
            ):
                parents[place] = other_place
                break
    return {place: ranked[_root(place, parents)] for place in parents if _root(place, parents) != place}


def _close_upon_same_request(cause: FoldableCause, other: FoldableCause) -> bool:
    codes = {cause.finding.code, other.finding.code}
    if not codes <= _CLOSED:
        return False
    request, same = (_REQUEST.search(each.finding.message) for each in (cause, other))
    return request is not None and same is not None and request[0] == same[0]


def _root(place: int, parents: Mapping[int, int]) -> int:
    seen = {place}
    while (above := parents.get(place)) is not None and above not in seen:
        seen.add(above)
        place = above
    return place


def folded(ranked: Iterable[CauseT]) -> list[tuple[CauseT, CauseT | None]]:
    """Causes in their order, each with its consequences right after it, and for these the cause that explains them."""
    causes = list(ranked)
    explained = explanations(causes)
    below: dict[int, list[CauseT]] = {}
    for place, parent in explained.items():
        below.setdefault(id(parent), []).append(causes[place])
    listed: list[tuple[CauseT, CauseT | None]] = []
    for place, cause in enumerate(causes):
        if place not in explained:
            listed.append((cause, None))
            listed += [(consequence, cause) for consequence in below.get(id(cause), ())]
    return listed
