"""Misconfigurations of TLS or SASL: wrong settings, and the findings that report them."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.kproxy.proxy.certificates import Authority, Files
from tests.peers.clients.secure_clients import Login
from tests.peers.kafka import HOST
from tests.peers.secure_cluster import USER, SecureCluster
from tests.peers.tokens import TokenIssuer

WRONG_PASSWORD = "Apfelstrudel-0815-falsch"


class Setting:
    """A cluster, with certificates and tokens that it accepts and others that it rejects."""

    def __init__(self, cluster: SecureCluster, directory: Path) -> None:
        self.cluster = cluster
        certificates = cluster.certificates
        inside, outside = certificates.inside, certificates.outside
        self.stranger = Authority(directory, "stranger")
        (directory / "tokens").mkdir()
        self._stranger_tokens = TokenIssuer(directory / "tokens")
        mallory, expired_client = self.stranger.issue("mallory"), outside.issue("bob", days=-3)
        to_clients = {
            "right": _option_pair("tls", certificates.proxy_outside),
            "expired": _option_pair("tls", outside.issue(HOST, days=-3)),
            "elsewhere": _option_pair("tls", outside.issue("elsewhere.test")),
            "plaintext": [],
        }
        upstream = ["--upstream-tls", "--upstream-ca", str(inside.path)]
        to_brokers = {
            "right": upstream,
            "stranger's CA": ["--upstream-tls", "--upstream-ca", str(self.stranger.path)],
            "certificate": [*upstream, *_option_pair("upstream", certificates.proxy_inside)],
            "stranger's certificate": [*upstream, *_option_pair("upstream", mallory)],
            "expired certificate": [*upstream, *_option_pair("upstream", inside.issue("late", days=-3))],
            "plaintext": [],
        }
        self._to_clients, self._to_brokers = to_clients, to_brokers
        self._client_ca = ["--tls-client-ca", str(outside.path)]
        tokens = cluster.tokens
        self._logins: dict[str, Callable[[], dict[str, Any]]] = {
            "right": dict,
            "stranger's CA": lambda: {"ca": str(self.stranger.path)},
            "plaintext": lambda: {"ca": ""},
            "TLS 1.1": lambda: {"newest_tls": "TLSv1.1"},
            "no certificate": lambda: {"certificate": "", "key": ""},
            "stranger's certificate": lambda: _certificate_files(mallory),
            "expired certificate": lambda: _certificate_files(expired_client),
            "wrong password": lambda: {"secret": WRONG_PASSWORD},
            "unknown user": lambda: {"user": "nobody"},
            "expired token": lambda: {"secret": tokens.token(USER, expires_in=-60)},
            "early token": lambda: {"secret": tokens.token(USER, nbf=int(time.time()) + 9000)},
            "token for others": lambda: {"secret": tokens.token(USER, aud="others")},
            "stranger's token": lambda: {"secret": self._stranger_tokens.token(USER)},
            "no JWT": lambda: {"secret": "an-opaque-token-0815"},
        }

    def options(self, case: Case) -> list[str]:
        """Return kproxy's options for a case."""
        options = self._client_ca if case.asks_for_certificates else []
        return [*self._to_clients[case.to_clients], *options, *self._to_brokers[case.to_brokers]]

    def login(self, case: Case, bootstrap: str) -> Login:
        """Return the client's login for a case."""
        valid_login: dict[str, Any] = {"bootstrap": bootstrap, "topic": "orders", "seconds": 5}
        return self.cluster.login(case.mechanism, **valid_login | self._logins[case.login]())


def _option_pair(option: str, files: Files) -> list[str]:
    return [f"--{option}-cert", str(files.certificate), f"--{option}-key", str(files.key)]


def _certificate_files(files: Files) -> dict[str, str]:
    return {"certificate": str(files.certificate), "key": str(files.key)}


@dataclass(frozen=True, kw_only=True)
class Case:
    """A misconfiguration, and kproxy's finding.

    Attributes:
        name: The name in reports of tests.
        client: A client of `tests.peers.secure_clients`.
        listener: The broker's listener; DIRECT is plaintext without SASL.
        to_clients, to_brokers, login: Keys of the tables in `Setting`.
        code: The code of the finding.
        message: Parts of the finding's message.
        hint: A part of its hint.
        blame: Whom the finding blames.
        depends_on_release: Whether the result depends on the broker's release.
    """

    name: str
    client: str = "franz"
    listener: str = "SASL_SSL"
    mechanism: str = "PLAIN"
    to_clients: str = "right"
    asks_for_certificates: bool = False
    to_brokers: str = "right"
    login: str = "right"
    code: str = "X022"
    message: tuple[str, ...] = field(default=())
    hint: str = ""
    blame: str = "client"
    depends_on_release: bool = False
