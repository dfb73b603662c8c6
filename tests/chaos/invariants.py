"""Invariants that must hold in every story. Each function yields the violations as sentences."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from itertools import pairwise
from typing import Final

from tests.peers.trace import Line

#: The maximum memory of each process, in MB. The relay may keep 64 MiB for an inspector that does not read.
MAX_MB: Final = {"relay": 170.0, "spawner": 70.0, "inspector": 200.0, "worker": 200.0}
_SHOWN = 5


def lost_or_duplicated(acked: Collection[int], stored: Sequence[Sequence[int]]) -> Iterator[str]:
    """Yield acknowledged records that are not stored, and records that are stored twice or reordered."""
    counts = Counter(number for partition in stored for number in partition)
    if missing := sorted(set(acked) - counts.keys()):
        yield f"{len(missing)} acknowledged records are not stored: {missing[:_SHOWN]}"
    if duplicates := [number for number, count in counts.items() if count > 1]:
        yield f"{len(duplicates)} records are stored more than once: {duplicates[:_SHOWN]}"
    for index, partition in enumerate(stored):
        if out_of_order := [following for previous, following in pairwise(partition) if following < previous]:
            yield f"partition {index} has records in another order than they were produced: {out_of_order[:_SHOWN]}"


def excessive_memory(peaks: Mapping[str, float]) -> Iterator[str]:
    """Yield processes that used too much memory."""
    for part, peak in peaks.items():
        if peak > (limit := MAX_MB[part.split()[0]]):
            yield f"the {part} had {peak:.0f} MB, of at most {limit:.0f}"


def visible_crashes(printed: str) -> Iterator[str]:
    """Yield errors that a user must never see."""
    for word in ("Traceback", "this is a bug in kproxy", "K007"):
        if word in printed:
            yield f"kproxy printed {word}: {printed}"


def unaccounted_bytes(lines: Iterable[Line]) -> Iterator[str]:
    """Yield connections whose frames and gaps in the trace do not cover exactly the relayed bytes.

    A reset may cut a frame, which then is in no line. Lines that could not be written have no bytes: then there must be
    as many of them as frames are missing. Lines that were being written when the inspector was killed may be both in
    the trace and in a gap.
    """
    frames: dict[tuple[str, str], list[tuple[int, int]]] = defaultdict(list)
    gaps: Counter[tuple[str, str]] = Counter()
    relayed: dict[tuple[str, str], int] = {}
    missing = lost = 0
    restarted = False
    for line in lines:
        connection, kind, reason = line.get("connection_id") or "", line["kind"], line.get("reason", "")
        restarted |= "restarted" in reason
        if kind in ("request", "response"):
            frames[connection, kind].append((line["offset"], line["size"]))
            missing -= 1
        elif kind == "gap" and connection:
            gaps[connection, line["direction"]] += line["bytes"]
            missing -= line.get("frames", 0)
        elif kind == "gap" and "could not be written" in reason:
            lost += line["frames"]
        elif kind == "close":
            missing += line.get("requests", 0) + line.get("responses", 0)
            for direction in ("request", "response") if line.get("how") != "reset" else ():
                relayed[connection, direction] = line.get(f"{direction}_bytes", 0)
    if lost:
        if missing > lost and not restarted:
            yield f"{missing} frames are missing in the trace, but only {lost} lines are reported as lost"
        return
    for key, size in relayed.items():
        traced = gaps[key] + sum(
            min(length, size - offset) for offset, length in frames[key]
        )  # the last frame may be truncated
        if traced < size or (traced > size and not restarted):
            yield f"{size} bytes of {key[1]}s of {key[0]} were relayed, but the trace has {traced}"
