"""Real brokers whose listeners use TLS, with every SASL mechanism or client certificates."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from confluent_kafka.admin import (
    AdminClient,
    NewTopic,
    ScramCredentialInfo,
    ScramMechanism,
    UserScramCredentialUpsertion,
)

from tests.kproxy.proxy.certificates import Authority, Files
from tests.peers.clients.secure_clients import Login
from tests.peers.kafka import HOST, Kafka
from tests.peers.tokens import TokenIssuer

USER = "alice"
PASSWORD = "Zwetschgen-Datschi-4711"
MECHANISMS = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", "OAUTHBEARER")
#: Listeners of every broker. SASL_SSL has all mechanisms; SSL requires a client certificate.
_LISTENERS = ("SASL_SSL", "SSL")
#: Listeners of the first broker only, in this order: logins without TLS; PLAIN only, with sessions of `SESSION_MS`;
#: an expired certificate; a certificate for a different host; TLS 1.1 only.
_SPECIAL_LISTENERS = ("SASL_PLAIN", "SASL_SSL_SHORT", "SSL_EXPIRED", "SSL_ELSEWHERE", "SSL_OLD")
SESSION_MS = 1000
_MODULES = {
    "PLAIN": f'plain.PlainLoginModule required user_{USER}="{PASSWORD}"',
    "SCRAM-SHA-256": "scram.ScramLoginModule required",
    "SCRAM-SHA-512": "scram.ScramLoginModule required",
    "OAUTHBEARER": "oauthbearer.OAuthBearerLoginModule required",
}
_SECURITY = "org.apache.kafka.common.security"


@dataclass(frozen=True)
class Certificates:
    """Two CAs. Brokers trust and use only certificates from `inside`, clients only from `outside`; kproxy uses both.

    So a client that exchanges records must do so through kproxy: a direct TLS connection to a broker cannot succeed.
    """

    inside: Authority
    outside: Authority
    broker: Files
    proxy_inside: Files
    proxy_outside: Files
    client: Files

    @classmethod
    def make(cls, directory: Path) -> Certificates:
        inside, outside = Authority(directory, "inside"), Authority(directory, "outside")
        proxy = outside.issue("localhost", HOST, "*.kafka.test")
        return cls(inside, outside, inside.issue(HOST), inside.issue("kproxy"), proxy, outside.issue(USER))

    def proxy_options(self, *, client_certificates: bool = False) -> list[str]:
        """Return kproxy's options for TLS on both sides."""
        inside, outside = self.proxy_inside, self.proxy_outside
        options = ["--tls-cert", str(outside.certificate), "--tls-key", str(outside.key)]
        options += ["--upstream-tls", "--upstream-ca", str(self.inside.path)]
        if client_certificates:
            options += ["--tls-client-ca", str(self.outside.path)]
            options += ["--upstream-cert", str(inside.certificate), "--upstream-key", str(inside.key)]
        return options


class SecureCluster:
    """Brokers that are ready when the constructor returns."""

    def __init__(self, release: str, directory: Path, brokers: int = 3) -> None:
        directory.mkdir(parents=True, exist_ok=True)
        self.release = release
        self.certificates = Certificates.make(directory)
        self.tokens = TokenIssuer(directory)
        self._directory = directory
        first = self._node(1, None)
        with ThreadPoolExecutor() as pool:
            others = pool.map(lambda number: self._node(number, first), range(2, brokers + 1))
            self.nodes = [first, *others]
        for node in self.nodes:
            node.launch()
        for node in self.nodes:
            node.wait()
        self._admin = AdminClient({"bootstrap.servers": "{}:{}".format(*first.direct), "log_level": 0})
        self._create_users()

    def create_topic(self, topic: str) -> None:
        """Create a topic with three partitions, spread over the brokers."""
        leaders = [[1 + number % len(self.nodes)] for number in range(3)]
        new_topic = NewTopic(topic, replica_assignment=leaders, num_partitions=3)
        self._admin.create_topics([new_topic])[topic].result(60)

    def kill(self) -> None:
        for node in self.nodes:
            node.kill()

    def login(self, mechanism: str, **changes: Any) -> Login:
        """Return a valid login through kproxy: with the right secret or, for mechanism "", the client certificate."""
        certificates = self.certificates
        login: dict[str, Any] = {"mechanism": mechanism, "ca": str(certificates.outside.path), "user": USER}
        if mechanism == "OAUTHBEARER":
            login["secret"] = self.tokens.token(USER)
        elif mechanism:
            login["secret"] = PASSWORD
        else:
            login |= {"certificate": str(certificates.client.certificate), "key": str(certificates.client.key)}
        return Login(**login | changes)

    def _node(self, number: int, member_of: Kafka | None) -> Kafka:
        properties = {"node.id": str(number), **self._tls_settings(), **self._sasl_settings()}
        listeners = [*_LISTENERS, *(_SPECIAL_LISTENERS if number == 1 else ())]
        if number == 1:
            properties |= self._special_listener_settings()
        jwks = f"-Dorg.apache.kafka.sasl.oauthbearer.allowed.urls={self.tokens.jwks.as_uri()}"
        security_file = self._directory / "old-tls.security"
        security_file.write_text("jdk.tls.disabledAlgorithms=\n")
        jvm = [jwks, f"-Djava.security.properties={security_file}"]
        directory = self._directory / f"node{number}"
        return Kafka(self.release, directory, dict.fromkeys(listeners, 0), properties, member_of, jvm, start=False)

    def _tls_settings(self) -> dict[str, str]:
        certificates = self.certificates
        return {
            "ssl.keystore.type": "PEM",
            "ssl.keystore.location": str(certificates.broker.combined()),
            "ssl.truststore.type": "PEM",
            "ssl.truststore.location": str(certificates.inside.path),
            "listener.name.ssl.ssl.client.auth": "required",
        }

    def _sasl_settings(self) -> dict[str, str]:
        prefix = "listener.name.sasl_ssl"
        validator = f"{_SECURITY}.oauthbearer.OAuthBearerValidatorCallbackHandler"
        return {
            "sasl.enabled.mechanisms": ",".join(MECHANISMS),
            f"{prefix}.oauthbearer.sasl.server.callback.handler.class": validator,
            "sasl.oauthbearer.jwks.endpoint.url": self.tokens.jwks.as_uri(),
            "sasl.oauthbearer.expected.audience": self.tokens.audience,
        } | {
            f"{prefix}.{mechanism.lower()}.sasl.jaas.config": f"{_SECURITY}.{_MODULES[mechanism]};"
            for mechanism in MECHANISMS
        }

    def _special_listener_settings(self) -> dict[str, str]:
        inside = self.certificates.inside
        return {
            "listener.name.sasl_plain.plain.sasl.jaas.config": f"{_SECURITY}.{_MODULES['PLAIN']};",
            "listener.name.sasl_plain.sasl.enabled.mechanisms": "PLAIN",
            "listener.name.sasl_ssl_short.plain.sasl.jaas.config": f"{_SECURITY}.{_MODULES['PLAIN']};",
            "listener.name.sasl_ssl_short.plain.connections.max.reauth.ms": str(SESSION_MS),
            "listener.name.sasl_ssl_short.sasl.enabled.mechanisms": "PLAIN",
            "listener.name.ssl_expired.ssl.keystore.location": str(inside.issue(HOST, days=-3).combined()),
            "listener.name.ssl_elsewhere.ssl.keystore.location": str(inside.issue("elsewhere.test").combined()),
            "listener.name.ssl_old.ssl.enabled.protocols": "TLSv1.1",
            "listener.name.ssl_old.ssl.protocol": "TLSv1.1",
        }

    def _create_users(self) -> None:
        for mechanism in (ScramMechanism.SCRAM_SHA_256, ScramMechanism.SCRAM_SHA_512):
            credential = ScramCredentialInfo(mechanism, 4096)
            user = UserScramCredentialUpsertion(USER, credential, PASSWORD.encode())
            self._admin.alter_user_scram_credentials([user])[USER].result(60)
