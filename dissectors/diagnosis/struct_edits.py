"""Propose edits for the structs of a message, with their priors in bits.

The edits follow from the schema history of the message: any field of any version, at any index. The priors follow from
bugs observed in servers and clients; the most common one is a misplaced throttle_time_ms.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from dissectors.bounded import BoundedDict
from dissectors.diagnosis.checkpoints import StructLocation
from dissectors.diagnosis.other_versions import OtherVersionFields, other_version_fields
from dissectors.diagnosis.proposals import Proposal
from dissectors.edits.fields import INTEGERS
from dissectors.embedded.group import payload_names
from dissectors.embedded.registry import reader_of
from dissectors.wire.layout import WIDTHS, Field, Layout, versions

THROTTLE_TIME = "throttle_time_ms"

#: The prior, in bits, of a field at an index where few writers put it.
UNUSUAL_INDEX_PRIOR = 8.0

#: The prior, in bits, of a payload without its length prefix.
LENGTH_MISSING_PRIOR = 9.0

#: More than the number of steps of any struct.
MAX_STEPS = 1 << 10


def struct_proposals(
    name: str,
    version: int,
    path: tuple[str, ...],
    struct: Layout,
    max_prior: float = float("inf"),
    reach: int = MAX_STEPS,
) -> list[Proposal]:
    """Return the edits of a struct with a prior of at most `max_prior` bits and a step before `reach`, in no order."""
    other_fields = other_version_fields(name, version, tuple(part.removesuffix("[]") for part in path), struct)
    return _StructProposer(path, struct, other_fields, version, max_prior, reach).proposals(name)


class Proposals:
    """The proposals for the structs of a message, created once per struct and largest prior."""

    def __init__(self, name: str, version: int) -> None:
        self.name = name
        self.version = version
        self._cache: dict[tuple[int, float], tuple[Layout, list[Proposal]]] = {}

    def for_location(self, location: StructLocation, max_prior: float = float("inf")) -> list[Proposal]:
        """Return the proposals for a struct with a prior of at most `max_prior` bits."""
        key = id(location.layout), max_prior
        proposals = self._cache.get(key)
        if proposals is None:
            if (all_proposals := self._cache.get((key[0], float("inf")))) is not None:
                selected = [proposal for proposal in all_proposals[1] if proposal.prior <= max_prior]
            else:
                selected = struct_proposals(self.name, self.version, location.path, location.layout, max_prior)
            proposals = self._cache[key] = (
                location.layout,
                selected,
            )  # keeps the layout alive, so that its id stays unique
        return proposals[1]


#: The most messages (name and version) whose proposals are cached, and that are remembered as seen.
MAX_CACHED = 16
MAX_SEEN = 32
_cached_proposals: BoundedDict[tuple[str, int], Proposals] = BoundedDict(MAX_CACHED)
_seen: BoundedDict[tuple[str, int], None] = BoundedDict(MAX_SEEN)


def proposals_for(name: str, version: int) -> Proposals:
    """Return the proposals for a message, cached from the second call on to give the garbage collector less to do."""
    key = name, version
    if key in _seen:
        return _cached_proposals.touch(key, lambda: Proposals(name, version))
    _seen[key] = None
    return Proposals(name, version)


class _StructProposer:
    """Proposes edits for one struct."""

    def __init__(
        self,
        path: tuple[str, ...],
        struct: Layout,
        other_fields: OtherVersionFields,
        version: int,
        max_prior: float,
        reach: int,
    ) -> None:
        self._path, self._struct, self._other_versions = path, struct, other_fields
        self._version, self._reach = version, reach
        self._depth_prior = 0.3 * len(path)
        self._path_prefix = "".join(f"{part}." for part in path)
        self._max_prior = max_prior - self._depth_prior
        self._proposed: list[Proposal] = []
        self._names = [field.name for field in struct.fields]
        self._last_index = len(self._names) - 1
        # Duplicate fields are compared, so a struct with duplicates is read again from the first of them.
        self._first_duplicate = next(
            (index for index, name in enumerate(self._names) if self._names.count(name) > 1), self._last_index + 1
        )

    def proposals(self, message_name: str) -> list[Proposal]:
        """Return the edits of the struct, which belongs to the message `message_name`."""
        for index, field in enumerate(self._struct.fields[: self._reach]):
            self._propose_missing(index, field)
            if field.name == THROTTLE_TIME or self._max_prior >= UNUSUAL_INDEX_PRIOR:
                self._propose_moved(index, field)
                self._propose_duplicated(index, field)
            if self._names.index(field.name) == index:
                self._propose_encodings(index, field)
        self._propose_other_versions()
        self._propose_tags()
        self._propose_without_length(message_name)
        return self._proposed

    def _propose(
        self, kind: str, name: str, arguments: tuple[Any, ...], prior: float, step: int, field: Field | None = None
    ) -> None:
        if prior <= self._max_prior and step < self._reach:
            compared_step = min(step, self._first_duplicate)
            path = self._path_prefix + name
            self._proposed.append(Proposal(kind, path, arguments, prior + self._depth_prior, compared_step, field))

    def _propose_missing(self, index: int, field: Field) -> None:
        if not self._last_index and self._path and not self._struct.flexible:
            return  # the struct would be empty
        # Missing fields are usually recent ones, which a writer made for an older version does not know.
        since = min(self._other_versions.since.get(field.name, self._version), self._version)
        prior = 3.0 if field.name == THROTTLE_TIME else 5.5 if since == self._version > 0 else 6.2 if since else 6.5
        self._propose("field_missing", field.name, (index,), prior, index, field)

    def _propose_moved(self, index: int, field: Field) -> None:
        is_throttle_time, last = field.name == THROTTLE_TIME, self._last_index
        for new_index in range(last + 1):
            if new_index == index or (new_index == index + 1 and not is_throttle_time):
                continue  # moving a field forward by one is the same as moving the next field back by one
            is_at_end = new_index in (0, last)
            prior = (
                (4.0 if is_at_end else 6.5)
                if is_throttle_time
                else UNUSUAL_INDEX_PRIOR
                if is_at_end or new_index == index - 1
                else 10.0
            )
            self._propose("field_moved", field.name, (index, new_index), prior, min(index, new_index))

    def _propose_duplicated(self, index: int, field: Field) -> None:
        is_throttle_time, last = field.name == THROTTLE_TIME, self._last_index
        for copy_index in range(last + 2):
            if copy_index != index:
                prior = (
                    6.0 if is_throttle_time else UNUSUAL_INDEX_PRIOR if copy_index in (index + 1, last + 1) else 11.0
                )
                self._propose("field_duplicated", field.name, (copy_index,), prior, min(index, copy_index), field)

    def _propose_encodings(self, index: int, field: Field) -> None:
        """Propose integers of other widths, other length encodings, and null in non-nullable fields."""
        for kind, name, argument, prior in self._encoding_edits(field):
            self._propose(kind, name, (argument,), prior, index, field)

    def _encoding_edits(self, field: Field) -> Iterator[tuple[str, str, Any, float]]:
        name = field.name
        if field.type in INTEGERS and not field.array and self._max_prior >= UNUSUAL_INDEX_PRIOR:
            for other_type in INTEGERS:
                if WIDTHS[other_type] != WIDTHS[field.type]:
                    is_double_width = max(WIDTHS[other_type], WIDTHS[field.type]) == 2 * min(
                        WIDTHS[other_type], WIDTHS[field.type]
                    )
                    yield "int_width", name, other_type, 10.0 if is_double_width else 13.0
        for target, length in ((name, field.length), (f"{name}[]", field.element_length)):
            if length is None or (field.struct is not None and not field.array):
                continue
            compact = length == "uvarint"
            yield "length_encoding", target, "fixed" if compact else "compact", UNUSUAL_INDEX_PRIOR
            if compact:
                is_short = field.type == "string" and (target != name or not field.array)
                yield "length_encoding", target, "int32" if is_short else "int16", 13.0
            else:
                yield "length_encoding", target, "int16" if length == "int32" else "int32", 9.5
            if compact:
                yield "length_off_by_one", target, -1, 9.5
                yield "length_off_by_one", target, 1, 10.5
        if field.length is not None and not field.nullable and (field.struct is None or field.array):
            yield "null_in_non_nullable", name, self._other_versions.nullable.get(name), 5.0

    def _propose_without_length(self, message_name: str) -> None:
        """Propose payloads of group protocols without their length prefix."""
        path_prefix = self._path_prefix.replace("[]", "")
        for index, field in enumerate(self._struct.fields[: self._reach]):
            if (
                field.type == "bytes"
                and not field.array
                and (reader := reader_of(message_name, path_prefix + field.name))
            ):
                for payload in payload_names(reader, None):
                    for version in versions(payload):
                        self._propose(
                            "length_missing", field.name, (payload, version), LENGTH_MISSING_PRIOR, index, field
                        )

    def _propose_other_versions(self) -> None:
        for name, (version, natural_index, field) in self._other_versions.fields.items():
            for index in range(min(self._last_index + 2, self._reach)):
                usual_prior = 5.0 if index == natural_index else 6.5 if index in (0, self._last_index + 1) else 7.5
                prior = 3.5 if name == THROTTLE_TIME else usual_prior
                self._propose("field_from_version", name, (version, index), prior, index, field)

    def _propose_tags(self) -> None:
        struct, step = self._struct, self._last_index + 1
        if struct.flexible:
            if struct.fields or not self._path:
                self._propose("tag_buffer_missing", "_tags", (), 5.0, step)
            for name, tag in self._other_versions.tags.items():
                self._propose("tag_below_version", name, (tag.tag,), 6.0, step, tag)
        self._propose("tag_buffer_extra", "_tags", (), 7.5 if struct.flexible else 5.5, step)
        for field in struct.tagged:
            self._propose("tag_size", "_tags", (field.tag, 1), 8.0, step)
