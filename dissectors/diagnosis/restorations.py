"""Find edits that restore Kafka's layout after an edit to another version, which only part of the body then has."""

from __future__ import annotations

from dissectors.edits import Edit
from dissectors.edits.targets import path_parts, struct_of
from dissectors.wire.layout import Layout


def find_restoring_steps(edit: Edit, correct_layout: Layout) -> tuple[Edit, ...]:
    """Return the steps after a `body_version` that restore part of the correct layout of the frame."""
    first, *later_steps = edit.steps
    body = correct_layout.fields[-1].struct
    if first.kind != "body_version" or body is None:
        return ()
    return tuple(step for step in later_steps if _restores_layout(step, body))


def _restores_layout(step: Edit, body: Layout) -> bool:
    if step.kind == "flexibility":
        written: str = dict(step.detail)["written"]
        return body.flexible == (written == "compact")
    if step.kind != "field_from_version":
        return False
    *enclosing, name = path_parts(step.field)
    struct: Layout | None = body
    for part in enclosing:
        struct = struct_of(struct, part) if struct is not None else None
    return struct is not None and any(field.name == name for field in struct.fields)
