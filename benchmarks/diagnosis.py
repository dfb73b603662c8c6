"""The CPU time to diagnose a broken frame.

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


def measure_large() -> None:
    """Measure frames of 1 MiB: the first time, and once their layouts exist."""
    for name, make_frame in LARGE.items():
        broken = make_frame()
        times_ms = []
        for _ in range(4):
            message = broken.message
            started = time.process_time()
            diagnosis = diagnose(message)
            times_ms.append(1000 * (time.process_time() - started))
        text = f"{diagnosis.edit.kind} {diagnosis.edit.field}, {diagnosis.confidence:.2f}" if diagnosis else "nothing"
        print(f"{name}: first {times_ms[0]:.1f} ms, then {min(times_ms[1:]):.1f} ms ({text})")


def measure_small(count: int) -> None:
    """Measure small frames: the first time, when their candidates must be created, and again."""
    mutations = Mutations(7)
    first, later = [], []
    for _ in range(count):
        _, broken = mutations.exchange()
        for times_ms in (first, later):
            message = broken.message
            started = time.process_time()
            diagnose(message)
            times_ms.append(1000 * (time.process_time() - started))
    for name, times_ms in (("first", first), ("then", later)):
        cuts = statistics.quantiles(times_ms, n=100)
        print(
            f"{count} small frames, {name}: median {cuts[49]:.2f} ms, 90 % {cuts[89]:.1f} ms, 99 % {cuts[98]:.1f} ms, "
            f"worst {max(times_ms):.1f} ms"
        )


def measure_fuzzed(count: int) -> None:
    """Measure the time of `explain` for fuzzed frames: the shortest of three runs."""
    source = Source("benchmark")
    exchanges = [source.exchange(number) for number in range(count)]
    best = [float("inf")] * count
    for _ in range(3):
        for number, exchange in enumerate(exchanges):
            started = time.process_time()
            explain(exchange.response, (exchange.key, exchange.version)) if number % 2 else explain(exchange.request)
            best[number] = min(best[number], 1000 * (time.process_time() - started))
        gc.collect()
    cuts = statistics.quantiles(best, n=100)
    mean = statistics.mean(best)
    print(f"{count} frames of the fuzz: mean {mean:.2f} ms, median {cuts[49]:.2f} ms, 99 % {cuts[98]:.1f} ms")


def measure_memory(count: int) -> None:
    """Measure the memory that broken frames leave allocated: layouts, readers and proposals for later frames."""
    source = Source("benchmark")
    tracemalloc.start()
    for number in range(count):
        exchange = source.exchange(number)
        explain(exchange.response, (exchange.key, exchange.version)) if number % 2 else explain(exchange.request)
    gc.collect()
    print(f"{count} frames of the fuzz leave {tracemalloc.get_traced_memory()[0] / 1e6:.1f} MB")
    tracemalloc.stop()


if __name__ == "__main__":
    measure_memory(1000)
    measure_fuzzed(300)
    measure_large()
    measure_small(500)
