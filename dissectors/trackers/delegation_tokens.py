"""DelegationTokens: the owners of the tokens that were created or listed during the run (KIP-48)."""

from __future__ import annotations

from dissectors.bounded import BoundedDict
from dissectors.connections.events import ResponseReceived
from dissectors.trackers import tracker
from dissectors.trackers.state import ConnectionState

_MAX_TOKENS = 10_000


@tracker(events=(ResponseReceived,), apis=("CreateDelegationToken", "DescribeDelegationToken"))
class DelegationTokens:
    """The owner of each token by the token's id, in Kafka's notation (``User:alice``). Token ids are not secret."""

    def __init__(self) -> None:
        self.owners: BoundedDict[str, str] = BoundedDict(_MAX_TOKENS)

    def observe(self, event: ResponseReceived, _: ConnectionState) -> None:
        """Remember the owner of each token in a response."""
        if event.message is None:
            return
        body = event.message.body
        for token in (body, *(body.get("tokens") or ())):
            token_id, kind, name = (token.get(key) for key in ("token_id", "principal_type", "principal_name"))
            if token_id and kind and name:
                self.owners[token_id] = f"{kind}:{name}"
