"""Quirk: one thing done wrong, and to which answers."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from dissectors import schemas
from dissectors.edits import Edit, EditError, frame_layout, write
from dissectors.wire.layout import layout


@dataclass(slots=True)
class Answer:
    """An answer on its way: its body, how it is written, and what is done with the frames.

    Attributes:
        api: Kafka's name.
        version: Of the body.
        correlation_id: As it was asked.
        body: Values by snake_case name.
        request: The body of the request.
        edit: How it is written; None is right.
        frames: What is sent, each with its length prefix; made by `write`.
        delay_ms: Before that.
        close: The connection is closed afterwards.
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
        """Make the frame.

        Raises:
            EncodeError: A value that its type cannot hold.
        """
        known = schemas.api_by_name(self.api)
        assert known is not None
        header = layout("ResponseHeader", schemas.header_versions(known.key, self.version)[1])
        right = frame_layout(header, layout(f"{self.api}Response", self.version))
        values = {"header": {"correlation_id": self.correlation_id}, "body": self.body}
        try:
            self.frames = [write(self.edit, right, values)]
        except EditError:  # it fits the quirk's other versions
            self.frames = [write(None, right, values)]


#: Changes the body or how it is written, before there are frames.
Before: TypeAlias = Callable[[Answer], None]


@dataclass(slots=True)
class Quirk:
    """What is done wrong. `text` is its notation; `says` a sentence.

    `before` acts on an answer before it is written, `after` on its frames. `skips` is set if the request is not even
    carried out. `times` counts down where it happens only so often.
    """

    text: str
    says: str
    api: str
    versions: range | None = None
    before: Before | None = None
    after: Before | None = None
    skips: bool = False
    client: str | None = None
    topic: str | None = None
    probability: float = 1.0
    times: int | None = None
    chance: Callable[[], float] = random.random

    def concerns(self, api: str, version: int, client_id: str | None, body: Mapping[str, Any]) -> bool:
        """Whether this request is answered wrongly; throws the dice and counts."""
        if self.api not in ("*", api) or (self.versions is not None and version not in self.versions):
            return False
        if self.client is not None and self.client != client_id:
            return False
        if self.topic is not None and self.topic not in _topics(body):
            return False
        if self.times == 0 or (self.probability < 1 and self.chance() >= self.probability):
            return False
        if self.times is not None:
            self.times -= 1
        return True


def _topics(body: Mapping[str, Any]) -> set[Any]:
    """The names of the topics in a request, wherever it has them."""
    found: set[Any] = set()
    for name in ("topics", "topic_data", "topic_partitions", "topic_names"):
        for each in body.get(name) or ():
            found.add(each if isinstance(each, str) else each.get("name", each.get("topic")))
    return found
