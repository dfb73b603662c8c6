"""Search: the readings of a frame under the candidates, the likeliest first."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from dissectors.diagnosis.candidates import SECOND, SECOND_MOST, Candidate, in_one_element, singles
from dissectors.diagnosis.misfit import Misfit, Spent, TooDear
from dissectors.diagnosis.reading import Reading
from dissectors.edits import LOOSE, Edit
from dissectors.layout import Layout

#: The bound of the work for a frame, in fields read (a microsecond or less each); of large frames only the beginning
#: is read, which shows how they depart, and two edits at once are hardly tried.
WORK = 150_000
LARGE = 64 << 10
WORK_LARGE = 25_000
HORIZON = 4_000

#: How much cheaper the beginning must be under an edit, where the right layout fits it too.
BETTER = 0.8

#: What a candidate costs beside the fields that are read: to try it, and to make it.
TRY = 8
MAKE = 60

#: Bits behind the best reading within which another one is kept as a rival.
WINDOW = 24.0

#: Bits that a kind of edit is likelier that the same peer was seen to make.
USUAL = 3.0

#: What bytes without a field cost each, and what it costs that there are any, or that some are missing.
LOOSE_BYTE = 8.0
CUT_BYTE = 6.0
TRAILING = 16.0
TRUNCATED = 24.0

#: What a frame that reads well costs at most, at all and for each byte: a byte of Kafka holds few bits.
GOOD = 60.0
GOOD_BYTE = 6.0

#: What it costs that the right layout reads on only by passing over something odd, and each byte from there on.
ODD = 40.0
ODD_BYTE = 8.0


@dataclass(frozen=True, slots=True)
class Found:
    """A reading that fits: its edit (None is the right layout), the layout, and its cost with the prior, in bits."""

    edit: Edit | None
    layout: Layout
    cost: float
    prior: float = 0.0


class Search:
    """The readings of one frame.

    Args:
        frame: Length prefix included.
        layout: The right one, as `dissectors.edits.frame_layout` makes it.
        version: Of the body.
        reads: Whether the right layout reads the frame to its last byte.
        left: Bytes behind its last field, where it reads but for those.
        most: The prior of the rarest edits to try, in bits.
        elements: Elements of the body's arrays, by name, one of which alone may be written wrongly.
        words: Strings that the request or the connection has named.
        usual: Kinds of edits that the same peer was seen to make.
    """

    def __init__(
        self,
        frame: bytes,
        layout: Layout,
        version: int,
        *,
        reads: bool,
        left: int = 0,
        most: float = float("inf"),
        elements: dict[str, list[int]] | None = None,
        words: frozenset[bytes] = frozenset(),
        usual: frozenset[str] = frozenset(),
    ) -> None:
        self._reads, self._left, self._most = reads, left, most
        self._elements = elements or {}
        self._kept: tuple[Candidate, ...] = ()  # the reading remembers fields by their id: they must live as long
        self._usual = usual
        self._layout = layout
        self._version = version
        self._size = len(frame)
        self._reading = Reading(frame, words, WORK if self._size < LARGE else WORK_LARGE)
        self._horizon = HORIZON if self._size < LARGE else HORIZON // 4
        self._prefix = 0.0  # what the right layout would cost, where it was read well so far but not to the end
        self._found: list[Found] = []
        self._best = float("inf")
        #: What the right layout costs, if it reads to the last byte.
        self.right: float | None = None
        self._depths: list[tuple[int, Candidate]] = []

    def run(self) -> list[Found]:
        """What fits, the likeliest first; never empty: bytes may always trail, or be cut off."""
        self._as_it_should_be()
        self._try(singles(self._layout, self._version, self._most))
        if self.right is None and not self._reads and not self._convincing():
            if self._size < LARGE:
                self._in_one_element()
            self._doubles()
        self._found.sort(key=lambda found: found.cost)
        return [found for found in self._found if found.cost <= self._best + WINDOW]

    def _as_it_should_be(self) -> None:
        reading, size = self._reading, self._size
        try:
            end, cost = reading.read(self._layout, limit=float("inf"), horizon=self._horizon)
        except Spent as spent:
            self._prefix = self._extrapolated(spent.at)
            if self._reads:
                self.right = self._prefix
                self._keep(None, self._layout, self.right)
            else:
                self._loose(spent.at)
        except Misfit as misfit:
            if self._reads:  # with something odd in it: a null, a mark of presence that is none
                self._keep(None, self._layout, reading.cost + ODD + ODD_BYTE * (size - misfit.at))
            else:
                self._loose(misfit.at)
        else:
            if end == size:
                self.right = cost
                self._keep(None, self._layout, cost)
            else:
                self._left = size - end
                self._loose(end)

    def _extrapolated(self, at: int) -> float:
        return self._reading.cost * (self._size - 4) / max(at - 4, 1)

    def _loose(self, at: int) -> None:
        """What may always be: bytes trail, or the frame is cut off."""
        cost = self._reading.cost
        if self._left:
            edit = Edit.of("trailing_bytes", "*", bytes=self._left)
            self._keep(edit, self._layout, cost + TRAILING + LOOSE_BYTE * (self._size - at))
        else:
            edit = Edit.of("truncated", "*", bytes=1)
            self._keep(edit, self._layout, cost + TRUNCATED + CUT_BYTE * (self._size - at))

    def _keep(self, edit: Edit | None, layout: Layout, cost: float, prior: float = 0.0) -> None:
        self._found.append(Found(edit, layout, cost, prior))
        self._best = min(self._best, cost)

    def _convincing(self) -> bool:
        """Whether one edit explains the frame so well that two need not be tried."""
        costs = [found.cost for found in self._found if found.edit is None or found.edit.kind not in LOOSE]
        return bool(costs) and min(costs) < GOOD + GOOD_BYTE * self._size

    def _try(self, candidates: Iterable[Candidate], first: Edit | None = None, more: float = 0.0) -> None:
        reading = self._reading
        for candidate in candidates:
            prior = candidate.prior + more - (USUAL if candidate.edit.kind in self._usual else 0)
            reading.work -= TRY
            try:
                end, cost = reading.read(candidate.layout, limit=self._best + WINDOW - prior, horizon=self._horizon)
            except TooDear:
                continue
            except Spent as spent:
                if reading.work <= 0:
                    return
                # So far it fits; the rest will cost what the beginning did.
                end, cost = self._size, self._extrapolated(spent.at)
                if self._prefix and cost > BETTER * self._prefix:
                    continue  # the right layout fits as well so far: what departs is further on
            except Misfit as misfit:
                if first is None:
                    self._depths.append((misfit.at, candidate))
                continue
            if end == self._size:
                edit = candidate.edit if first is None else first.followed_by(candidate.edit)
                self._keep(edit, candidate.layout, cost + prior, prior)

    def _in_one_element(self) -> None:
        self._reading.work -= MAKE * len(singles(self._layout, self._version))
        self._kept = in_one_element(self._layout, self._version, self._elements)
        self._try(self._kept)

    def _doubles(self) -> None:
        for base in self._bases():
            second = singles(base.layout, self._version, SECOND_MOST)
            self._reading.work -= MAKE * len(second)
            self._try(second, base.edit, base.prior + SECOND)
            if self._reading.work <= 0:
                return

    def _bases(self) -> Iterator[Candidate]:
        """The edits on top of which another one is worth a try: of the whole first, then those that read furthest."""
        whole = ("header_version", "flexibility", "body_version", "length_encoding", "length_off_by_one")
        candidates = singles(self._layout, self._version)
        yield from (each for each in candidates if each.edit.kind in whole and each.edit.field in ("*", "header"))
        self._depths.sort(key=lambda each: (-each[0], each[1].prior))
        for _, candidate in self._depths[:12]:
            if candidate.edit.kind not in whole or candidate.edit.field not in ("*", "header"):
                yield candidate
