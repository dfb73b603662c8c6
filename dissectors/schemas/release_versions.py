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
    """Return the lowest and highest version that brokers of a release serve, by API key.

    Release lines cover the APIs for clients. Other APIs (between brokers, for controllers, telemetry) are taken from
    the oldest imported release that is not earlier, or else from the newest one.

    Args:
        release: As for `dissectors.schemas.lines.line`: ``4.0``, ``3.9.1``.

    Raises:
        ValueError: The release is unknown; the message lists the known ones.
    """
    line = lines.line(release)
    imported = schemas.releases()
    imported_release = next(
        (candidate for candidate in imported if _release_numbers(candidate) >= _release_numbers(line.release)),
        imported[-1],
    )
    ranges = {
        api.key: (versions.lowest, versions.highest)
        for api in schemas.apis()
        if (versions := api.releases.get(imported_release)) and api.key not in _client_api_keys()
    }
    return ranges | {key: versions for key, versions in line.served.items() if key in _client_api_keys()}


@functools.cache
def first_lines_without() -> Mapping[tuple[int, int], str]:
    """Return, by API key and version, the first release line whose brokers no longer serve the version."""
    last_lines = {
        (key, version): name
        for name in lines.lines()
        for key, (lowest, highest) in served(name).items()
        for version in range(lowest, highest + 1)
    }
    next_lines = dict(pairwise(lines.lines()))
    return {key_and_version: next_lines[name] for key_and_version, name in last_lines.items() if name in next_lines}


@functools.cache
def _client_api_keys() -> frozenset[int]:
    """Return the keys of the APIs that brokers of any KRaft line serve to clients."""
    all_lines = map(lines.line, lines.lines())
    return frozenset(key for line in all_lines if line.kraft for key in line.served)


def _release_numbers(release: str) -> list[int]:
    return [int(number) for number in release.split(".")]
