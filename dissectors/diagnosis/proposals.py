"""Proposals: edits to try, with their priors in bits and the steps that read a struct under them."""

from __future__ import annotations

import functools
from dataclasses import replace
from typing import Any

from dissectors import schemas
from dissectors.diagnosis.checkpoints import StructLocation
from dissectors.diagnosis.costs import Replacement, Step
from dissectors.diagnosis.struct_reader import StructSteps, duplicate_reader, min_size_of, step_of
from dissectors.edits import KINDS, Edit
from dissectors.edits.fields import with_field, with_moved_field, without_field
from dissectors.edits.tags import with_tag
from dissectors.messages import secret_fields
from dissectors.wire.layout import Field, Layout, cached_on_owner, snake_case, versions

#: The name of a payload's header, which consists of its version.
PAYLOAD_HEADER = "PayloadHeader"

#: The prior, in bits, of the body of one particular other API; each word that the names share lowers it.
OTHER_API_PRIOR = 13.0
SHARED_WORD_BONUS = 2.0

#: The most frequent edits, which only reorder, add or remove steps of a struct.
_STEP_KINDS = ("field_moved", "field_missing", "field_duplicated", "field_from_version")

#: Edits that write a field in another way.
FIELD_KINDS = ("int_width", "length_encoding", "length_off_by_one", "length_missing", "null_in_non_nullable")


class Proposal:
    """An edit, its prior in bits and, for the edit of a struct, the steps that read the struct.

    `arguments` are the details of the kind, in order. `step` is the first step of the struct that the edit changes,
    and `target` the field that it adds or changes. The steps are created on demand and cached.
    """

    __slots__ = ("_steps", "arguments", "field", "kind", "prior", "step", "target")

    def __init__(
        self,
        kind: str,
        field: str,
        arguments: tuple[Any, ...],
        prior: float,
        step: int = 0,
        target: Field | None = None,
    ) -> None:
        self.kind = kind
        self.field = field
        self.arguments = arguments
        self.prior = prior
        self.step = step
        self.target = target
        self._steps: tuple[tuple[Step, ...], int] | None = None

    @property
    def edit(self) -> Edit:
        """The edit."""
        return Edit(self.kind, self.field, tuple(zip(KINDS[self.kind].details, self.arguments, strict=True)))

    @property
    def name(self) -> str:
        """The name of the field."""
        return _field_name(self.field)

    def tail(self, location: StructLocation) -> tuple[Step, ...]:
        """Return the steps that read a struct under the edit, beginning with the first changed step.

        Most readings end at that step, so all steps (`replacement`) are put together only when needed.
        """
        if self._steps is None and not location.compiled.has_duplicates:
            steps, index = location.compiled.steps, self.step
            if self.kind == "field_missing":
                return steps[index + 1 :]
            if self.kind == "field_from_version":
                return step_of(self._target), *steps[index:]
            if self.kind in FIELD_KINDS:
                return step_of(self._edited_field(self._target)), *steps[index + 1 :]
        return self.replacement(location).steps[self.step :]

    @property
    def _target(self) -> Field:
        assert self.target is not None
        return self.target

    def replacement(self, location: StructLocation) -> Replacement:
        """Return the steps that read a struct under the edit."""
        if self._steps is None:
            self._steps = self._derive_steps(location.compiled)
        if self._steps is None:
            compiled = StructSteps(self._edited_struct(location.layout))
            self._steps = compiled.steps, compiled.min_size
        return location.replacement(*self._steps)

    def _derive_steps(self, compiled: StructSteps) -> tuple[tuple[Step, ...], int] | None:
        """Return the steps for one of the most frequent edits, and their minimum size, without building a layout."""
        if compiled.has_duplicates or self.kind not in (*_STEP_KINDS, *FIELD_KINDS):
            return None
        steps, min_size = list(compiled.steps), compiled.min_size
        index = self.arguments[-1]
        if self.kind in FIELD_KINDS:
            edited_field = self._edited_field(self._target)
            steps[self.step] = step_of(edited_field)
            return tuple(steps), min_size + min_size_of(edited_field) - min_size_of(self._target)
        if self.kind == "field_moved":
            steps.insert(index, steps.pop(self.arguments[0]))
            return tuple(steps), min_size
        field = self._target
        if self.kind == "field_missing":
            del steps[index]
            return tuple(steps), min_size - min_size_of(field)
        if self.kind == "field_duplicated":
            first_index = steps.index(step_of(field))
            key = object(), field.name
            steps[first_index] = duplicate_reader(key, step_of(field), first=first_index < index)
            steps.insert(index, duplicate_reader(key, step_of(field), first=first_index >= index))
        else:
            steps.insert(index, step_of(field))
        return tuple(steps), min_size + min_size_of(field)

    def _edited_struct(self, struct: Layout) -> Layout:
        arguments, field = self.arguments, self.target
        if self.kind == "field_missing":
            return without_field(struct, arguments[0])
        if field is None:
            if self.kind == "field_moved":
                return with_moved_field(struct, *arguments)
            return replace(self.edit, field=self.name).apply(struct)
        if self.kind == "tag_below_version":
            return with_tag(struct, field)
        if self.kind in ("field_duplicated", "field_from_version"):
            return with_field(struct, field, arguments[-1])
        index = struct.fields.index(field)
        return with_field(without_field(struct, index), self._edited_field(field), index)

    def _edited_field(self, field: Field) -> Field:
        """Return the field as changed by the edit; the result is shared by all structs with this field."""
        key = (self.kind, self.field.endswith("[]"), self.arguments)
        results = _field_variants(field)
        result = results.get(key)
        if result is None:
            edit = replace(self.edit, field=self.name)
            result = results[key] = edit.apply(Layout("", (field,))).fields[0]
        return result


@cached_on_owner
def _field_variants(field: Field) -> dict[tuple[str, bool, tuple[Any, ...]], Field]:
    """Return a cache of a field's variants, by kind of edit, whether only its elements change, and arguments."""
    return {}


def _field_name(path: str) -> str:
    return path.rpartition(".")[2]


def header_version_of(name: str, version: int) -> int:
    """Return the header version that belongs to a version of a message; 0 for payloads."""
    if not name.endswith(("Request", "Response")):
        return 0
    is_request = name.endswith("Request")
    api = schemas.api_by_name(name.removesuffix("Request" if is_request else "Response"))
    assert api is not None
    return schemas.header_versions(api.key, version)[0 if is_request else 1]


def header_proposals(header: Layout) -> tuple[Proposal, ...]:
    """Return the proposals for a header."""
    return _header_proposals(header.name, tuple(field.name for field in header.fields), header.flexible)


@functools.lru_cache(64)
def _header_proposals(name: str, fields: tuple[str, ...], flexible: bool) -> tuple[Proposal, ...]:
    result: list[Proposal] = []
    if name == PAYLOAD_HEADER:
        return ()
    for header_version in versions(name):
        prior = 6.0 if name == "RequestHeader" and not header_version else 5.0
        result.append(Proposal("header_version", "header", (header_version,), prior))
    if name == "ResponseHeader":
        result.append(Proposal("duplicated_prefix", "header.correlation_id", ("correlation_id",), 7.0))
        result.append(Proposal("duplicated_prefix", "size", ("size",), 9.0))
    elif "client_id" in fields:
        result.append(Proposal("length_encoding", "header.client_id", ("compact",), 9.0))
        result.append(Proposal("length_encoding", "header.client_id", ("int8",), 10.0))
        result.append(Proposal("field_missing", "header.client_id", (fields.index("client_id"),), 9.0))
    if flexible:
        result.append(Proposal("tag_buffer_extra", "header._tags", (), 9.0))
    return tuple(result)


def other_api_proposals(body: Layout, version: int) -> tuple[Proposal, ...]:
    """Return proposals for the bodies of other APIs in the same direction, in the same or the nearest version."""
    side = next((side for side in ("Request", "Response") if body.name.endswith(side)), None)
    return () if side is None else _other_api_proposals(body.name.removesuffix(side), version)


@functools.lru_cache(8)
def _other_api_proposals(name: str, version: int) -> tuple[Proposal, ...]:
    result = []
    for api in schemas.apis():
        if api.name != name and api.name not in secret_fields.APIS:  # redaction would not find their secrets
            nearest_version = min(max(version, api.min_version), api.max_version)
            shared_words = len(_name_words(api.name) & _name_words(name))
            prior = OTHER_API_PRIOR + (0.0 if nearest_version == version else 2.0) - SHARED_WORD_BONUS * shared_words
            result.append(Proposal("body_of_api", "*", (api.name, nearest_version), prior))
    return tuple(result)


@functools.cache
def _name_words(api: str) -> frozenset[str]:
    return frozenset(snake_case(api).split("_"))


def body_proposals(body: Layout, version: int) -> tuple[Proposal, ...]:
    """Return the proposals for a whole body of a version."""
    return _body_proposals(body.name, version, body.flexible)


@functools.lru_cache(256)
def _body_proposals(name: str, version: int, flexible: bool) -> tuple[Proposal, ...]:
    result = []
    for other_version in versions(name):
        if other_version != version:
            prior = 5.0 + 0.25 * abs(other_version - version)
            result.append(Proposal("body_version", "*", (other_version, None), prior))
            if (header_version := header_version_of(name, other_version)) != header_version_of(name, version):
                result.append(Proposal("body_version", "*", (other_version, header_version), prior + 0.5))
    encoding = ("fixed" if flexible else "compact",)
    result.append(Proposal("flexibility", "*", encoding, 5.0))
    if name.endswith("Response"):
        result.append(Proposal("generic_error_body", "*", (), 4.5))
    result.append(Proposal("length_encoding", "*", encoding, 6.5))
    scopes = {"*strings": 7.6, "*arrays": 7.6, "*bytes": 9.5}  # too rare to be one of two edits
    result += [Proposal("length_encoding", scope, encoding, prior) for scope, prior in scopes.items()]
    if flexible:
        for scope in ("*", "*strings", "*arrays"):
            result.append(Proposal("length_off_by_one", scope, (-1,), 7.5 if scope == "*" else 8.5))
            result.append(Proposal("length_off_by_one", scope, (1,), 8.0 if scope == "*" else 9.5))
    else:
        result.append(Proposal("length_encoding", "*strings", ("int32",), 8.5))
        result.append(Proposal("length_encoding", "*arrays", ("int16",), 8.5))
        result.append(Proposal("length_encoding", "*bytes", ("int16",), 10.5))
    return tuple(result)
