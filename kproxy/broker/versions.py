"""The APIs and versions that a cluster supports: all of the broker's, or those of one Kafka release."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping

from dissectors.schemas.lines import line
from kproxy.broker.registry import BrokerApi


def of_release(apis: Mapping[int, BrokerApi], release: str | None) -> Mapping[int, BrokerApi]:
    """Return the APIs of a release with their versions; all of them for None.

    Raises:
        ValueError: Unknown release; the message lists the known ones.
    """
    if release is None:
        return apis
    known = line(release)
    found: dict[int, BrokerApi] = {}
    for key, api in apis.items():
        if key not in known.served:
            continue
        lowest, highest = known.served[key]
        advertised, _ = known.advertised.get(key, (lowest, highest))
        lowest, highest = max(lowest, api.lowest), min(highest, api.highest)
        if lowest <= highest:
            found[key] = dataclasses.replace(api, lowest=lowest, highest=highest, advertised=min(lowest, advertised))
    return found
