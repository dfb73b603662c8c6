"""V009: an invalid version range."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from dissectors.connections.events import ResponseReceived
from dissectors.findings import Problem, Severity
from dissectors.messages.locate import locate
from dissectors.messages.message import api_name
from dissectors.rules import rule
from dissectors.trackers.state import ConnectionState


@rule("V009", severity=Severity.ERROR, events=(ResponseReceived,), apis=("ApiVersions",), since="0.1", blame="broker")
def bad_range(event: ResponseReceived, _: ConnectionState) -> Iterator[Problem]:
    """Checks that version ranges in an ApiVersions response are valid: min >= 0, max >= min, each API once.

    A response with mostly invalid entries has a layout error, which other rules report.

    ## Why it matters
    A client that intersects such a range with its own finds no version, or picks one that does not exist.

    ## Usual cause
    A broken server, or a proxy that narrows its upstream's ranges and shares no version with it.

    ## Example
    ```story
    > ApiVersions v0 {}
    < {"api_keys": [{"api_key": 3, "min_version": 9, "max_version": 5}, {"api_key": 1, "max_version": 11},
         {"api_key": 18, "max_version": 3}]}
    ```
    ```story
    > ApiVersions v0 {}
    < {"api_keys": [{"api_key": 3, "max_version": 5}, {"api_key": 3, "max_version": 9}, {"api_key": 18}]}
    ```

    ## Look-alikes
    ```story
    > ApiVersions v0 {}
    < {"api_keys": [{"api_key": 3, "min_version": 5, "max_version": 5}, {"api_key": 18}]}
    ```

    ## Sources
    https://github.com/kroxylicious/kroxylicious/issues/441
    https://kafka.apache.org/protocol#The_Messages_ApiVersions
    """
    message = event.message
    assert message is not None  # the rule gets only frames that decode
    entries = message.body["api_keys"]
    faults = list(_range_faults(entries))
    if not faults or 2 * len(faults) > len(entries):
        return
    index, fault = faults[0]
    others_text = f", and {len(faults) - 1} more such entries" if len(faults) > 1 else ""
    yield Problem(
        f"the ApiVersions response has {fault}{others_text}",
        **locate(message, "api_keys", index),
        hint="advertise each API once, with the lowest and highest version served",
        severity=None if event.request_body is not None else Severity.INFO,
        cause=fault,
    )


def _range_faults(entries: list[dict[str, Any]]) -> Iterator[tuple[int, str]]:
    seen_keys: set[int] = set()
    for index, api in enumerate(entries):
        key, lowest, highest = api["api_key"], api["min_version"], api["max_version"]
        if key in seen_keys:
            yield index, f"{api_name(key)} twice"
        elif not 0 <= lowest <= highest:
            yield index, f"the range {lowest} to {highest} for {api_name(key)}"
        seen_keys.add(key)
