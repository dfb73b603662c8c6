"""The result of a diagnosis: the edit that explains a frame, and where the frame departs from its layout.

`dissectors.diagnosis` computes it. It is defined here because messages and findings hold it.
"""

from __future__ import annotations

from dataclasses import dataclass

from dissectors.wire.edit import Edit
from dissectors.wire.layout import Layout


@dataclass(frozen=True, slots=True)
class Rival:
    """Another edit that explains the frame, with its probability (0 to 1)."""

    edit: Edit
    confidence: float


@dataclass(frozen=True, slots=True)
class Diagnosis:
    """The most probable way in which a frame departs from its layout.

    `confidence` is the probability of the edit (0 to 1). The span is that of the first departure and counts from the
    length prefix; it is empty if a field is missing there. `surplus` is the number of bytes that the frame has too
    many, negative if too few, None if unknown. `also` are other edits that read every byte in the same way. `layout` is
    the layout in which the frame was read, in the form of `dissectors.edits.frame_layout`; None if it is Kafka's.
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


def certain_diagnosis(edit: Edit, path: str, start: int, end: int, sentence: str, hint: str) -> Diagnosis:
    """A diagnosis that needs no search because the frame itself shows the edit."""
    return Diagnosis(edit, 1.0, path, start, end, sentence, hint)
