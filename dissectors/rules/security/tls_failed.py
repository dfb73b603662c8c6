"""X022: TLS between kproxy and a client or a broker that fails."""

from __future__ import annotations

from collections.abc import Iterator

from dissectors.connections.addresses import host_of
from dissectors.connections.events import TlsFailed
from dissectors.connections.tls_failures import TlsReason, describe
from dissectors.findings import Problem, Severity
from dissectors.rules import rule
from dissectors.trackers.state import ConnectionState

_TRUST = "make the client trust the CA of --tls-cert; for a CA of kproxy's, kproxy ca export has the instructions"
_NO_TLS = "set security.protocol=SSL or SASL_SSL on the client, or use a listener of kproxy without --tls-cert"
#: Hints by the side that TLS fails with, who gave up, and the reason.
_HINTS = {
    ("client", "client", TlsReason.UNKNOWN_CA): _TRUST,
    ("client", "client", TlsReason.EXPIRED): "renew the certificate of --tls-cert, and check the client's clock",
    ("client", "client", TlsReason.BAD_CERTIFICATE): "--tls-cert needs the host name that the client connects to as a "
    "subject alternative name; " + _TRUST,
    ("client", "client", TlsReason.CLOSED): "check the client's log: some clients close without an alert if they do "
    "not trust the certificate; " + _TRUST,
    ("client", "proxy", TlsReason.UNKNOWN_CA): "add the CA of the client's certificate to --tls-client-ca",
    ("client", "proxy", TlsReason.EXPIRED): "renew the client's certificate",
    ("client", "proxy", TlsReason.CERTIFICATE_REQUIRED): "give the client a certificate (a keystore), or omit "
    "--tls-client-ca",
    ("client", "proxy", TlsReason.PROTOCOL_VERSION): "enable TLS 1.2 or 1.3 on the client",
    ("client", "proxy", TlsReason.NO_SHARED_CIPHER): "check that the client's cipher suites fit the key of --tls-cert "
    "(RSA or ECDSA)",
    ("client", "proxy", TlsReason.PLAINTEXT): _NO_TLS,
    ("server", "proxy", TlsReason.UNKNOWN_CA): "pass the CA of the broker's certificate with --upstream-ca",
    ("server", "proxy", TlsReason.EXPIRED): "renew the broker's certificate",
    ("server", "proxy", TlsReason.NOT_YET_VALID): "check the clocks of both machines",
    ("server", "proxy", TlsReason.NAME_MISMATCH): "use a host name that is in the broker's certificate for --upstream "
    "and advertised.listeners, or pass one with --upstream-sni",
    ("server", "proxy", TlsReason.PLAINTEXT): "omit --upstream-tls, or use the port of the broker's TLS listener",
    ("server", "server", TlsReason.CLOSED): "check that the port is the broker's TLS listener: a plaintext listener "
    "closes when it gets a TLS handshake",
    ("server", "server", TlsReason.UNKNOWN_CA): "the broker's truststore needs the CA of --upstream-cert",
    ("server", "server", TlsReason.CERTIFICATE_REQUIRED): "pass --upstream-cert and --upstream-key",
    ("server", "server", TlsReason.NO_SHARED_CIPHER): "if the broker requires a client certificate, pass "
    "--upstream-cert and --upstream-key",
    ("server", "server", TlsReason.PROTOCOL_VERSION): "enable TLS 1.2 or 1.3 on the broker",
    ("server", "server", TlsReason.UNKNOWN_NAME): "pass a name that the broker knows with --upstream-sni",
}


@rule("X022", severity=Severity.ERROR, events=(TlsFailed,), since="0.1", blame="client")
def tls_failed(event: TlsFailed, connection: ConnectionState) -> Iterator[Problem]:
    """Checks that kproxy and its peers can establish TLS, where kproxy terminates or originates it.

    ## Why it matters
    The connection carries no Kafka at all, and clients log little more than "SSL handshake failed" or "disconnected".
    The finding names the side (client or upstream), who gave up, and why. Where the client gave up, it is known only
    what its TLS alert says; many clients send the same alert for several reasons.

    ## Usual cause
    A truststore without the CA; a certificate without the host name that was dialled, or an expired one; a missing
    client certificate; a plaintext client on a TLS port, or the reverse.

    ## Example
    ```story
    open 1 client=10.0.0.9:50000 server=10.0.0.1:9093 tls
    tls client by=client reason=unknown_ca
    close by=client how=tls
    ```

    ## Looks alike
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
        hint=_HINTS.get((event.side, event.by, event.reason)),
        blame="client" if is_client else "broker",
        got=event.detail or None,
        # Whoever else is at this listener has a configuration of its own.
        cause=f"{peer} {event.by} {event.reason}",
    )
