"""Release lines: what a broker of each Kafka release from 0.10.0 on says that it serves, and what it does serve.

The data beside this module is made from Kafka's own classes by ``kproxy schemas import`` and ``kproxy schemas lines``;
it is read when first asked for. It is what clients meet at a typical cluster: one with ZooKeeper until 3.2, which
advertises the APIs between brokers too, and a KRaft broker from 3.3 on. Versions that are not stable are not in it, nor
is client telemetry (KIP-714), which needs a plug-in that Kafka does not come with.
"""

from __future__ import annotations

import functools
import json
import pkgutil
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

Ranges = Mapping[int, tuple[int, int]]


@dataclass(frozen=True, slots=True)
class Feature:
    """A feature of a cluster (KIP-584): levels `lowest` to `highest` are supported, `level` is finalized (0: none)."""

    lowest: int
    highest: int
    level: int


@dataclass(frozen=True, slots=True)
class ReleaseLine:
    """A release line, e.g. 4.4.

    Attributes:
        name: ``4.4``; with three numbers before 1.0.
        release: The one that was read, e.g. ``4.4.0``.
        kraft: Whether its brokers are KRaft's; else there is a ZooKeeper.
        advertised: API key -> lowest and highest version in its ApiVersions response.
        served: The same for what it answers: Kafka 4 advertises Produce from 0 and serves it from 3 (KAFKA-18659).
        features: By name; none before 3.3. The finalized levels are those of storage that was formatted with
            ``--standalone`` and nothing else.

    Its ApiVersions has version 3 from 2.4 on (KIP-511), 4 from 3.9 on: below that a feature whose lowest level is 0 is
    left out of those supported. Asked in a version that it does not know, every broker answers UNSUPPORTED_VERSION as
    version 0: with no APIs before 2.4, with its range of ApiVersions alone since. The epoch of the finalized features
    is absent before 2.7, 0 with ZooKeeper, and an offset in the metadata log with KRaft.
    """

    name: str
    release: str
    kraft: bool
    advertised: Ranges
    served: Ranges
    features: Mapping[str, Feature]

    def since(self, name: str) -> bool:
        """Whether this is the line of that name or a later one."""
        return lines().index(self.name) >= lines().index(name)


@functools.cache
def _rows() -> Mapping[str, Mapping[str, Any]]:
    data = pkgutil.get_data("dissectors.schemas", "lines.json")
    assert data is not None
    return {row["line"]: row for row in json.loads(data)}


def lines() -> tuple[str, ...]:
    """The names of the release lines, oldest first: ``0.10.0`` and so on."""
    return tuple(_rows())


@functools.cache
def line(release: str) -> ReleaseLine:
    """The line that a release belongs to.

    Args:
        release: A line (``2.8``), a release of it (``2.8.1``), or the beginning of some (``0.10``: the newest of them).

    Raises:
        ValueError: There is none; one sentence that names those there are.
    """
    row = _rows()[_name(release)]
    advertised = _ranges(row["apis"])
    return ReleaseLine(
        name=row["line"],
        release=row["release"],
        kraft=row["listener"] == "broker",
        advertised=advertised,
        served={**advertised, **_ranges(row["served"])},
        features={name: Feature(*levels) for name, levels in row["features"].items()},
    )


def _name(release: str) -> str:
    if re.fullmatch(r"\d+(\.\d+){1,3}", release):
        for name in reversed(lines()):
            if f"{name}.".startswith(f"{release}.") or release.rpartition(".")[0] == name:
                return name
    raise ValueError(f"no Kafka release {release!r} is known; those known are {', '.join(lines())}")


def _ranges(ranges: Mapping[str, tuple[int, int]]) -> Ranges:
    return {int(key): (lowest, highest) for key, (lowest, highest) in ranges.items()}
