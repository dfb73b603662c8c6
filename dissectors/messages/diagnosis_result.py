"""The result of a diagnosis: the edit that explains a frame, and where the frame departs from its layout.

`dissectors.diagnosis` computes it. It stands apart because messages and findings carry it.
"""

from __future__ import annotations

from dataclasses import dataclass

from dissectors.wire.edit import Edit
from dissectors.wire.layout import Layout


@dataclass(frozen=True, slots=True)
class Rival:
    """Another edit that explains the frame, and how likely it is (0 to 1)."""

    edit: Edit
    confidence: float


@dataclass(frozen=True, slots=True)
class Diagnosis:
    """How a frame departs from its layout, most likely.

    `confidence` is the share (0 to 1) of all that was found likely. The span is that of the first departure, empty
    where something is missing, and counts from the length prefix. `surplus` is how many bytes the frame has too many,
    negative if too few, None if that was not computed. `also` are edits that read every byte in the same way.
    `layout` is what the frame was read in, as `dissectors.edits.frame_layout` makes it, None if that is the right one.
    """

    edit: Edit
    confidence: float
    path: str
    start: int
    end: int
    sentence: str
    hint: str
    surplus: int | None = None
    also: tuple[Edit, ...] = ()
    rivals: tuple[Rival, ...] = ()
    layout: Layout | None = None


def certain(edit: Edit, path: str, start: int, end: int, sentence: str, hint: str) -> Diagnosis:
    """A departure that needs no search: the frame says itself what it is."""
    return Diagnosis(edit, 1.0, path, start, end, sentence, hint)
