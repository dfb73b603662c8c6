"""What the diagnosis of a broken frame takes in CPU time.

python benchmarks/diagnosis.py

`python -m tests.fuzz` searches for slow frames.
"""

from __future__ import annotations

import statistics
import time

from dissectors.diagnosis import diagnose
from tests.dissectors.diagnosis.broken import LARGE, Mutations


def large() -> None:
    """Frames of 1 MiB, the first time and once their layouts are made."""
    for name, make in LARGE.items():
        broken = make()
        taken = []
        for _ in range(4):
            message = broken.message
            began = time.process_time()
            found = diagnose(message)
            taken.append(1000 * (time.process_time() - began))
        text = f"{found.edit.kind} {found.edit.field}, {found.confidence:.2f}" if found else "nothing"
        print(f"{name}: first {taken[0]:.1f} ms, then {min(taken[1:]):.1f} ms ({text})")


def small(count: int) -> None:
    """Small frames, without and with the time that it takes to make their candidates."""
    mutations = Mutations(7)
    first, then = [], []
    for _ in range(count):
        _, broken = mutations.exchange()
        for taken in (first, then):
            message = broken.message
            began = time.process_time()
            diagnose(message)
            taken.append(1000 * (time.process_time() - began))
    for name, taken in (("first", first), ("then", then)):
        cuts = statistics.quantiles(taken, n=100)
        print(
            f"{count} small frames, {name}: median {cuts[49]:.2f} ms, 90 % {cuts[89]:.1f} ms, 99 % {cuts[98]:.1f} ms, "
            f"worst {max(taken):.1f} ms"
        )


if __name__ == "__main__":
    large()
    small(500)
