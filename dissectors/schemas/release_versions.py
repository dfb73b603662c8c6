"""The versions that brokers of each Kafka release serve, and the release that removed a version.

Source: the release lines and the releases of the schemas, both from Kafka's own classes.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping
from itertools import pairwise

from dissectors import schemas
from dissectors.schemas import lines


@functools.cache
def served(release: str) -> Mapping[int, tuple[int, int]]:
    """API key -> lowest and highest version that brokers of a release serve.

    Release lines cover the APIs of clients. Other APIs (between brokers, of controllers, telemetry) are those of the
    newest imported release that is not later.

    Args:
        release: In the form of `dissectors.schemas.lines.line`: ``4.0``, ``3.9.1``.

    Raises:
        ValueError: The release is unknown; the message lists the known ones.
    """
    line = lines.line(release)
    imported = schemas.releases()
    next_one = next(
        (candidate for candidate in imported if _numbers(candidate) >= _numbers(line.release)), imported[-1]
    )
    ranges = {
        api.key: (versions.lowest, versions.highest)
        for api in schemas.apis()
        if (versions := api.releases.get(next_one)) and api.key not in _known_to_lines()
    }
    return ranges | {key: versions for key, versions in line.served.items() if key in _known_to_lines()}


@functools.cache
def refused_from() -> Mapping[tuple[int, int], str]:
    """API key and version -> the first release line in which no broker serves it any more."""
    last = {
        (key, version): name
        for name in lines.lines()
        for key, (lowest, highest) in served(name).items()
        for version in range(lowest, highest + 1)
    }
    following = dict(pairwise(lines.lines()))
    return {use: following[name] for use, name in last.items() if name in following}


@functools.cache
def _known_to_lines() -> frozenset[int]:
    """APIs that brokers of any KRaft line serve to clients."""
    all_lines = map(lines.line, lines.lines())
    return frozenset(key for line in all_lines if line.kraft for key in line.served)


def _numbers(release: str) -> list[int]:
    return [int(number) for number in release.split(".")]
