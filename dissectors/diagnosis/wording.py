"""Describe a deviation: a sentence, and a hint about what to change."""

from __future__ import annotations

from collections.abc import Iterator

from dissectors.diagnosis.restorations import find_restoring_steps
from dissectors.edits import Edit
from dissectors.edits.lengths import ENCODING_TEXTS
from dissectors.edits.targets import path_parts, struct_of
from dissectors.wire.layout import WIDTHS, Layout


def sentence(edit: Edit, correct_layout: Layout) -> str:
    """Return a sentence that says what was written and what should have been written.

    Args:
        edit: The deviation; its steps are described one after the other.
        correct_layout: Kafka's layout of the frame.
    """
    restoring_steps = find_restoring_steps(edit, correct_layout)
    text = ", and ".join(
        _step_text(step, layout)
        for step, layout in _steps_with_layouts(edit, correct_layout)
        if step not in restoring_steps
    )
    return text + "".join(f", but {_restored_text(step)} of the right version" for step in restoring_steps)


def hint(edit: Edit, correct_layout: Layout, version: int) -> str:
    """Return a clause that says what to change in the writer."""
    restoring_steps = find_restoring_steps(edit, correct_layout)
    changes = (
        _change_text(step, layout, version)
        for step, layout in _steps_with_layouts(edit, correct_layout)
        if step not in restoring_steps
    )
    return "; ".join(dict.fromkeys(changes))


def _restored_text(edit: Edit) -> str:
    """Return a clause that says what a step after a `body_version` restores."""
    if edit.kind == "flexibility":
        return f"with the {' and '.join(ENCODING_TEXTS[dict(edit.detail)['written']])}"
    return f"with {edit.field}"


def _steps_with_layouts(edit: Edit, layout: Layout) -> Iterator[tuple[Edit, Layout]]:
    """Yield each step and the layout to which it is applied."""
    for step in edit.steps:
        yield step, layout
        layout = step.apply(layout)


def _step_text(edit: Edit, layout: Layout) -> str:
    detail = dict(edit.detail)
    struct = _struct(layout, edit.field)
    match edit.kind:
        case "field_moved" if struct:
            new_index, old_index = detail["to"], detail["from"]
            belongs = _index_text(struct, old_index, excluded=old_index)
            return f"{edit.field} is written {_index_text(struct, new_index, excluded=old_index)} and belongs {belongs}"
        case "field_missing" if struct:
            index = detail["where"]
            belongs = _index_text(struct, index, excluded=index)
            return f"{edit.field} ({_type_text(struct, index)}) is missing; it belongs {belongs}"
        case "field_duplicated" if struct:
            return f"{edit.field} is written twice, the second time {_index_text(struct, detail['where'])}"
        case "field_from_version" if struct:
            return (
                f"{edit.field} of version {detail['from_version']} is written {_index_text(struct, detail['place'])}, "
                "which this version does not have"
            )
        case "length_missing" if struct:
            return f"the {_length_text(struct, edit.field)} of {edit.field} is missing"
        case "header_version":
            return f"the header is {_header_text(layout, detail['written'])}"
    return str(edit)


def _header_text(layout: Layout, written_version: int) -> str:
    header = layout.fields[0].struct
    flexible = header is not None and header.flexible
    if layout.name.endswith("Response"):
        return f"that of version {written_version}, {'without' if flexible else 'with'} a tag buffer"
    return f"that of version {written_version}, not {2 if flexible else 1}"


def _header_change(layout: Layout, version: int, written_version: int) -> str:
    header = layout.fields[0].struct
    flexible = header is not None and header.flexible
    is_response = layout.name.endswith("Response")
    if not is_response and written_version != (1 if flexible else 2):
        return f"write the header that version {version} of this API has"
    last_field = "correlation_id" if is_response else "client_id"
    if flexible:
        return (
            f"write a tag buffer (one byte 0) after {last_field}: version {version} of this API is flexible (KIP-482)"
        )
    return f"write no tag buffer after {last_field}: version {version} of this API is not flexible (KIP-482)"


def _change_text(edit: Edit, layout: Layout, version: int) -> str:
    detail = dict(edit.detail)
    struct = _struct(layout, edit.field)
    name = path_parts(edit.field)[-1] if path_parts(edit.field) else "*"
    match edit.kind:
        case "field_moved" if struct:
            return f"write {name} {_index_text(struct, detail['from'], excluded=detail['from'])}"
        case "field_missing" if struct:
            return f"write {name} {_index_text(struct, detail['where'], excluded=detail['where'])} in version {version}"
        case "field_duplicated":
            return f"write {name} once"
        case "field_from_version":
            return f"do not write {name} in version {version}; it is in version {detail['from_version']}"
        case "int_width":
            return f"write {name} with the width that the protocol gives it, not as {detail['written']}"
        case "body_version":
            return f"write the layout of version {version}, or do not offer more than version {detail['body_version']}"
        case "length_encoding" if edit.field == "header.client_id":
            return "write the length of client_id as int16: it is not compact in any version of the header (KIP-482)"
        case "length_encoding" if struct and (length := _right_length(struct, edit.field)):
            return f"write the length of {name} as {length} in version {version}, not as {detail['written']}"
        case "flexibility" | "length_encoding":
            body = layout.fields[1].struct
            flexible = body is not None and body.flexible
            lengths = "compact lengths (N + 1 as unsigned varint)" if flexible else "int16 and int32 lengths"
            tags = " and a tag buffer after each struct" if flexible and edit.kind == "flexibility" else ""
            return f"write {lengths}{tags} in version {version} (KIP-482), or do not offer this version"
        case "length_off_by_one":
            return "a compact length is the length plus one; 0 is null (KIP-482)"
        case "header_version":
            if layout.name == "ApiVersionsResponse":
                return "ApiVersions responses have no tag buffer in their header, in any version (KIP-511)"
            return _header_change(layout, version, detail["written"])
        case "body_of_api":
            return f"write the fields of {layout.name.removesuffix('Request').removesuffix('Response')} v{version}"
        case "length_missing" if struct:
            return f"write the number of bytes of {name} before it: its {_length_text(struct, edit.field)}"
        case "generic_error_body":
            return f"write every field of version {version} also when there is an error"
        case "tag_buffer_missing":
            return "end every struct of a flexible version with a tag buffer: one byte 0 if there are no tags (KIP-482)"
        case "tag_buffer_extra":
            return "write a tag buffer once after each struct of a flexible version, and none in other versions"
        case "tag_below_version":
            return f"do not write tag {detail['tag']} in version {version}"
        case "tag_size":
            return "the size of a tagged field is the number of bytes of its value"
        case "tag_order":
            return "write tags in ascending order"
        case "null_in_non_nullable":
            since = detail.get("nullable_from")
            return f"write {name} empty instead of null" + ("" if since is None else f", or use version {since}")
        case "duplicated_prefix":
            return f"write the {detail['prefix']} once, in front of the body"
        case "truncated":
            return "see where the writer stops, or what length it gives the frame"
    return "see what the writer writes last"


def _struct(layout: Layout, path: str) -> Layout | None:
    """Return the struct of a frame's layout that contains the field at a path."""
    *enclosing, _ = path_parts(path) or ("",)
    struct = (
        layout if enclosing[:1] == ["header"] else next(field.struct for field in layout.fields if field.name == "body")
    )
    for part in enclosing:
        if struct is not None:
            struct = struct_of(struct, part)
    return struct


def _index_text(struct: Layout, index: int, *, excluded: int | None = None) -> str:
    """Describe an index among a struct's fields, one of which may be excluded: ``first``, ``after error_code``."""
    names = [field.name for field_index, field in enumerate(struct.fields) if field_index != excluded]
    if index == 0:
        return f"first, before {names[0]}" if names else "first"
    if index > len(names):
        return "last"
    return f"after {names[index - 1]}" + (", last" if index == len(names) else "")


def _length_text(struct: Layout, path: str) -> str:
    """Describe the length of a field: ``int32 length`` or ``compact length``."""
    field = next(field for field in struct.fields if field.name == path_parts(path)[-1])
    return "compact length" if field.length == "uvarint" else f"{field.length} length"


def _right_length(struct: Layout, path: str) -> str | None:
    """Describe how the length of one field, or of its elements (``names[]``), is written; None for a scope."""
    parts = path_parts(path.removesuffix("[]"))
    field = next((field for field in struct.fields if parts and field.name == parts[-1]), None)
    if field is None:
        return None
    length = field.element_length if path.endswith("[]") else field.length
    return "a compact length (N + 1 as unsigned varint)" if length == "uvarint" else length


def _type_text(struct: Layout, index: int) -> str:
    if index >= len(struct.fields):
        return "field"
    field = struct.fields[index]
    if field.array:
        return "array"
    width = WIDTHS.get(field.type)
    return f"{field.type}, {width} byte{'s' * (width != 1)}" if width else field.type
