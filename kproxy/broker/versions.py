"""The APIs and versions that a cluster supports: all that the broker has, or those of one Kafka release."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping

from dissectors.schemas.lines import line
from kproxy.broker.registry import BrokerApi


def apis_of_release(apis: Mapping[int, BrokerApi], release: str | None) -> Mapping[int, BrokerApi]:
    """Return the APIs of a release with their versions; all APIs if the release is None.

    Raises:
        ValueError: Unknown release; the message lists the known ones.
    """
    if release is None:
        return apis
    release_line = line(release)
    release_apis: dict[int, BrokerApi] = {}
    for key, api in apis.items():
        if key not in release_line.served:
            continue
        lowest, highest = release_line.served[key]
        advertised, _ = release_line.advertised.get(key, (lowest, highest))
        lowest, highest = max(lowest, api.lowest), min(highest, api.highest)
        if lowest <= highest:
            release_apis[key] = dataclasses.replace(
                api, lowest=lowest, highest=highest, advertised=min(lowest, advertised)
            )
    return release_apis
