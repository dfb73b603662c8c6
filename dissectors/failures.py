"""Failure: an unexpected exception, i.e. a bug in kproxy, as a value.

A frame that triggers a bug must not stop the inspection of other frames. Decoding a frame, each tracker, each rule and
each trace line are therefore separate steps: an unexpected exception ends only its step, becomes a `Failure`, and is
reported by rule K007 (`dissectors.rules.failed`) with the frame.
"""

from __future__ import annotations

from dataclasses import dataclass
from types import TracebackType

_MAX_TEXT = 200
_MAX_PLACES = 6
_PACKAGES = ("dissectors", "kproxy")


@dataclass(frozen=True, slots=True)
class Failure:
    """An unexpected exception: its step, its type, its message, and the innermost lines of kproxy's code."""

    step: str
    kind: str
    text: str
    places: tuple[str, ...]

    @classmethod
    def of(cls, step: str, error: Exception) -> Failure:
        """Create the description of an exception that was just caught."""
        text = " ".join(str(error).split())
        if len(text) > _MAX_TEXT:
            text = f"{text[:_MAX_TEXT]}..."
        return cls(step, type(error).__name__, text, tuple(_stack_locations(error.__traceback__))[-_MAX_PLACES:])

    @property
    def title(self) -> str:
        """Step and type of the exception, without its message, which could contain a secret."""
        return f"internal error while {self.step}: {self.kind}"

    def __str__(self) -> str:
        return f"{self.title}: {self.text}" if self.text else self.title


def _stack_locations(traceback: TracebackType | None) -> list[str]:
    """Return file and line of each stack frame, outermost first; paths start at the package."""
    locations = []
    while traceback is not None:
        parts = traceback.tb_frame.f_code.co_filename.replace("\\", "/").split("/")
        start = max((index for index, part in enumerate(parts) if part in _PACKAGES), default=len(parts) - 1)
        locations.append(f"{'/'.join(parts[start:])}:{traceback.tb_lineno}")
        traceback = traceback.tb_next
    return locations
