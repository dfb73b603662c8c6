"""What must hold whatever happens. Each function lists the violations as sentences; none means that it holds."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from itertools import pairwise
from typing import Final

from tests.peers.trace import Line

#: The most memory that a part may ever have, in MB. The relay may keep 64 MiB for an inspector that does not read.
MAX_MB: Final = {"relay": 170.0, "spawner": 70.0, "inspector": 200.0, "worker": 200.0}
_SHOWN = 5


def lost_or_doubled(acked: Collection[int], stored: Sequence[Sequence[int]]) -> Iterator[str]:
    """Acknowledged records that are not stored, records that are stored twice, or in another order."""
    counts = Counter(number for partition in stored for number in partition)
    if lost := sorted(set(acked) - counts.keys()):
        yield f"{len(lost)} acknowledged records are not stored: {lost[:_SHOWN]}"
    if doubled := [number for number, count in counts.items() if count > 1]:
        yield f"{len(doubled)} records are stored more than once: {doubled[:_SHOWN]}"
    for index, partition in enumerate(stored):
        if swapped := [after for before, after in pairwise(partition) if after < before]:
            yield f"partition {index} has records in another order than they were produced: {swapped[:_SHOWN]}"


def unbounded(peaks: Mapping[str, float]) -> Iterator[str]:
    """Parts with too much memory."""
    for part, peak in peaks.items():
        if peak > (most := MAX_MB[part.split()[0]]):
            yield f"the {part} had {peak:.0f} MB, of at most {most:.0f}"


def crashed(printed: str) -> Iterator[str]:
    """Errors that a user must never see."""
    for word in ("Traceback", "this is a bug in kproxy", "K007"):
        if word in printed:
            yield f"kproxy printed {word}: {printed}"


def unaccounted(lines: Iterable[Line]) -> Iterator[str]:
    """Connections whose frames and gaps in the trace are not all the bytes that were relayed.

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
        found = gaps[key] + sum(min(length, size - offset) for offset, length in frames[key])  # the last may be cut
        if found < size or (found > size and not restarted):
            yield f"{size} bytes of {key[1]}s of {key[0]} were relayed, but the trace has {found}"
