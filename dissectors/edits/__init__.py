"""Edits: ways in which writers deviate from Kafka's layouts. One edit names, reproduces and tests a bug."""

from dissectors.edits import fields, frames, lengths, payloads, tags  # noqa: F401  # registers the kinds
from dissectors.edits.frames import LOOSE_KINDS
from dissectors.edits.targets import frame_layout
from dissectors.edits.write import write
from dissectors.wire.edit import KINDS, Edit, EditError, parse

__all__ = ["KINDS", "LOOSE_KINDS", "Edit", "EditError", "frame_layout", "parse", "write"]
