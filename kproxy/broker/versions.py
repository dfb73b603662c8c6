"""Which APIs and versions a cluster serves: all that the broker has, or what one Kafka release did."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping

from dissectors.schemas.lines import line
from kproxy.broker.registry import BrokerApi


def of_release(apis: Mapping[int, BrokerApi], release: str | None) -> Mapping[int, BrokerApi]:
    """What of these APIs a release served, at the versions that it did; all with None.

    Raises:
        ValueError: No such release; a sentence that lists those that there are.
    """
    if release is None:
        return apis
    known = line(release)
    found: dict[int, BrokerApi] = {}
    for key, each in apis.items():
        if key not in known.served:
            continue
        lowest, highest = known.served[key]
        advertised, _ = known.advertised.get(key, (lowest, highest))
        lowest, highest = max(lowest, each.lowest), min(highest, each.highest)
        if lowest <= highest:
            found[key] = dataclasses.replace(each, lowest=lowest, highest=highest, advertised=min(lowest, advertised))
    return found
