"""What the diagnosis of a broken frame takes in CPU time, and whether any of many broken frames breaks it.

python benchmarks/diagnosis.py [FRAMES]
"""

from __future__ import annotations

import statistics
import sys
import time
import traceback
from collections import Counter

from dissectors.connections.events import Direction
from dissectors.diagnosis import diagnose
from kproxy.inspection.explain import explain
from kproxy.inspection.inspector import Inspector
from kproxy.trace.lines import RequestLine, ResponseLine
from tests.dissectors.diagnosis.broken import LARGE, Broken, Mutations

#: Frames that one inspector hears, each on a connection of its own: some departures it learns, others are new to it.
EACH_INSPECTOR = 50


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


def _hear(inspector: Inspector, number: int, request: bytes, broken: Broken) -> list[str]:
    """The codes of the findings about a broken frame on a connection of its own."""
    inspector.open(number, "10.0.0.9:50000", "10.0.0.1:9092", at=number)
    if broken.is_request:
        lines = inspector.data(number, Direction.REQUEST, broken.frame, at=number)
    else:
        inspector.data(number, Direction.REQUEST, request, at=number)
        lines = inspector.data(number, Direction.RESPONSE, broken.frame, at=number)
    inspector.close(number, at=number)
    return [each.code for line in lines if isinstance(line, RequestLine | ResponseLine) for each in line.findings]


def fuzz(count: int) -> int:
    """Explain and inspect that many broken frames; how many raised."""
    mutations, inspector = Mutations(11), Inspector("fuzz")
    counts: Counter[str] = Counter()
    slowest: list[tuple[float, str]] = []
    raised = 0
    began = time.process_time()
    for number in range(count):
        request, broken = mutations.exchange()
        what = f"{'request' if broken.is_request else 'response'} {broken.key} v{broken.version} {broken.frame.hex()}"
        if number % EACH_INSPECTOR == 0:
            inspector = Inspector("fuzz")
        started = time.process_time()
        try:
            asked = None if broken.is_request else (broken.key, broken.version)
            explained = explain(broken.frame, answered=asked, request=None if asked is None else request)
            diagnosis = explained.message.diagnosis
            counts["diagnosed" if diagnosis else "not diagnosed"] += 1
            counts["surely"] += diagnosis is not None and diagnosis.confidence >= 0.9
            assert all(finding.problem.diagnosis is None or 0 <= finding.problem.diagnosis.confidence <= 1
                       for finding in explained.findings)  # fmt: skip
            counts["with findings from a connection"] += bool(_hear(inspector, number, request, broken))
        except Exception:  # noqa: BLE001  # whatever it is, is what is looked for
            raised += 1
            print(f"RAISED: {what[:4000]}\n{traceback.format_exc()}", flush=True)
            inspector = Inspector("fuzz")
        slowest = sorted([*slowest, (1000 * (time.process_time() - started), what)], reverse=True)[:5]
        if number % 5_000 == 4_999:
            print(f"  {number + 1:,} frames in {time.process_time() - began:,.0f} s", file=sys.stderr, flush=True)
    print(f"{count:,} frames in {time.process_time() - began:,.0f} s: {raised} raised; {dict(counts)}")
    for taken, what in slowest:
        print(f"  {taken:.0f} ms: {what[:400]}")
    return raised


def main() -> None:
    """Time it, then fuzz it; status 1 if anything raised."""
    count = int(sys.argv[1]) if len(sys.argv) > 1 else 100_000
    large()
    small(500)
    raise SystemExit(fuzz(count) > 0)


if __name__ == "__main__":
    main()
