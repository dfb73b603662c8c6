"""Edits of tag buffers (KIP-482)."""

from __future__ import annotations

from dataclasses import replace

from dissectors import schemas
from dissectors.edits.targets import change_struct, check_not_empty, path_parts, split_field_path, struct_of
from dissectors.schemas import VersionRange
from dissectors.wire.edit import EditError, kind
from dissectors.wire.layout import Field, Layout
from dissectors.wire.layout import layout as layout_of


def _owner_text(field: str) -> str:
    owner = field.rpartition(".")[0]
    return f"each of {owner}" if owner.endswith("[]") else "the header" if owner == "header" else owner or "the body"


@kind("tag_buffer_missing", sentence=lambda field: f"{_owner_text(field)} has no tag buffer")
def omit_tag_buffer(layout: Layout, field: str) -> Layout:
    """Leave out the tag buffer of a struct."""

    def change(struct: Layout) -> Layout:
        _require_tag_buffer(struct)
        return check_not_empty(replace(struct, flexible=False, tagged=()), struct_path)

    struct_path = _struct_path(field)
    return change_struct(layout, struct_path, change)


@kind("tag_buffer_extra", sentence=lambda field: f"{_owner_text(field)} has an extra tag buffer")
def add_tag_buffer(layout: Layout, field: str) -> Layout:
    """Add a tag buffer to a struct, or a second one if it has one."""

    def change(struct: Layout) -> Layout:
        return replace(struct, tag_fault="twice") if struct.flexible else replace(struct, flexible=True)

    return change_struct(layout, _struct_path(field), change)


@kind("tag_below_version", "tag", sentence="{field} is written as tag {tag}, which this version does not have")
def write_tag_below_version(layout: Layout, field: str, tag: int) -> Layout:
    """Write a tagged field of a later version."""
    struct_path, name = split_field_path(path_parts(field))
    for version in _versions(layout.name):
        source = layout_of(layout.name, version)
        for part in struct_path:
            source = struct_of(source, part) or source
        if tagged_fields := [field for field in source.tagged if field.name == name and field.tag == tag]:
            return change_struct(layout, struct_path, lambda struct: with_tag(struct, tagged_fields[0]))
    raise EditError(f"no version of {layout.name} has {field} as tag {tag}")


def with_tag(struct: Layout, new_field: Field) -> Layout:
    """Return the struct with an additional tagged field."""
    return replace(struct, tagged=tuple(sorted((*struct.tagged, new_field), key=lambda tagged: tagged.tag or 0)))


def _size_sentence(field: str, tag: int, delta: int) -> str:
    return f"the size of tag {tag} in {field} is {abs(delta)} too {'large' if delta > 0 else 'small'}"


@kind("tag_size", "tag", "delta", sentence=_size_sentence)
def change_tag_size(layout: Layout, field: str, tag: int, delta: int = 1) -> Layout:
    """Write the size of a tagged field `delta` bytes too large, or too small if `delta` is negative."""
    if not delta or abs(delta) >= 1 << 31:
        raise EditError(f"the size of a tag cannot be wrong by {delta} bytes")

    def change(struct: Layout) -> Layout:
        if tag not in {field.tag for field in struct.tagged}:
            raise EditError(f"{struct.name} has no tag {tag}")
        return replace(struct, tag_fault=f"size {tag} {delta}")

    return change_struct(layout, _struct_path(field), change)


@kind("tag_order", "tag", sentence="tag {tag} in {field} is out of order")
def reverse_tags(layout: Layout, field: str, tag: int) -> Layout:
    """Write tags in descending order."""
    del tag

    def change(struct: Layout) -> Layout:
        _require_tag_buffer(struct)
        return replace(struct, tag_fault="order")

    return change_struct(layout, _struct_path(field), change)


def _struct_path(field: str) -> tuple[str, ...]:
    struct_path, name = split_field_path(path_parts(field))
    if name != "_tags":
        raise EditError(f"the tag buffer is called _tags, not {name}")
    return struct_path


def _require_tag_buffer(struct: Layout) -> None:
    if not struct.flexible:
        raise EditError(f"{struct.name} has no tag buffer")


def _versions(name: str) -> VersionRange:
    try:
        return VersionRange.parse(schemas.message(name)["versions"])
    except KeyError as error:
        raise EditError(str(error.args[0])) from None
