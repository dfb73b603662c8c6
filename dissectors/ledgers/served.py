"""What the servers of a run have answered, and to whom."""

from __future__ import annotations

from typing import TypeAlias

from dissectors.conversation import Conversation
from dissectors.ledgers import Bounded
from dissectors.ledgers.versions import client_of

MAX_SERVED = 20_000

#: What a client asks to get its bearings: FindCoordinator, Metadata, ApiVersions, SASL.
BEARINGS = frozenset({3, 10, 17, 18, 36})

#: Server, client id, API key and version.
Kind: TypeAlias = tuple[str, str | None, int, int]


class Served:
    """Each connection notes here what is answered on it for the first time."""

    def __init__(self) -> None:
        self._kinds: Bounded[Kind, None] = Bounded(MAX_SERVED)
        self._at_work: Bounded[tuple[str, str | None], int] = Bounded(MAX_SERVED)

    def note(self, api: tuple[int, int], at: int, conversation: Conversation) -> None:
        """An API key and version was answered."""
        self._kinds[conversation.server, conversation.client_id, *api] = None
        if api[0] not in BEARINGS:
            self._at_work[client_of(conversation)] = at

    def has(self, kind: Kind) -> bool:
        """Whether that was answered before."""
        return kind in self._kinds

    def at_work(self, client: tuple[str, str | None]) -> int:
        """When a connection of that client last began with more than bearings; 0 if none did."""
        return self._at_work.get(client, 0)
