"""What the diagnosis of a broken frame takes in CPU time.

python benchmarks/diagnosis.py

To compare with another revision, put a directory with its `dissectors` and `kproxy` in front:
PYTHONPATH=DIRECTORY:. python -P benchmarks/diagnosis.py
`python -m tests.fuzz` searches for slow frames.
"""

from __future__ import annotations

import gc
import statistics
import time
import tracemalloc

from dissectors.diagnosis import diagnose
from kproxy.inspection.explain import explain
from tests.dissectors.diagnosis.broken import LARGE, Mutations
from tests.fuzz.frames import Source


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


def fuzzed(count: int) -> None:
    """What `explain` takes for frames of the fuzz: the least of three runs."""
    source = Source("benchmark")
    made = [source.exchange(number) for number in range(count)]
    least = [float("inf")] * count
    for _ in range(3):
        for number, exchange in enumerate(made):
            began = time.process_time()
            explain(exchange.response, (exchange.key, exchange.version)) if number % 2 else explain(exchange.request)
            least[number] = min(least[number], 1000 * (time.process_time() - began))
        gc.collect()
    cuts = statistics.quantiles(least, n=100)
    mean = statistics.mean(least)
    print(f"{count} frames of the fuzz: mean {mean:.2f} ms, median {cuts[49]:.2f} ms, 99 % {cuts[98]:.1f} ms")


def memory(count: int) -> None:
    """The memory that stays allocated after broken frames: layouts, readers and proposals for the next ones."""
    source = Source("benchmark")
    tracemalloc.start()
    for number in range(count):
        one = source.exchange(number)
        explain(one.response, (one.key, one.version)) if number % 2 else explain(one.request)
    gc.collect()
    print(f"{count} frames of the fuzz leave {tracemalloc.get_traced_memory()[0] / 1e6:.1f} MB")
    tracemalloc.stop()


if __name__ == "__main__":
    memory(1000)
    fuzzed(300)
    large()
    small(500)
