"""The groups of OffsetFetch responses."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any


def fetched_groups(
    body: Mapping[str, Any], request_body: Mapping[str, Any]
) -> Iterator[tuple[str, list[Mapping[str, Any]], tuple[str | int, ...]]]:
    """Yield each group in an OffsetFetch response with its topics and path. Since version 8 there may be several."""
    if "groups" in body:
        for index, group in enumerate(body["groups"] or ()):
            yield group.get("group_id") or "", group.get("topics") or [], ("groups", index)
    elif group_id := request_body.get("group_id"):
        yield group_id, body.get("topics") or [], ()
