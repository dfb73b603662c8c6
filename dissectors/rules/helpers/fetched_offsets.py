"""The groups of OffsetFetch responses."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any


def fetched_groups(
    body: Mapping[str, Any], request_body: Mapping[str, Any]
) -> Iterator[tuple[str, list[Mapping[str, Any]], tuple[str | int, ...]]]:
    """Each group of an OffsetFetch response with its topics and its path. From version 8 on, there may be several."""
    if "groups" in body:
        for i, group in enumerate(body["groups"] or ()):
            yield group.get("group_id") or "", group.get("topics") or [], ("groups", i)
    elif group_id := request_body.get("group_id"):
        yield group_id, body.get("topics") or [], ()
