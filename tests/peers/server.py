"""Server: the built-in broker as the tests of it run against it, or a real Kafka in its place as their judge."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from tests.peers.lab import Lab
from tests.peers.proxy import Proxy

#: Names a release of Kafka: the tests of the built-in broker run against that instead.
JUDGE = "KPROXY_JUDGE"
#: What clients' own tests take for granted, in server.properties and in ours.
CONFIGS = {
    "node.id": "0",
    "num.partitions": "4",
    "default.replication.factor": "1",
    "group.min.session.timeout.ms": "1000",
}
#: Whoever is not logged in may do everything, and ACLs can be kept; the same as options of kproxy.
AUTHORIZER = {
    "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "super.users": "User:ANONYMOUS",
}
ACLS = ("--acls", "--super-user", "User:ANONYMOUS")


@dataclass(frozen=True)
class Server:
    """A broker at `bootstrap`; the proxy sees every frame."""

    bootstrap: str
    proxy: Proxy


@contextlib.contextmanager
def serving(judge: Lab | None, directory: Path) -> Iterator[Server]:
    """The built-in broker behind kproxy; with a judge, that one."""
    watched = ("-q", "--strict-trace")
    if judge is not None:
        with judge.chain("PLAIN", directory, *watched) as chain:
            yield Server(chain.bootstrap, chain.proxy)
        return
    configs = [option for pair in CONFIGS.items() for option in ("--config", "=".join(pair))]
    proxy = Proxy(None, directory, *watched, *ACLS, *configs)
    try:
        yield Server(proxy.bootstrap, proxy)
    finally:
        proxy.kill_all()
