"""How much of each input was analysed, so that "no findings" cannot be mistaken for "nothing was analysed"."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from kproxy.trace.lines import FRAME_LINES, Line, OpenLine


@dataclass(slots=True)
class Counts:
    """What was read of an input; `packets` is None for a trace, which has none."""

    packets: int | None = None
    connections: int = 0
    frames: int = 0

    def as_json(self) -> dict[str, int]:
        """The counts by name."""
        packets = {} if self.packets is None else {"packets": self.packets}
        return packets | {"connections": self.connections, "frames": self.frames}

    def add(self, line: Line) -> None:
        """Count one line."""
        if isinstance(line, FRAME_LINES):
            self.frames += 1
        elif isinstance(line, OpenLine):
            self.connections += 1

    def __str__(self) -> str:
        return listed(self.as_json())


@dataclass(slots=True)
class AnalysedInputs:
    """Counts packets, Kafka connections and Kafka frames of each input, whatever a filter makes of them."""

    files: dict[str, Counts] = field(default_factory=dict)
    _now: Counts = field(default_factory=Counts)

    def begin(self, name: str) -> None:
        """What is counted next is of the input `name`, which may come twice."""
        self._now = self.files.setdefault(name, Counts())

    def packet_count(self, count: int) -> None:
        """The input was a capture with so many packets."""
        self._now.packets = (self._now.packets or 0) + count

    def add(self, line: Line) -> None:
        """Count one line."""
        self._now.add(line)

    @property
    def total(self) -> Counts:
        """The sum over all inputs."""
        packets = [each.packets for each in self.files.values() if each.packets is not None]
        return Counts(
            sum(packets) if packets else None,
            sum(each.connections for each in self.files.values()),
            sum(each.frames for each in self.files.values()),
        )

    @property
    def is_nothing(self) -> bool:
        """Whether no Kafka frame was found in any input: the absence of findings says nothing then."""
        return not self.total.frames

    def __str__(self) -> str:
        return listed({"files": len(self.files)} | self.total.as_json())

    @property
    def sentence(self) -> str:
        """What was analysed, for people."""
        if self.is_nothing:
            return f"nothing was analysed: no Kafka frame was found ({self})"
        return f"analysed: {self}"


def listed(counts: Mapping[str, int]) -> str:
    """Counts by their plural, as text: ``1 file, 20 frames``."""
    return ", ".join(f"{count} {name.removesuffix('s') if count == 1 else name}" for name, count in counts.items())
