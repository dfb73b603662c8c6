"""Read a frame under candidate edits, most probable first."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

from dissectors.collector import collector_disabled
from dissectors.diagnosis.candidates import WHOLE_FRAME_FIELDS, WHOLE_PART_FIELDS, Choice, choices, second_choices
from dissectors.diagnosis.checkpoints import Trace
from dissectors.diagnosis.costs import FrameReading
from dissectors.diagnosis.elements import Element, Elements
from dissectors.diagnosis.frame_layouts import FrameLayouts
from dissectors.diagnosis.implausible_values import (
    MAX_IMPLAUSIBILITY,
    SMALL_FRAME_BYTES,
    UNLIKELY_BITS,
    frame_implausibility,
)
from dissectors.diagnosis.misfit import Misfit, TooExpensive, WorkExhausted
from dissectors.diagnosis.proposals import Proposal, other_api_proposals
from dissectors.diagnosis.struct_edits import proposals_for
from dissectors.diagnosis.struct_reader import read_frame
from dissectors.edits import LOOSE_KINDS, Edit, EditError
from dissectors.wire.layout import Layout
from dissectors.wire.walk import walk

#: The most fields read per frame (a microsecond or less each). Only the beginning of a large frame is read, which is
#: enough to show how it deviates, and few pairs of edits are tried on it.
MAX_WORK = 150_000
LARGE_FRAME_BYTES = 64 << 10
MAX_WORK_LARGE = 25_000
HORIZON = 4_000

#: If the correct layout also fits the beginning of a frame, an edit may cost at most this share of its cost.
BETTER_SHARE = 0.8

#: The work for trying a candidate, and for creating it, in addition to the fields read.
TRIAL_WORK = 8
CREATION_WORK = 60

#: The cost, in bits, of writing one element differently from the others, and of forgetting its tag buffer: separate
#: code may write the fields of a special case, where no serializer adds the tag buffer.
ONE_ELEMENT_COST = 6.0
ONE_TAG_BUFFER_COST = 1.0

#: The most elements that are tried separately.
MAX_SUSPECTS = 12

#: The additional cost, in bits, of a second edit.
SECOND_EDIT_COST = 8.0

#: The number of edits, those that read furthest, to combine with a second one.
MAX_BASES = 12

#: The distance, in bits, from the best reading within which others are kept as rivals.
RIVAL_DISTANCE = 24.0

#: The bonus, in bits, for a kind of edit that the same peer has made before, and for the same deviation in encoding.
USUAL_KIND_BONUS = 3.0
HABIT_BONUS = 8.0

#: The cost of each trailing byte and each byte that no field could read, and of trailing bytes and truncation as such.
TRAILING_BYTE_COST = 8.0
MISSING_BYTE_COST = 8.0
TRAILING_COST = 16.0
TRUNCATED_COST = 24.0

#: The highest cost of a good reading, fixed and per byte: a byte of a Kafka frame has few bits of information.
GOOD_BITS = 60.0
GOOD_BITS_PER_BYTE = 6.0

#: The highest cost, fixed and per byte, of a reading that hardly any edit of one element could improve on.
FINE_BITS = 40.0
FINE_BITS_PER_BYTE = 3.5

#: The prior, in bits, of an edit that is as rare as an edit of one element.
RARE_PRIOR = 9.0

#: The cost of a decode warning in the correct layout, fixed and per byte after it.
WARNING_COST = 40.0
BYTE_COST_AFTER_WARNING = 8.0

#: The edits of a whole frame to combine with a second one.
_BASE_KINDS = ("header_version", "flexibility", "body_version", "length_encoding", "length_off_by_one")


class _Base(NamedTuple):
    """A base for further edits: an edit (None for the correct layout), its layouts, the reading in them, its prior."""

    edit: Edit | None
    layouts: FrameLayouts
    trace: Trace
    prior: float


#: The kind of an edit, and its details if they describe how the writer encodes any such field.
Habit = tuple[str, tuple[object, ...] | None]

_ENCODINGS = ("flexibility", "length_encoding", "length_off_by_one", "int_width")


def habits(edit: Edit) -> Iterator[Habit]:
    """Yield the habits of a peer that made this edit, i.e. what it is likely to do again."""
    yield edit.kind, None
    if edit.kind in _ENCODINGS:
        yield edit.kind, tuple(value for _, value in edit.detail)


@dataclass(frozen=True, slots=True)
class FittingReading:
    """A reading that fits: its edit (None for the correct layout), the layout, and its cost with the prior, in bits."""

    edit: Edit | None
    layout: Layout
    cost: float
    prior: float = 0.0


class Readings(NamedTuple):
    """The readings that fit, most probable first; `right` is the cost of the correct layout if it is among them."""

    found: list[FittingReading]
    right: float | None


def search(frame: bytes, layout: Layout, version: int, **options: Any) -> Readings:
    """Find the readings of a frame; the arguments are those of `Search`.

    All that the search has created is freed before the garbage collector, which would traverse it, is enabled again.
    """
    with collector_disabled():
        return Search(frame, layout, version, **options).run()


class Search:
    """The search for readings of one frame.

    Args:
        frame: The frame, including its length prefix.
        layout: Kafka's layout, from `dissectors.edits.frame_layout`.
        version: Version of the body.
        decodes: Whether the correct layout decodes the frame to its last byte.
        trailing: The number of bytes after the last field, if the frame decodes up to there.
        words: Strings from the request or the connection.
        usual: The `habits` of the edits that the same peer has made before.
        work: The most fields to read; None for `MAX_WORK`.
    """

    def __init__(
        self,
        frame: bytes,
        layout: Layout,
        version: int,
        *,
        decodes: bool,
        trailing: int = 0,
        words: frozenset[bytes] = frozenset(),
        usual: frozenset[Habit] = frozenset(),
        work: int | None = None,
    ) -> None:
        self._decodes, self._trailing = decodes, trailing
        self._peer_habits = usual
        self._layout = layout
        self._proposals = proposals_for(layout.name, version)
        self._size = len(frame)
        self._layouts = FrameLayouts.of(layout)
        max_work = MAX_WORK_LARGE if self._size >= LARGE_FRAME_BYTES else MAX_WORK if work is None else work
        self._frame = FrameReading(frame, words, max_work)
        self._horizon = HORIZON if self._size < LARGE_FRAME_BYTES else HORIZON // 4
        self._extrapolated_cost = 0.0  # of the correct layout, if only the beginning of the frame was read
        self._readings: list[tuple[float, float, Edit | None]] = []  # cost, prior and edit
        self._best = float("inf")
        #: The cost of the correct layout if it decodes the whole frame.
        self.right_cost: float | None = None
        #: The offset at which an edit failed, its prior, the edit, and the only element to which it was applied.
        self._misfits: list[tuple[int, float, Proposal, Element | None]] = []

    def run(self) -> Readings:
        """Return the readings that fit. There is always at least one, because any frame fits with trailing bytes."""
        base = _Base(None, self._layouts, self._try_right_layout(), 0.0)
        tried_choices = choices(self._layouts, self._proposals)
        self._try_all(base, tried_choices)
        if self._size < LARGE_FRAME_BYTES and not self._is_convincing(
            FINE_BITS, FINE_BITS_PER_BYTE, RARE_PRIOR, UNLIKELY_BITS
        ):
            self._try_in_one_element(base, tried_choices)
        if self.right_cost is None and not self._decodes:
            if not self._is_convincing(GOOD_BITS, GOOD_BITS_PER_BYTE):
                self._try_other_apis(base)
            if not self._is_convincing(GOOD_BITS, GOOD_BITS_PER_BYTE):
                self._try_pairs(tried_choices)
        by_cost = sorted(self._readings, key=lambda reading: reading[0])
        readings = [
            FittingReading(edit, edited, cost, prior)
            for cost, prior, edit in by_cost
            if cost <= self._best + RIVAL_DISTANCE and (edited := self._edited_layout(edit)) is not None
        ]
        return Readings(readings, self.right_cost)

    def _edited_layout(self, edit: Edit | None) -> Layout | None:
        """Return the layout under an edit; None if its second step needs a field that the first removes."""
        if edit is None or edit.kind in LOOSE_KINDS:
            return self._layout
        try:
            return edit.apply(self._layout)
        except EditError:
            return None

    def _try_right_layout(self) -> Trace:
        frame, size = self._frame, self._size
        trace = Trace(frame, self._layouts, float("inf"), self._horizon)
        if trace.end is not None:
            if trace.end == size:
                self.right_cost = trace.cost
                self._add_reading(None, trace.cost)
            else:
                self._trailing = size - trace.end
                self._add_catch_all(trace.end)
            return trace
        assert trace.stopped is not None
        offset = trace.stopped.at
        if isinstance(trace.stopped, WorkExhausted):
            self._extrapolated_cost = self._extrapolate_cost(offset)
            if self._decodes:
                self.right_cost = self._extrapolated_cost
                self._add_reading(None, self.right_cost)
            else:
                self._add_catch_all(offset)
        elif self._decodes:  # with decode warnings, e.g. null or an invalid presence marker
            self._add_reading(None, frame.cost + WARNING_COST + BYTE_COST_AFTER_WARNING * (size - offset))
        else:
            self._add_catch_all(offset)
        return trace

    def _extrapolate_cost(self, offset: int) -> float:
        return self._frame.cost * (self._size - 4) / max(offset - 4, 1)

    def _add_catch_all(self, offset: int) -> None:
        """Add the readings that always fit: trailing bytes and truncation."""
        cost = self._frame.cost
        if self._trailing:
            edit = Edit.of("trailing_bytes", "*", bytes=self._trailing)
            self._add_reading(edit, cost + TRAILING_COST + TRAILING_BYTE_COST * (self._size - offset))
        else:
            edit = Edit.of("truncated", "*", bytes=1)
            self._add_reading(edit, cost + TRUNCATED_COST + MISSING_BYTE_COST * (self._size - offset))

    def _add_reading(self, edit: Edit | None, cost: float, prior: float = 0.0) -> None:
        self._readings.append((cost, prior, edit))
        self._best = min(self._best, cost)

    def _is_convincing(
        self,
        fixed_bits: float,
        bits_per_byte: float,
        max_prior: float = float("inf"),
        max_implausibility: float = MAX_IMPLAUSIBILITY,
    ) -> bool:
        """Whether one edit explains the frame so well that less probable ones need not be tried."""
        max_cost = fixed_bits + bits_per_byte * self._size
        candidates = [
            candidate
            for candidate in self._readings
            if candidate[0] < max_cost
            and candidate[1] < max_prior
            and (candidate[2] is None or candidate[2].kind not in LOOSE_KINDS)
        ]
        return bool(candidates) and (
            max_implausibility >= MAX_IMPLAUSIBILITY
            or self._implausibility(min(candidates, key=lambda candidate: candidate[0])[2]) < max_implausibility
        )

    def _implausibility(self, edit: Edit | None) -> float:
        """Return the bits by which the values read under an edit contradict it."""
        if self._size > SMALL_FRAME_BYTES or (layout := self._edited_layout(edit)) is None:
            return 0.0
        return frame_implausibility(layout, walk(layout, self._frame.data, 4).values)

    def _try_choice(self, base: _Base, choice: Choice, element: Element | None = None) -> None:
        """Try to read the frame with a choice applied to a base; with `element`, only to that array element."""
        prior, proposal, location = choice
        if element is not None:
            prior += ONE_TAG_BUFFER_COST if proposal.kind == "tag_buffer_missing" else ONE_ELEMENT_COST
        total_prior = prior + base.prior - (self._bonus(proposal) if self._peer_habits else 0.0)
        frame, limit = self._frame, self._best + RIVAL_DISTANCE - total_prior
        frame.work -= TRIAL_WORK
        try:
            if location is None:
                frame.begin(limit, self._horizon)
                end = read_frame(frame, *base.layouts.with_proposal(proposal))
            elif element is None:
                end = base.trace.resume(location, proposal, limit)
            else:
                end = self._elements.resume(element, location, proposal, limit)
            cost = frame.cost
        except TooExpensive:
            return
        except WorkExhausted as exhausted:
            if frame.work <= 0:
                return  # the work limit of the whole frame is reached, not only that of this reading
            # It fits so far; assume that the rest costs as much per byte.
            end, cost = self._size, self._extrapolate_cost(exhausted.at)
            if self._extrapolated_cost and cost > BETTER_SHARE * self._extrapolated_cost:
                return  # so far the correct layout also fits: the deviation comes later
        except Misfit as misfit:
            if base.edit is None:
                self._misfits.append((misfit.at, prior, proposal, element))
            return
        if end == self._size:
            edit = _edit_in_element(proposal, element)
            self._add_reading(
                edit if base.edit is None else base.edit.followed_by(edit), cost + total_prior, total_prior
            )

    def _bonus(self, proposal: Proposal) -> float:
        if (proposal.kind, proposal.arguments) in self._peer_habits:
            return HABIT_BONUS
        return USUAL_KIND_BONUS if (proposal.kind, None) in self._peer_habits else 0.0

    def _try_all(self, base: _Base, choices_to_try: list[Choice]) -> None:
        for choice in choices_to_try:
            if self._frame.work > 0:
                self._try_choice(base, choice)

    def _try_in_one_element(self, base: _Base, tried_choices: list[Choice]) -> None:
        """Apply edits to one element only: first edits of its own struct, then edits of arrays inside it."""
        self._elements = Elements(self._frame, self._layouts, self._horizon)
        suspects = self._elements.suspects(MAX_SUSPECTS)
        for contains in (Element.has, Element.encloses):
            for element in suspects:
                for choice in tried_choices:
                    if choice[2] is not None and contains(element, choice[2]) and self._frame.work > 0:
                        self._try_choice(base, choice, element)
            if self._is_convincing(FINE_BITS, FINE_BITS_PER_BYTE):
                return

    def _try_other_apis(self, base: _Base) -> None:
        """Read a small frame with the bodies of other APIs, which are not used as bases for further edits."""
        if self._size >= LARGE_FRAME_BYTES:
            return
        misfit_count = len(self._misfits)
        proposals = other_api_proposals(self._layouts.body, self._proposals.version)
        self._try_all(base, [(proposal.prior, proposal, None) for proposal in proposals])
        del self._misfits[misfit_count:]

    def _try_pairs(self, tried_choices: list[Choice]) -> None:
        kafka_struct_ids = frozenset(id(location.layout) for _, _, location in tried_choices if location is not None)
        tried_pairs: dict[tuple[int, int], FrameLayouts] = {}
        for proposal, element, prior in self._bases(tried_choices):
            edit, is_whole = _edit_in_element(proposal, element), proposal.field in WHOLE_FRAME_FIELDS
            layouts = self._layouts.with_proposal(proposal) if is_whole else self._layouts.with_edit(edit)
            if (key := (id(layouts.header), id(layouts.body))) in tried_pairs:
                continue  # another version has the same layouts
            tried_pairs[key] = layouts  # keeps it alive, so that its id stays unique
            total_prior = prior + SECOND_EDIT_COST
            base = _Base(
                edit,
                layouts,
                Trace(self._frame, layouts, self._best + RIVAL_DISTANCE - total_prior, self._horizon),
                total_prior,
            )
            next_choices = second_choices(layouts, self._proposals, base.trace, kafka_struct_ids, proposal)
            self._frame.work -= CREATION_WORK * len(next_choices)
            self._try_all(base, next_choices)
            if self._frame.work <= 0:
                return

    def _bases(self, tried_choices: list[Choice]) -> Iterator[tuple[Proposal, Element | None, float]]:
        """Yield the edits to combine with a second one: edits of the whole frame, then those that read furthest."""
        for prior, proposal, _ in tried_choices:
            if proposal.kind in _BASE_KINDS and proposal.field in WHOLE_PART_FIELDS:
                yield proposal, None, prior
        self._misfits.sort(key=lambda misfit: (-misfit[0], misfit[1]))
        for _, prior, proposal, element in self._misfits[:MAX_BASES]:
            if proposal.kind not in _BASE_KINDS or proposal.field not in WHOLE_PART_FIELDS:
                yield proposal, element, prior


def _edit_in_element(proposal: Proposal, element: Element | None) -> Edit:
    edit = proposal.edit
    for index in element.indexes if element is not None else ():
        edit = replace(edit, field=edit.field.replace("[]", f"[{index}]", 1))
    return edit
