"""The built-in broker for its tests, or real Kafka in its place as a reference."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from tests.peers.lab import Lab
from tests.peers.proxy import Proxy

#: The environment variable with a release of Kafka that replaces the built-in broker in its tests.
JUDGE = "KPROXY_JUDGE"
#: Configs that clients' test suites expect, for server.properties and for kproxy.
CONFIGS = {
    "node.id": "0",
    "num.partitions": "4",
    "default.replication.factor": "1",
    "group.min.session.timeout.ms": "1000",
}
#: Configs with which anonymous clients may do everything, and ACLs can be stored; `ACLS` are the same for kproxy.
AUTHORIZER = {
    "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "super.users": "User:ANONYMOUS",
}
ACLS = ("--acls", "--super-user", "User:ANONYMOUS")


@dataclass(frozen=True)
class Server:
    """A broker at `bootstrap`, behind a proxy that sees every frame."""

    bootstrap: str
    proxy: Proxy


@contextlib.contextmanager
def run_server(judge: Lab | None, directory: Path) -> Iterator[Server]:
    """Run the built-in broker behind kproxy, or the judge if there is one."""
    proxy_options = ("-q", "--strict-trace")
    if judge is not None:
        with judge.chain("PLAIN", directory, *proxy_options) as chain:
            yield Server(chain.bootstrap, chain.proxy)
        return
    configs = [option for pair in CONFIGS.items() for option in ("--config", "=".join(pair))]
    proxy = Proxy(None, directory, *proxy_options, *ACLS, *configs)
    try:
        yield Server(proxy.bootstrap, proxy)
    finally:
        proxy.kill_all()
