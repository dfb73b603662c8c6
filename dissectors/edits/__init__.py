"""Edits: how writers depart from Kafka's layouts. The same values name a bug, commit it on purpose, and test both."""

from dissectors.edits import fields, frames, lengths, payloads, tags  # noqa: F401  # they register
from dissectors.edits.frames import LOOSE
from dissectors.edits.targets import frame_layout
from dissectors.edits.write import write
from dissectors.wire.edit import KINDS, Edit, EditError, parse

__all__ = ["KINDS", "LOOSE", "Edit", "EditError", "frame_layout", "parse", "write"]
