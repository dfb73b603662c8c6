"""Send broken frames through kproxy for hours, to find those that raise an exception, and the slowest.

python -m tests.fuzz REPORT             run until stopped; continue where REPORT.jsonl ends
python -m tests.fuzz REPORT --chunks 9  run 9 chunks
python -m tests.fuzz --chunk WAY:NUMBER [--frames N]   repeat one chunk

Each chunk takes one way through kproxy with its own seed, and adds a line to REPORT.jsonl: the slowest frame, the slow
ones, and those that raised, as hex. REPORT has the totals.
"""

from __future__ import annotations

import argparse
import gc
import json
import sys
import traceback
from collections import Counter
from itertools import count
from pathlib import Path
from typing import Any

from tests.fuzz.frames import Source
from tests.fuzz.watch import SLOW, Watch
from tests.fuzz.ways import WAYS


def run_chunk(way: str, number: int, frames: int | None = None) -> dict[str, Any]:
    """Run one chunk and describe it."""
    run_way, default_frames = WAYS[way]
    watch = Watch()
    with watch.failures():
        try:
            run_way(f"{way} {number}", frames or default_frames, watch)
        except Exception:  # noqa: BLE001  # raised outside a frame, or in a way that cannot continue
            watch.raised.append({"error": traceback.format_exc(), "frame": watch.frames})
    return {"way": way, "chunk": number} | watch.record()


def report(chunks: list[dict[str, Any]]) -> str:
    """Return a report with the totals of all chunks."""
    sections = []
    for way in WAYS:
        way_chunks = [chunk for chunk in chunks if chunk["way"] == way]
        frames, cpu_s = sum(chunk["frames"] for chunk in way_chunks), sum(chunk["cpu_s"] for chunk in way_chunks)
        raised = [(chunk, failure) for chunk in way_chunks for failure in chunk["raised"]]
        slow_count = sum(len(chunk["slow"]) for chunk in way_chunks)
        sections.append(
            f"{way}: {frames:,} frames in {cpu_s:,.0f} s of CPU, {len(raised)} raised, {slow_count} over {SLOW} ms"
        )
        if way_chunks:
            slowest_chunk = max(way_chunks, key=lambda chunk: chunk["slowest"]["ms"])
            slowest = slowest_chunk["slowest"]
            sections.append(
                f"  slowest: {slowest['ms']} ms, frame {slowest.get('frame')} of {way}:{slowest_chunk['chunk']}, "
                f"{slowest.get('hex', '')[:200]}"
            )
        last_lines = Counter(failure["error"].strip().splitlines()[-1] for _, failure in raised)
        sections += [f"  {repetitions} times: {error}" for error, repetitions in last_lines.most_common(20)]
        sections += [
            f"  frame {failure.get('frame')} of {way}:{failed_chunk['chunk']}: {failure['error']}"
            for failed_chunk, failure in raised[:5]
        ]
    return "\n".join(sections) + "\n"


def fuzz(report_path: Path, chunk_limit: int | None) -> None:
    """Run chunks, taking the ways in turn; continue after the chunks that are already in the report."""
    records = report_path.with_name(f"{report_path.name}.jsonl")
    chunks = [json.loads(line) for line in records.read_text().splitlines()] if records.exists() else []
    names = list(WAYS)
    for number in count(len(chunks)) if chunk_limit is None else range(len(chunks), len(chunks) + chunk_limit):
        chunks.append(run_chunk(names[number % len(names)], number // len(names)))
        with records.open("a") as records_file:
            records_file.write(json.dumps(chunks[-1]) + "\n")
        report_path.write_text(report(chunks))


def main() -> None:
    """Run the fuzzer, or repeat one of its chunks."""
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz")
    parser.add_argument("report", nargs="?", type=Path)
    parser.add_argument("--chunks", type=int)
    parser.add_argument("--chunk", metavar="WAY:NUMBER")
    parser.add_argument("--frames", type=int)
    args = parser.parse_args()
    Source("")  # load the frames to break now, so that collecting them is not counted as a frame's time
    gc.freeze()
    if args.chunk:
        way, number = args.chunk.split(":")
        sys.stdout.write(report([run_chunk(way, int(number), args.frames)]))
    elif args.report:
        fuzz(args.report, args.chunks)
    else:
        parser.error("pass REPORT or --chunk")


if __name__ == "__main__":
    main()
