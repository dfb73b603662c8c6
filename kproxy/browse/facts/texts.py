"""Texts and counts that several overviews need."""

from __future__ import annotations

from collections.abc import Sequence

from kproxy.browse.overviews.clients import Client
from kproxy.browse.overviews.connection import ConnectionSummary

Facts = list[tuple[str, str]]


def names_and_counts(pairs: Sequence[tuple[str, int]]) -> str:
    """Return names with their counts, e.g. ``NOT_LEADER 3x, UNKNOWN 1x``."""
    return ", ".join(f"{name} {number:,}x" for name, number in pairs)


def software(item: Client | ConnectionSummary) -> str:
    """Return the client's software, e.g. ``apache-kafka-java 4.3.1``; empty if the client did not send it."""
    return f"{item.software_name or ''} {item.software_version or ''}".strip()


def downsample(counts: Sequence[int], width: int) -> list[int]:
    """Sum the counts into at most `width` bins."""
    bins = [0] * min(width, len(counts))
    for index, count in enumerate(counts):
        bins[index * len(bins) // len(counts)] += count
    return bins
