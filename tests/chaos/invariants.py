"""Invariants that must hold in every story. Each function yields the violations as sentences."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from itertools import pairwise
from typing import Final

from tests.peers.trace import Line

#: The maximum memory of each process, in MB. The relay may buffer 64 MiB for an inspector that does not read.
MAX_MB: Final = {"relay": 170.0, "spawner": 70.0, "inspector": 200.0, "worker": 200.0}
_MAX_SHOWN = 5
#: Bytes of the largest request of producers with their default settings; Fetch responses may be larger.
_MAX_REQUEST: Final = 1_100_000


def lost_or_duplicated(acked: Collection[int], stored: Sequence[Sequence[int]]) -> Iterator[str]:
    """Report acknowledged records that are not stored, and records that are stored twice or reordered."""
    counts = Counter(number for partition in stored for number in partition)
    if missing := sorted(set(acked) - counts.keys()):
        yield f"{len(missing)} acknowledged records are not stored: {missing[:_MAX_SHOWN]}"
    if duplicates := [number for number, count in counts.items() if count > 1]:
        yield f"{len(duplicates)} records are stored more than once: {duplicates[:_MAX_SHOWN]}"
    for index, partition in enumerate(stored):
        if out_of_order := [following for previous, following in pairwise(partition) if following < previous]:
            yield f"partition {index} has records in another order than they were produced: {out_of_order[:_MAX_SHOWN]}"


def excessive_memory(peaks: Mapping[str, float]) -> Iterator[str]:
    """Report processes that used too much memory."""
    for process_name, peak in peaks.items():
        if peak > (limit := MAX_MB[process_name.split()[0]]):
            yield f"the {process_name} had {peak:.0f} MB, of at most {limit:.0f}"


def visible_crashes(printed: str) -> Iterator[str]:
    """Report printed errors that a user must never see."""
    for word in ("Traceback", "this is a bug in kproxy", "K007"):
        if word in printed:
            yield f"kproxy printed {word}: {printed}"


def unaccounted_bytes(lines: Iterable[Line]) -> Iterator[str]:
    """Report connections whose frames and gaps in the trace do not cover exactly the relayed bytes.

    A reset may cut off a frame, which then has no line, and so may the end of a killed relay ("proxy ended"; otherwise
    it closes connections by "shutdown"): then all whole frames must be there. A
    gap for lines that could not be written has no byte count; in that case, no more frames may be missing than it
    reports as lost. Lines that were being written when the inspector was killed may be both in the trace and in a gap.
    """
    frames: dict[tuple[str, str], list[tuple[int, int]]] = defaultdict(list)
    gaps: Counter[tuple[str, str]] = Counter()
    gap_frames: Counter[tuple[str, str]] = Counter()
    relayed: dict[tuple[str, str], int] = {}
    whole_frames: dict[tuple[str, str], int] = {}  # of directions whose last frame may be cut off
    missing_frames = lost_lines = 0
    restarted = False
    for line in lines:
        connection, kind, reason = line.get("connection_id") or "", line["kind"], line.get("reason", "")
        restarted |= "restarted" in reason
        if kind in ("request", "response"):
            frames[connection, kind].append((line["offset"], line["size"]))
            missing_frames -= 1
        elif kind == "gap" and connection:
            gaps[connection, line["direction"]] += line["bytes"]
            gap_frames[connection, line["direction"]] += line.get("frames", 0)
            missing_frames -= line.get("frames", 0)
        elif kind == "gap" and "could not be written" in reason:
            lost_lines += line["frames"]
        elif kind == "close":
            missing_frames += line.get("requests", 0) + line.get("responses", 0)
            for direction in ("request", "response"):
                relayed[connection, direction] = line.get(f"{direction}_bytes", 0)
                if line.get("how") in ("reset", "proxy ended"):
                    whole_frames[connection, direction] = line.get(f"{direction}s", 0)
    if lost_lines:
        if missing_frames > lost_lines and not restarted:
            yield f"{missing_frames} frames are missing in the trace, but only {lost_lines} lines are reported as lost"
        return
    for key, size in relayed.items():
        traced = gaps[key] + sum(
            min(length, size - offset) for offset, length in frames[key]
        )  # the last frame may be truncated
        if (count := whole_frames.get(key)) is None:
            is_short = traced < size
        else:
            is_short = len(frames[key]) + gap_frames[key] < count or (
                key[1] == "request" and size - traced > _MAX_REQUEST
            )
        if is_short or (traced > size and not restarted):
            yield f"{size} bytes of {key[1]}s of {key[0]} were relayed, but the trace has {traced}"
