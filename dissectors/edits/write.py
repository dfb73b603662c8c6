"""Encode frames with an edit applied."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from dissectors.edits.targets import is_frame
from dissectors.wire.edit import KINDS, Edit
from dissectors.wire.encode import encode
from dissectors.wire.layout import Layout


def write(edit: Edit | None, layout: Layout, values: Mapping[str, Any]) -> bytes:
    """Encode a frame with its length prefix, or a body alone, with an edit applied.

    Args:
        edit: None for the correct layout.
        layout: Kafka's layout; for a whole frame, as `frame_layout` builds it.
        values: As in `dissectors.wire.encode.encode`; for a whole frame under ``header`` and ``body``.

    Raises:
        EditError: The edit does not apply to the layout.
        EncodeError: See `dissectors.wire.encode.encode`.
    """
    steps = edit.steps if edit else ()
    edited_layout = edit.apply(layout) if edit else layout
    for step in steps:
        if change := KINDS[step.kind].values:
            detail = dict(step.detail)
            if is_frame(layout):
                values = {**values, "body": change(values["body"], step.field, **detail)}
            else:
                values = change(values, step.field, **detail)
    data = encode(edited_layout, values)
    for step in steps:
        if change_data := KINDS[step.kind].data:
            data = change_data(data, **dict(step.detail))
    return len(data).to_bytes(4, "big") + data if is_frame(layout) else data
