"""Release lines: the versions that brokers of each Kafka release from 0.10.0 on advertise and serve.

``kproxy schemas import`` and ``kproxy schemas lines`` write the data from Kafka's own classes; it is loaded on demand.
It shows what clients get from a typical cluster: one with ZooKeeper up to 3.2, which also advertises inter-broker APIs,
and a KRaft broker from 3.3 on. It excludes unstable versions and client telemetry (KIP-714), which needs a plug-in that
Kafka does not include.
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
        release: The imported release of the line, e.g. ``4.4.0``.
        kraft: Whether its brokers use KRaft; otherwise ZooKeeper.
        advertised: API key -> lowest and highest version in its ApiVersions response.
        served: API key -> lowest and highest version that it serves: Kafka 4 advertises Produce from 0 and serves it
            from 3 (KAFKA-18659).
        features: By name; empty before 3.3. The finalized levels are as in storage formatted with only
            ``--standalone``.

    ApiVersions has version 3 from 2.4 on (KIP-511) and version 4 from 3.9 on; in lower versions, supported features
    whose lowest level is 0 are left out. Every broker answers an unknown version of ApiVersions with
    UNSUPPORTED_VERSION in version 0: without APIs before 2.4, with the range of ApiVersions since. The epoch of the
    finalized features is absent before 2.7, 0 with ZooKeeper, and an offset in the metadata log with KRaft.
    """

    name: str
    release: str
    kraft: bool
    advertised: Ranges
    served: Ranges
    features: Mapping[str, Feature]

    def is_at_least(self, name: str) -> bool:
        """Whether this line is the one with that name or a later one."""
        return lines().index(self.name) >= lines().index(name)


@functools.cache
def _rows() -> Mapping[str, Mapping[str, Any]]:
    data = pkgutil.get_data("dissectors.schemas", "lines.json")
    assert data is not None
    return {row["line"]: row for row in json.loads(data)}


def lines() -> tuple[str, ...]:
    """Return the names of the release lines, oldest first: ``0.10.0`` etc."""
    return tuple(_rows())


@functools.cache
def line(release: str) -> ReleaseLine:
    """Return the line of a release.

    Args:
        release: A line (``2.8``), one of its releases (``2.8.1``), or a prefix of several lines (``0.10``: the
            newest of them).

    Raises:
        ValueError: The release is unknown; the message lists the known ones.
    """
    row = _rows()[_line_name(release)]
    advertised = _ranges(row["apis"])
    return ReleaseLine(
        name=row["line"],
        release=row["release"],
        kraft=row["listener"] == "broker",
        advertised=advertised,
        served={**advertised, **_ranges(row["served"])},
        features={name: Feature(*levels) for name, levels in row["features"].items()},
    )


def _line_name(release: str) -> str:
    if re.fullmatch(r"\d+(\.\d+){1,3}", release):
        for name in reversed(lines()):
            if f"{name}.".startswith(f"{release}.") or release.rpartition(".")[0] == name:
                return name
    raise ValueError(f"no Kafka release {release!r} is known; those known are {', '.join(lines())}")


def _ranges(ranges: Mapping[str, tuple[int, int]]) -> Ranges:
    return {int(key): (lowest, highest) for key, (lowest, highest) in ranges.items()}
