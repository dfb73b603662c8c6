"""BrokerNames: a host name for each broker, so that one TLS port can lead to all of them (SNI)."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Final

PLACEHOLDER: Final = "$id"
_MOST_DIGITS = 10  # of a node id, an int32


@dataclass(frozen=True)
class BrokerNames:
    """Names made of a pattern, e.g. ``broker-$id.kafka.example.com``.

    Attributes:
        pattern: With ``$id`` where the node id goes, once.
        port: That clients are told; None for the one that the bootstrap listener has.
    """

    pattern: str
    port: int | None = None
    _expression: re.Pattern[str] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        before, _, after = self.pattern.rstrip(".").partition(PLACEHOLDER)
        expression = re.escape(before) + rf"(0|[1-9]\d{{0,{_MOST_DIGITS - 1}}})" + re.escape(after) + r"\.?"
        object.__setattr__(self, "_expression", re.compile(expression, re.ASCII | re.IGNORECASE))

    def place(self, node_id: int, port: int) -> tuple[str, int]:
        """Host and port of a broker, where the bootstrap listener has this port."""
        return self.pattern.replace(PLACEHOLDER, str(node_id)), self.port or port

    def node_id(self, name: str) -> int | None:
        """The broker with this name; None if it is the name of none."""
        found = self._expression.fullmatch(name)
        return None if found is None else int(found[1])

    def is_one(self, host: str, address_port: int, port: int) -> bool:
        """Whether an address is already one that clients are told, where the bootstrap listener has `port`."""
        return self.node_id(host) is not None and address_port == (self.port or port)
