"""A real broker behind ports that proxies use in turn, and the credentials for tests."""

from __future__ import annotations

import socket
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path

from tests.peers.kafka import Kafka
from tests.peers.proxy import Chain, run_chain

USER = "alice"
PASSWORD = "Zwetschgen-Datschi-4711"
_JAAS = "org.apache.kafka.common.security"
#: Lines of server.properties for the listener SASL.
SASL = {
    "sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-256,SCRAM-SHA-512,OAUTHBEARER",
    "listener.name.sasl.plain.sasl.jaas.config": f'{_JAAS}.plain.PlainLoginModule required user_{USER}="{PASSWORD}";',
    "listener.name.sasl.scram-sha-256.sasl.jaas.config": f"{_JAAS}.scram.ScramLoginModule required;",
    "listener.name.sasl.scram-sha-512.sasl.jaas.config": f"{_JAAS}.scram.ScramLoginModule required;",
    # This listener accepts tokens without a signature.
    "listener.name.sasl.oauthbearer.sasl.jaas.config": f"{_JAAS}.oauthbearer.OAuthBearerLoginModule required;",
    "delegation.token.secret.key": "this one never leaves the broker",
}


@dataclass(frozen=True)
class Lab:
    """A broker and, for each listener (PLAIN, SASL), the socket for a proxy whose port the broker advertises."""

    kafka: Kafka
    fronts: dict[str, socket.socket]

    def chain(self, listener: str, directory: Path, *options: str) -> AbstractContextManager[Chain]:
        """Run kproxy in front of one listener, with a recorder on either side."""
        directory.mkdir(parents=True, exist_ok=True)
        return run_chain(self.fronts[listener], self.kafka.listeners[listener], directory, *options)
