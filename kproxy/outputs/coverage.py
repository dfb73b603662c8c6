"""Counts what was analysed in each input, to distinguish "no findings" from "nothing was analysed"."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from kproxy.trace.lines import Line, OpenLine, RequestLine, ResponseLine


@dataclass(slots=True)
class Counts:
    """What was read from an input. `packets` is None for a trace."""

    packets: int | None = None
    connections: int = 0
    frames: int = 0

    def as_json(self) -> dict[str, int]:
        """Return the counts by name."""
        packets = {} if self.packets is None else {"packets": self.packets}
        return packets | {"connections": self.connections, "frames": self.frames}

    def add(self, line: Line) -> None:
        """Count one line."""
        kind = type(line)
        if kind is RequestLine or kind is ResponseLine:
            self.frames += 1
        elif kind is OpenLine:
            self.connections += 1

    def __str__(self) -> str:
        return counts_text(self.as_json())


@dataclass(slots=True)
class AnalysedInputs:
    """Counts the packets, Kafka connections and Kafka frames in each input, before any filter.

    `unreadable` is the number of inputs that could not be read, or not completely.
    """

    files: dict[str, Counts] = field(default_factory=dict)
    unreadable: int = 0
    _current: Counts = field(default_factory=Counts)

    def begin(self, name: str) -> None:
        """Attribute the next counts to the input `name`. The same name may be used again."""
        self._current = self.files.setdefault(name, Counts())

    def add_packets(self, count: int) -> None:
        """Add the number of packets of a capture."""
        self._current.packets = (self._current.packets or 0) + count

    def add(self, line: Line) -> None:
        """Count one line."""
        self._current.add(line)

    def add_all(self, lines: Iterable[Line]) -> None:
        """Count several lines."""
        for line in lines:
            self._current.add(line)

    @property
    def total(self) -> Counts:
        """The sum over all inputs."""
        packets = [file.packets for file in self.files.values() if file.packets is not None]
        return Counts(
            sum(packets) if packets else None,
            sum(file.connections for file in self.files.values()),
            sum(file.frames for file in self.files.values()),
        )

    @property
    def has_no_frames(self) -> bool:
        """Whether no input has a Kafka frame, so that the absence of findings means nothing."""
        return not self.total.frames

    def __str__(self) -> str:
        return counts_text({"files": len(self.files)} | self.total.as_json())

    @property
    def sentence(self) -> str:
        """A sentence about what was analysed."""
        if self.has_no_frames:
            reason = "no Kafka frame was found" if self.unreadable < len(self.files) else "no input could be read"
            return f"nothing was analysed: {reason} ({self})"
        return f"analysed: {self}"


def counts_text(counts: Mapping[str, int]) -> str:
    """Return counts as text, e.g. ``1 file, 20 frames``. Names are plurals."""
    return ", ".join(f"{count} {name.removesuffix('s') if count == 1 else name}" for name, count in counts.items())
