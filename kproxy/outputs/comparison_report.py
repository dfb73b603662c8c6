"""The differences between two traces as text and JSON lines."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict
from typing import Any, Final, TextIO

from dissectors.messages import value_annotations
from dissectors.wire.paths import parts
from kproxy.comparison.bodies import DifferenceKind
from kproxy.comparison.differences import Aspect, TrafficComparison, TrafficDifference
from kproxy.comparison.traffic import RecordedTraffic
from kproxy.outputs.text import painter
from kproxy.trace.encoding import encode_json
from kproxy.trace.formatting import safe

_MAX_CHARACTERS: Final = 120  # characters of a value in text


def write_text(comparison: TrafficComparison, file: TextIO) -> None:
    """Write the differences and the notes as text."""
    paint = painter(file)
    for name, traffic in (("A", comparison.a), ("B", comparison.b)):
        file.write(f"{name}: {safe(traffic.name)}: {traffic_size(traffic)}\n")
    for difference in comparison.differences:
        text_a, text_b = value_texts(difference)
        file.write("\n" + paint([(difference.aspect, "error"), (f" {title(difference)}", "name")]) + "\n")
        file.write(f"  A: {text_a}\n  B: {text_b}\n  {occurrences_text(difference)}\n")
    file.write("\n")
    file.writelines(f"{safe(note)}\n" for note in comparison.notes)
    file.write(f"{summary(comparison)}\n")


def write_json(comparison: TrafficComparison, file: TextIO) -> None:
    """Write a JSON line per difference, then one with the summary."""
    for difference in comparison.differences:
        file.write(encode_json(asdict(difference)).decode() + "\n")
    totals = Counter(str(difference.aspect) for difference in comparison.differences)
    sides = {name: {"name": traffic.name, "connections": len(traffic.connections), "requests": traffic.requests}
             for name, traffic in (("a", comparison.a), ("b", comparison.b))}  # fmt: skip
    summary_line = {"summary": dict(totals), **sides, "pairs": comparison.pairs, "notes": comparison.notes}
    file.write(encode_json(summary_line).decode() + "\n")


def traffic_size(traffic: RecordedTraffic) -> str:
    """Return the size of the traffic, e.g. ``2 connections, 12 requests``."""
    connections = len(traffic.connections)
    return (
        f"{connections} connection{'s' * (connections != 1)}, {traffic.requests} request{'s' * (traffic.requests != 1)}"
    )


def summary(comparison: TrafficComparison) -> str:
    """Return the number of differences, in total and by aspect."""
    if not comparison.differences:
        return f"no differences in {comparison.pairs} pairs of exchanges"
    totals = Counter(difference.aspect for difference in comparison.differences)
    by_aspect = ", ".join(f"{aspect} {count}" for aspect, count in totals.items())
    plural = "s" * (len(comparison.differences) != 1)
    return f"{len(comparison.differences)} difference{plural} in {comparison.pairs} pairs of exchanges: {by_aspect}"


def title(difference: TrafficDifference) -> str:
    """Return where the difference is, e.g. ``Metadata v9-v12 response topics[].error_code``."""
    words = (
        difference.subject,
        difference.api,
        _versions_text(difference.versions),
        difference.direction,
        difference.path,
    )
    return safe(" ".join(filter(None, words)))


def _versions_text(versions: Sequence[tuple[int, int]]) -> str:
    equal_versions = sorted(a for a, b in versions if a == b)
    if (
        equal_versions
        and equal_versions == list(range(equal_versions[0], equal_versions[-1] + 1))
        and len(equal_versions) > 1
    ):
        ranges = [f"v{equal_versions[0]}-v{equal_versions[-1]}"]
    else:
        ranges = [f"v{version}" for version in equal_versions]
    return ", ".join(ranges + [f"v{a} and v{b}" for a, b in sorted(versions) if a != b])


def value_texts(difference: TrafficDifference) -> tuple[str, str]:
    """Return the two sides in words, with the meaning of codes."""
    match difference.why:
        case DifferenceKind.ONLY_IN_A:
            return _value_text(difference, difference.a), "absent"
        case DifferenceKind.ONLY_IN_B:
            return "absent", _value_text(difference, difference.b)
        case DifferenceKind.SEEN:
            sides = (
                ", ".join(_value_text(difference, value) for value in side) if side else "no other value than B"
                for side in (difference.a, difference.b)
            )
            text_a, text_b = sides
            return text_a, text_b.replace("than B", "than A")
        case _:
            return _value_text(difference, difference.a), _value_text(difference, difference.b)


def occurrences_text(difference: TrafficDifference) -> str:
    """Return where a difference first occurs, and how often, e.g. ``first at A #0:3, B #1:3; 12 times``."""
    sides = [
        f"{side} {location}" for side, location in (("A", difference.place_a), ("B", difference.place_b)) if location
    ]
    location_text = f"first at {', '.join(sides)}" if sides else "in the whole trace"
    return safe(location_text) + (f"; {difference.count} times" if difference.count > 1 else "")


def _value_text(difference: TrafficDifference, value: Any) -> str:
    if difference.aspect not in (Aspect.FIELD, Aspect.ERROR_CODE) and isinstance(value, str):
        return safe(value)
    text = encode_json(value).decode()
    text = safe(text if len(text) <= _MAX_CHARACTERS else text[: _MAX_CHARACTERS - 1] + "…")
    meaning = value_annotations.meaning(difference.owner, tuple(parts(difference.path)), value)
    return f"{text} ({safe(meaning)})" if meaning else text
