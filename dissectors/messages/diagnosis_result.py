"""The result of a diagnosis: the edit that explains a frame, and where the frame deviates from its layout.

`dissectors.diagnosis` computes it. It is defined here because messages and findings contain it.
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
    """The most probable way in which a frame deviates from its layout.

    `confidence` is the probability of the edit (0 to 1). `start` and `end` are the span of the first deviation, counted
    from the length prefix; it is empty if a field is missing there. `surplus` is by how many bytes the frame is too
    long, negative if it is too short, None if unknown. `also` are other edits that read every byte in the same way.
    `layout` is the layout in which the frame was read, as from `dissectors.edits.frame_layout`; None if it is Kafka's.
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
    """Return a diagnosis that needs no search, because the frame itself shows the edit."""
    return Diagnosis(edit, 1.0, path, start, end, sentence, hint)
