"""Search: the readings of a frame under the candidates, the likeliest first."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import NamedTuple

from dissectors.diagnosis.candidates import WHOLE, Choice, choices, seconds
from dissectors.diagnosis.checkpoints import Trace
from dissectors.diagnosis.costs import FrameReading
from dissectors.diagnosis.frame_layouts import Pair
from dissectors.diagnosis.misfit import Misfit, Spent, TooDear
from dissectors.diagnosis.proposals import Proposal
from dissectors.diagnosis.struct_edits import proposals_for
from dissectors.diagnosis.struct_reader import read_whole
from dissectors.edits import LOOSE, Edit
from dissectors.wire.layout import Layout

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

#: Bits that it costs that one element of several is written otherwise than the others.
ONE_ELEMENT = 6.0

#: Bits that a second edit costs beside its own.
SECOND = 8.0

#: Edits that read furthest, on top of which others are tried.
MOST_DEEP = 12

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

#: The edits of a whole frame on top of which another one is tried.
_KINDS = ("header_version", "flexibility", "body_version", "length_encoding", "length_off_by_one")


class _Base(NamedTuple):
    """What others are tried on top of: an edit (None is the right layout), its layouts, their reading, its prior."""

    edit: Edit | None
    pair: Pair
    trace: Trace
    prior: float


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
        self._usual = usual
        self._layout = layout
        self._proposals = proposals_for(layout.name, version)
        self._size = len(frame)
        self._pair = Pair.of(layout)
        self._frame = FrameReading(frame, words, WORK if self._size < LARGE else WORK_LARGE)
        self._horizon = HORIZON if self._size < LARGE else HORIZON // 4
        self._prefix = 0.0  # what the right layout would cost, where it was read well so far but not to the end
        self._found: list[tuple[float, float, Edit | None]] = []  # cost, prior and edit
        self._best = float("inf")
        #: What the right layout costs, if it reads to the last byte.
        self.right: float | None = None
        self._depths: list[tuple[int, float, Proposal, int | None]] = []

    def run(self) -> list[Found]:
        """What fits, the likeliest first; never empty: bytes may always trail, or be cut off."""
        with _uncollected():
            return self._run()

    def _run(self) -> list[Found]:
        base = _Base(None, self._pair, self._as_it_should_be(), 0.0)
        tried = choices(self._pair, self._proposals, self._most)
        self._try_all(base, tried)
        if self.right is None and not self._reads and not self._convincing():
            if self._size < LARGE:
                self._in_one_element(base, tried)
            self._doubles(tried)
        found = sorted(self._found, key=lambda found: found[0])
        return [
            Found(edit, self._layout if edit is None or edit.kind in LOOSE else edit.apply(self._layout), cost, prior)
            for cost, prior, edit in found
            if cost <= self._best + WINDOW
        ]

    def _as_it_should_be(self) -> Trace:
        frame, size = self._frame, self._size
        trace = Trace(frame, self._pair, float("inf"), self._horizon)
        if trace.end is not None:
            if trace.end == size:
                self.right = trace.cost
                self._keep(None, trace.cost)
            else:
                self._left = size - trace.end
                self._loose(trace.end)
            return trace
        assert trace.stopped is not None
        at = trace.stopped.at
        if isinstance(trace.stopped, Spent):
            self._prefix = self._extrapolated(at)
            if self._reads:
                self.right = self._prefix
                self._keep(None, self.right)
            else:
                self._loose(at)
        elif self._reads:  # with something odd in it: a null, a mark of presence that is none
            self._keep(None, frame.cost + ODD + ODD_BYTE * (size - at))
        else:
            self._loose(at)
        return trace

    def _extrapolated(self, at: int) -> float:
        return self._frame.cost * (self._size - 4) / max(at - 4, 1)

    def _loose(self, at: int) -> None:
        """What may always be: bytes trail, or the frame is cut off."""
        cost = self._frame.cost
        if self._left:
            edit = Edit.of("trailing_bytes", "*", bytes=self._left)
            self._keep(edit, cost + TRAILING + LOOSE_BYTE * (self._size - at))
        else:
            edit = Edit.of("truncated", "*", bytes=1)
            self._keep(edit, cost + TRUNCATED + CUT_BYTE * (self._size - at))

    def _keep(self, edit: Edit | None, cost: float, prior: float = 0.0) -> None:
        self._found.append((cost, prior, edit))
        self._best = min(self._best, cost)

    def _convincing(self) -> bool:
        """Whether one edit explains the frame so well that two need not be tried."""
        costs = [cost for cost, _, edit in self._found if edit is None or edit.kind not in LOOSE]
        return bool(costs) and min(costs) < GOOD + GOOD_BYTE * self._size

    def _try(self, base: _Base, choice: Choice, element: int | None = None) -> None:
        """Read the frame under a choice on top of a base; where `element` is given, in that one of an array alone."""
        prior, proposal, spot = choice
        if element is not None:
            prior += ONE_ELEMENT
        rarity = prior + base.prior - (USUAL if proposal.kind in self._usual else 0)
        frame, limit = self._frame, self._best + WINDOW - rarity
        frame.work -= TRY
        try:
            if spot is None:
                frame.begin(limit, self._horizon)
                end = read_whole(frame, *base.pair.under(proposal))
            elif element is None:
                end = base.trace.resume(spot, proposal, limit)
            else:
                end = base.trace.resume_in_one(spot, proposal, element, limit)
            cost = frame.cost
        except TooDear:
            return
        except Spent as spent:
            if frame.work <= 0:
                return  # for all of the frame, not for this reading
            # So far it fits; the rest will cost what the beginning did.
            end, cost = self._size, self._extrapolated(spent.at)
            if self._prefix and cost > BETTER * self._prefix:
                return  # the right layout fits as well so far: what departs is further on
        except Misfit as misfit:
            if base.edit is None:
                self._depths.append((misfit.at, prior, proposal, element))
            return
        if end == self._size:
            edit = _edit(proposal, element)
            self._keep(edit if base.edit is None else base.edit.followed_by(edit), cost + rarity, rarity)

    def _try_all(self, base: _Base, wanted: list[Choice]) -> None:
        for choice in wanted:
            if self._frame.work > 0:
                self._try(base, choice)

    def _in_one_element(self, base: _Base, tried: list[Choice]) -> None:
        for choice in tried:
            spot = choice[2]
            for element in self._elements.get(spot.path[0].removesuffix("[]"), ()) if spot and spot.outer else ():
                if self._frame.work > 0:
                    self._try(base, choice, element)

    def _doubles(self, tried: list[Choice]) -> None:
        known = frozenset(id(spot.layout) for _, _, spot in tried if spot is not None)
        done: dict[tuple[int, int], Pair] = {}
        for proposal, element, prior in self._bases(tried):
            edit, is_whole = _edit(proposal, element), proposal.field in WHOLE
            pair = self._pair.under(proposal) if is_whole else self._pair.changed(edit)
            if (key := (id(pair.header), id(pair.body))) in done:
                continue  # several versions are alike
            done[key] = pair  # as long as it lives, no other one has its id
            more = prior + SECOND
            base = _Base(edit, pair, Trace(self._frame, pair, self._best + WINDOW - more, self._horizon), more)
            second = seconds(pair, self._proposals, base.trace, known, proposal)
            self._frame.work -= MAKE * len(second)
            self._try_all(base, second)
            if self._frame.work <= 0:
                return

    def _bases(self, tried: list[Choice]) -> Iterator[tuple[Proposal, int | None, float]]:
        """The edits on top of which another one is worth a try: of the whole first, then those that read furthest."""
        for prior, proposal, _ in tried:
            if proposal.kind in _KINDS and proposal.field in WHOLE:
                yield proposal, None, prior
        self._depths.sort(key=lambda each: (-each[0], each[1]))
        for _, prior, proposal, element in self._depths[:MOST_DEEP]:
            if proposal.kind not in _KINDS or proposal.field not in WHOLE:
                yield proposal, element, prior


@contextmanager
def _uncollected() -> Iterator[None]:
    """Keep the collector from going through all that a search tries: nothing of that is in a cycle."""
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()


def _edit(proposal: Proposal, element: int | None) -> Edit:
    edit = proposal.edit
    return edit if element is None else replace(edit, field=edit.field.replace("[]", f"[{element}]", 1))
