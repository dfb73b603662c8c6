"""BrokerNames: a host name for each broker, so that one TLS port serves all brokers (SNI)."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Final

PLACEHOLDER: Final = "$id"
_MAX_DIGITS = 10  # of a node id, an int32


@dataclass(frozen=True)
class BrokerNames:
    """Names made from a pattern, e.g. ``broker-$id.kafka.example.com``.

    Attributes:
        pattern: A host name that contains ``$id`` once, in place of the node id.
        port: The port that clients get; None means that of the bootstrap listener.
    """

    pattern: str
    port: int | None = None
    _expression: re.Pattern[str] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        prefix, _, suffix = self.pattern.rstrip(".").partition(PLACEHOLDER)
        expression = re.escape(prefix) + rf"(0|[1-9]\d{{0,{_MAX_DIGITS - 1}}})" + re.escape(suffix) + r"\.?"
        object.__setattr__(self, "_expression", re.compile(expression, re.ASCII | re.IGNORECASE))

    def advertised_address(self, node_id: int, port: int) -> tuple[str, int]:
        """Return the advertised host and port of a broker; `port` is that of the bootstrap listener."""
        return self.pattern.replace(PLACEHOLDER, str(node_id)), self.port or port

    def node_id(self, name: str) -> int | None:
        """Return the node id in a name, or None if the name does not match the pattern."""
        match = self._expression.fullmatch(name)
        return None if match is None else int(match[1])

    def is_advertised(self, host: str, address_port: int, port: int) -> bool:
        """Return whether an address is one that was advertised; `port` is that of the bootstrap listener."""
        return self.node_id(host) is not None and address_port == (self.port or port)
