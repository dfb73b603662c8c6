"""FramePlan: what the ordinary frames of one API, version and direction need on one connection."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeAlias

from dissectors.connections.events import RequestReceived, ResponseReceived
from dissectors.schemas.codes import ApiKey
from dissectors.trackers.triggers import SLOW_LATENCY, Subscribed

#: The `observe` method of a tracker instance: it takes an event and its `ConnectionState`.
Observer: TypeAlias = Callable[[Any, Any], None]

#: The APIs whose responses contain topic names and ids.
TOPIC_NAMING_APIS = frozenset({ApiKey.METADATA, ApiKey.CREATE_TOPICS, ApiKey.DESCRIBE_TOPIC_PARTITIONS})

#: `ConnectionState` reads each frame of these APIs.
_READ_ALWAYS = TOPIC_NAMING_APIS | {ApiKey.API_VERSIONS, ApiKey.SASL_HANDSHAKE}


@dataclass(slots=True)
class FramePlan:
    """The subscribers to the ordinary frames of a kind, determined once.

    `flags` are the flags of such a frame (none, or the SASL flag). The plan is valid while the run has the same
    `subscribed` object.
    `rules` are added by `dissectors.rules`, for frames to which no tracker adds a flag.
    """

    flags: int
    subscribed: Subscribed
    observers: tuple[Observer, ...]
    rules: tuple[Any, ...] | None = None


def is_ordinary(event: RequestReceived | ResponseReceived) -> bool:
    """Whether nothing in a frame is unusual: it gets no flags, except as the first of its kind or because of SASL."""
    message = event.message
    if message is None or not message.ordinary or event.damaged or message.api_key in _READ_ALWAYS:
        return False
    if type(event) is RequestReceived:
        return True
    return not event.overtaken and event.request is not None and event.at - event.request.at < SLOW_LATENCY  # type: ignore[union-attr]
