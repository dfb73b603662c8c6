"""Quirk: one broker bug, and the responses that it affects."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from dissectors import schemas
from dissectors.edits import Edit, EditError, frame_layout, write
from dissectors.wire.layout import layout


@dataclass(slots=True)
class ServedResponse:
    """A response in progress: its body, how it is encoded, and how its frames are sent.

    Attributes:
        api: Kafka's name of the API.
        version: The version of the body.
        correlation_id: The correlation id, by default that of the request.
        body: The values by snake_case name.
        request: The body of the request.
        edit: The edit with which to encode it; None for the correct layout.
        frames: The frames to send, each with its length prefix; set by `write`.
        delay_ms: The delay before sending.
        close: Whether the connection is closed afterwards.
    """

    api: str
    version: int
    correlation_id: int
    body: Mapping[str, Any]
    request: Mapping[str, Any]
    edit: Edit | None = None
    frames: list[bytes] = field(default_factory=list)
    delay_ms: float = 0
    close: bool = False

    def write(self) -> None:
        """Encode the frame.

        Raises:
            EncodeError: A value does not fit its type.
        """
        api = schemas.api_by_name(self.api)
        assert api is not None
        header = layout("ResponseHeader", schemas.header_versions(api.key, self.version)[1])
        correct_layout = frame_layout(header, layout(f"{self.api}Response", self.version))
        values = {"header": {"correlation_id": self.correlation_id}, "body": self.body}
        try:
            self.frames = [write(self.edit, correct_layout, values)]
        except EditError:  # the edit only fits other versions that the quirk covers
            self.frames = [write(None, correct_layout, values)]


#: Changes a response, before or after it is encoded.
ResponseChange: TypeAlias = Callable[[ServedResponse], None]


@dataclass(slots=True)
class Quirk:
    """One bug. `text` is its notation, `description` its description as a sentence.

    `before` changes a response before it is encoded, `after` changes its frames. `skips` means that the request is not
    processed at all. `times` counts down if the number of occurrences is limited.
    """

    text: str
    description: str
    api: str
    versions: range | None = None
    before: ResponseChange | None = None
    after: ResponseChange | None = None
    skips: bool = False
    client: str | None = None
    topic: str | None = None
    probability: float = 1.0
    times: int | None = None
    chance: Callable[[], float] = random.random

    def applies_to(self, api: str, version: int, client_id: str | None, body: Mapping[str, Any]) -> bool:
        """Return whether the quirk applies to this request, at random if it has a probability; count occurrences."""
        if self.api not in ("*", api) or (self.versions is not None and version not in self.versions):
            return False
        if self.client is not None and self.client != client_id:
            return False
        if self.topic is not None and self.topic not in _requested_topics(body):
            return False
        if self.times == 0 or (self.probability < 1 and self.chance() >= self.probability):
            return False
        if self.times is not None:
            self.times -= 1
        return True


def _requested_topics(body: Mapping[str, Any]) -> set[Any]:
    """Return the names of all topics in a request."""
    names: set[Any] = set()
    for name in ("topics", "topic_data", "topic_partitions", "topic_names"):
        for entry in body.get(name) or ():
            names.add(entry if isinstance(entry, str) else entry.get("name", entry.get("topic")))
    return names
