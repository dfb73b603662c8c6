"""X022: TLS between kproxy and a client or a broker that fails."""

from __future__ import annotations

from collections.abc import Iterator

from dissectors.connections.addresses import host_of
from dissectors.connections.events import TlsFailed
from dissectors.connections.tls_failures import describe
from dissectors.findings import Problem, Severity
from dissectors.rules import rule
from dissectors.trackers.state import ConnectionState


@rule("X022", severity=Severity.ERROR, events=(TlsFailed,), since="0.1", blame="client")
def tls_failed(event: TlsFailed, connection: ConnectionState) -> Iterator[Problem]:
    """Checks that kproxy and its peers can establish TLS, where kproxy terminates or originates it.

    ## Why it matters
    The connection carries no Kafka at all, and clients log little more than "SSL handshake failed" or "disconnected".
    The finding names the side (client or upstream), who gave up, and why. If the peer gave up, only its TLS alert is
    known. Java and Go send the same alert whatever is wrong with a certificate; kproxy then checks its own certificate:
    has it expired, and is it for the host name that the client asked for?

    ## Usual cause
    A truststore lacks the CA. A certificate has expired, or lacks the host name. A client certificate is missing. A
    plaintext client uses a TLS port, or the reverse.

    ## Example
    ```story
    open 1 client=10.0.0.9:50000 server=10.0.0.1:9093 tls
    tls client by=client reason=unknown_ca
    close by=client how=tls
    ```

    ## Look-alikes
    A health check that connects and closes again:
    ```story
    open 1 client=10.0.0.9:50000 server=10.0.0.1:9093 tls
    close by=client how=tls
    ```

    ## Sources
    https://kafka.apache.org/documentation/#security_ssl
    https://www.rfc-editor.org/rfc/rfc8446#section-6.2
    """
    is_client = event.side == "client"
    peer = f"client {host_of(connection.client)}" if is_client else f"upstream {connection.server}"
    yield Problem(
        f"TLS with {peer} failed: {describe(event.reason, event.by, event.detail)}",
        hint=event.remedy,
        blame="client" if is_client else "broker",
        got=event.detail or None,
        # Other clients of this listener have configurations of their own.
        cause=f"{peer} {event.by} {event.reason}",
    )
