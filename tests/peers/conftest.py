"""Real brokers, one of each release a test run, each behind ports that proxies take in turns."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.peers.kafka import RELEASES, Kafka, missing
from tests.peers.proxy import Chain, chained

USER = "alice"
PASSWORD = "Zwetschgen-Datschi-4711"
_JAAS = "org.apache.kafka.common.security"
_SASL = {
    "sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-256,SCRAM-SHA-512",
    "listener.name.sasl.plain.sasl.jaas.config": f'{_JAAS}.plain.PlainLoginModule required user_{USER}="{PASSWORD}";',
    "listener.name.sasl.scram-sha-256.sasl.jaas.config": f"{_JAAS}.scram.ScramLoginModule required;",
    "listener.name.sasl.scram-sha-512.sasl.jaas.config": f"{_JAAS}.scram.ScramLoginModule required;",
    "delegation.token.secret.key": "this one never leaves the broker",
}


@dataclass(frozen=True)
class Lab:
    """A broker, and by listener (PLAIN, SASL) the socket whose port it advertises: whoever proxies, accepts there."""

    kafka: Kafka
    fronts: dict[str, socket.socket]

    def chain(self, listener: str, directory: Path, *options: str) -> AbstractContextManager[Chain]:
        """kproxy with recorders on either side, on the way to one listener."""
        directory.mkdir(parents=True, exist_ok=True)
        return chained(self.fronts[listener], self.kafka.listeners[listener], directory, *options)


@pytest.fixture(scope="session", params=RELEASES)
def lab(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lab]:
    if reason := missing():
        pytest.skip(reason)
    fronts = {name: socket.create_server(("127.0.0.1", 0)) for name in ("PLAIN", "SASL")}
    advertised = {name: front.getsockname()[1] for name, front in fronts.items()}
    kafka = Kafka(request.param, tmp_path_factory.mktemp("kafka"), advertised, _SASL)
    yield Lab(kafka, fronts)
    kafka.kill()
    for front in fronts.values():
        front.close()
