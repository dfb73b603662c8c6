"""Structs: the edits that are worth a try on a struct of a message, with how rare each is, in bits.

They come from the schema history of the message: every field that any version has, at every place among its siblings.
The prior follows what servers and clients were seen to do (throttle_time_ms is misplaced most of all).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from dissectors.bounded import BoundedDict
from dissectors.diagnosis.checkpoints import StructLocation
from dissectors.diagnosis.other_versions import Others, others
from dissectors.diagnosis.proposals import Proposal
from dissectors.edits.fields import INTEGERS
from dissectors.wire.layout import WIDTHS, Field, Layout

THROTTLE = "throttle_time_ms"

#: The prior of a field that stands at a place where few writers put it, in bits.
FAR = 8.0

#: More than any struct has.
MOST_STEPS = 1 << 10


def of_struct(
    name: str,
    version: int,
    path: tuple[str, ...],
    struct: Layout,
    most: float = float("inf"),
    reach: int = MOST_STEPS,
) -> list[Proposal]:
    """The edits of a struct of a message, in no order: none rarer than `most` bits, nor of a step from `reach` on."""
    known = others(name, version, tuple(part.removesuffix("[]") for part in path), struct)
    return list(_Struct(path, struct, known, version, most, reach).proposals())


class Proposals:
    """Those for the structs of a message, made once for each."""

    def __init__(self, name: str, version: int) -> None:
        self.name = name
        self.version = version
        self._made: dict[tuple[int, float], tuple[Layout, list[Proposal]]] = {}

    def of(self, spot: StructLocation, most: float = float("inf")) -> list[Proposal]:
        """Those for a struct, none rarer than `most` bits."""
        key = id(spot.layout), most
        made = self._made.get(key)
        if made is None:
            found = of_struct(self.name, self.version, spot.path, spot.layout, most)
            made = self._made[key] = spot.layout, found  # with the layout, or its id could become that of another one
        return made[1]


#: Messages, by name and version, of which proposals are kept, if they are among the last so many that were looked at.
MOST_KEPT = 16
MOST_SEEN = 32
_kept: BoundedDict[tuple[str, int], Proposals] = BoundedDict(MOST_KEPT)
_seen: BoundedDict[tuple[str, int], None] = BoundedDict(MOST_SEEN)


def proposals_for(name: str, version: int) -> Proposals:
    """Those for a message; kept from the second time on: what is kept for nothing the collector goes through."""
    key = name, version
    if key in _seen:
        return _kept.touch(key, lambda: Proposals(name, version))
    _seen[key] = None
    return Proposals(name, version)


class _Struct:
    """One struct, and what is proposed for it."""

    def __init__(
        self, path: tuple[str, ...], struct: Layout, known: Others, version: int, most: float, reach: int
    ) -> None:
        self._path, self._struct, self._known, self._version, self._reach = path, struct, known, version, reach
        self._deeper = 0.3 * len(path)
        self._above = "".join(f"{part}." for part in path)
        self._most = most - self._deeper
        self._names = [one.name for one in struct.fields]
        self._last = len(self._names) - 1
        # What stands twice is compared: a struct that has such is read from the first of them on.
        self._twice = next((at for at, name in enumerate(self._names) if self._names.count(name) > 1), self._last + 1)

    def proposals(self) -> Iterator[Proposal]:
        for index, one in enumerate(self._struct.fields[: self._reach]):
            yield from self._missing(index, one)
            if one.name == THROTTLE or self._most >= FAR:
                yield from self._moved(index, one)
                yield from self._duplicated(index, one)
            if self._names.index(one.name) == index:
                yield from self._written(index, one)
        yield from self._of_others()
        yield from self._tags()

    def _propose(
        self, kind: str, name: str, arguments: tuple[Any, ...], prior: float, step: int, one: Field | None = None
    ) -> Iterator[Proposal]:
        if prior <= self._most and step < self._reach:
            yield Proposal(kind, self._above + name, arguments, prior + self._deeper, min(step, self._twice), one)

    def _missing(self, index: int, one: Field) -> Iterator[Proposal]:
        if not self._last and self._path and not self._struct.flexible:
            return  # nothing would be left of it
        # What is missing is mostly what came last: the writer stopped at an older version.
        age = min(self._known.since.get(one.name, self._version), self._version)
        prior = 4.0 if one.name == THROTTLE else 5.5 if age == self._version > 0 else 6.2 if age else 6.5
        yield from self._propose("field_missing", one.name, (index,), prior, index, one)

    def _moved(self, index: int, one: Field) -> Iterator[Proposal]:
        common, last = one.name == THROTTLE, self._last
        for to in range(last + 1):
            if to == index or (to == index + 1 and not common):
                continue  # one place on is the next field one place back
            far = to in (0, last)
            prior = (4.0 if far else 6.5) if common else FAR if far or to == index - 1 else 10.0
            yield from self._propose("field_moved", one.name, (index, to), prior, min(index, to))

    def _duplicated(self, index: int, one: Field) -> Iterator[Proposal]:
        common, last = one.name == THROTTLE, self._last
        for where in range(last + 2):
            if where != index:
                prior = 6.0 if common else FAR if where in (index + 1, last + 1) else 11.0
                yield from self._propose("field_duplicated", one.name, (where,), prior, min(index, where), one)

    def _written(self, index: int, one: Field) -> Iterator[Proposal]:
        """An integer of another width, other lengths, and null where there may be none."""
        for kind, name, argument, prior in self._of_field(one):
            yield from self._propose(kind, name, (argument,), prior, index, one)

    def _of_field(self, one: Field) -> Iterator[tuple[str, str, Any, float]]:
        name = one.name
        if one.type in INTEGERS and not one.array and self._most >= FAR:
            for written in INTEGERS:
                if WIDTHS[written] != WIDTHS[one.type]:
                    near = max(WIDTHS[written], WIDTHS[one.type]) == 2 * min(WIDTHS[written], WIDTHS[one.type])
                    yield "int_width", name, written, 10.0 if near else 13.0
        for of, length in ((name, one.length), (f"{name}[]", one.element_length)):
            if length is None or (one.struct is not None and not one.array):
                continue
            compact = length == "uvarint"
            yield "length_encoding", of, "fixed" if compact else "compact", FAR
            if compact:
                yield "length_off_by_one", of, -1, 9.5
                yield "length_off_by_one", of, 1, 10.5
        if one.length is not None and not one.nullable and (one.struct is None or one.array):
            yield "null_in_non_nullable", name, self._known.nullable.get(name), 5.0

    def _of_others(self) -> Iterator[Proposal]:
        for name, (version, natural, one) in self._known.fields.items():
            for place in range(min(self._last + 2, self._reach)):
                near = 5.0 if place == natural else 6.5 if place in (0, self._last + 1) else 7.5
                prior = 3.5 if name == THROTTLE else near
                yield from self._propose("field_from_version", name, (version, place), prior, place, one)

    def _tags(self) -> Iterator[Proposal]:
        struct, step = self._struct, self._last + 1
        if struct.flexible:
            if struct.fields or not self._path:
                yield from self._propose("tag_buffer_missing", "_tags", (), 5.0, step)
            for name, one in self._known.tags.items():
                yield from self._propose("tag_below_version", name, (one.tag,), 6.0, step, one)
        yield from self._propose("tag_buffer_extra", "_tags", (), 7.5 if struct.flexible else 5.5, step)
        for one in struct.tagged:
            yield from self._propose("tag_size", "_tags", (one.tag,), 8.0, step)
