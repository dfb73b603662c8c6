"""Versions that later Kafka releases removed, found by comparing the releases in the schemas.

Source: KIP-896 (old versions of client APIs), KIP-724 (old message formats); the versions themselves are in the data.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping

from dissectors import schemas


@functools.cache
def newest_release() -> str:
    """Return the newest release in the schemas, e.g. ``4.4.0``."""
    return schemas.releases()[-1]


@functools.cache
def lowest_served() -> Mapping[int, int | None]:
    """Return the lowest version that the newest release serves, by API key; None if it removed the API.

    The result contains only APIs whose older versions some release served but the newest one does not.
    """
    newest = newest_release()
    versions: dict[int, int | None] = {}
    for api in schemas.apis():
        served = api.releases.get(newest)
        if served is None or served.lowest > api.min_version:
            versions[api.key] = served.lowest if served else None
    return versions


def is_removed(api_key: int, version: int) -> bool:
    """Whether an older release served a version that the newest one does not."""
    lowest = lowest_served()
    if api_key not in lowest:
        return False
    lowest_version = lowest[api_key]
    return lowest_version is None or version < lowest_version


def is_advertised_only(api_key: int, version: int, ranges: Mapping[int, tuple[int, int]]) -> bool:
    """Whether a server that has dropped the other removed versions only advertises this one, and does not serve it.

    Kafka 4 advertises Produce from v0 on so that old librdkafka compresses, but serves it from v3 on (KAFKA-18659).
    """
    if not is_removed(api_key, version) or not advertises(ranges, api_key, version):
        return False
    others_dropped = [
        lowest is not None and ranges[key][0] >= lowest
        for key, lowest in lowest_served().items()
        if key in ranges and key != api_key
    ]
    return len(others_dropped) >= 3 and all(others_dropped)


def advertises(ranges: Mapping[int, tuple[int, int]], api_key: int, version: int) -> bool:
    """Whether a version is in the ranges that a server advertises."""
    lowest, highest = ranges.get(api_key, (0, -1))
    return lowest <= version <= highest
