"""Diagnosis: how a frame that does not read well departs from its layout."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from dissectors.events import RequestReceived, ResponseReceived

if TYPE_CHECKING:
    from dissectors.conversation import Conversation


@dataclass(frozen=True, slots=True)
class Rival:
    """Another edit that explains the frame, and how likely it is."""

    edit: Any
    confidence: float


@dataclass(frozen=True, slots=True)
class Diagnosis:
    """How a frame departs from its layout, most likely."""

    edit: Any
    confidence: float


@dataclass(slots=True)
class Learned:
    """Departures that were seen."""

    seen: dict[Any, Any] = field(default_factory=dict)


def examine(event: RequestReceived | ResponseReceived, conversation: Conversation) -> None:
    """Find out how the frame of an event departs, if it does not read well."""
