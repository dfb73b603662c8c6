"""X005: a credential that is sent without encryption."""

from __future__ import annotations

from collections.abc import Iterator

from dissectors.connections.addresses import host_of, is_local
from dissectors.connections.events import RequestReceived
from dissectors.findings import Problem, Severity
from dissectors.messages.locate import locate
from dissectors.rules import rule
from dissectors.trackers.state import ConnectionState

_CREDENTIALS = {"PLAIN": "the password", "OAUTHBEARER": "the bearer token"}


@rule(
    "X005",
    severity=Severity.WARNING,
    events=(RequestReceived,),
    apis=("SaslHandshake",),
    since="0.1",
    blame="client",
)
def sasl_plain_cleartext(event: RequestReceived, connection: ConnectionState) -> Iterator[Problem]:
    """Checks that SASL PLAIN and OAUTHBEARER are used only over TLS.

    ## Why it matters
    Both send the credential itself: anyone who sees the traffic can log in with it. SCRAM and GSSAPI do not. If client
    and server are on one machine (loopback, a Unix socket), nothing crosses the network, and this is info. The same
    holds between kproxy and the broker if kproxy terminates the clients' TLS (`--tls-cert`) without `--upstream-tls`.

    ## Usual cause
    security.protocol=SASL_PLAINTEXT with sasl.mechanism=PLAIN, often left over from a first test. It is fine if TLS
    ends before kproxy and the rest of the path is trusted: then ignore this rule there.

    ## Example
    ```story
    open 1 client=10.0.0.9:50000 server=10.0.0.1:9092
    > SaslHandshake v1 {"mechanism": "PLAIN"}
    ```

    ```story
    open 1 client=10.0.0.9:50000 server=10.0.0.1:9092 tls plaintext_upstream
    > SaslHandshake v1 {"mechanism": "PLAIN"}
    ```

    ## Look-alikes
    ```story
    open 1 tls
    > SaslHandshake v1 {"mechanism": "PLAIN"}
    open 2
    2> SaslHandshake v1 {"mechanism": "SCRAM-SHA-512"}
    ```

    ## Sources
    https://kafka.apache.org/documentation/#security_sasl_plain
    https://www.rfc-editor.org/rfc/rfc4616#section-6
    """
    mechanism = event.message.body.get("mechanism")
    is_sent_by_relay = connection.plaintext_upstream
    if mechanism not in _CREDENTIALS or not connection.client or (connection.tls and not is_sent_by_relay):
        return
    is_all_local = is_local(connection.server) and (is_sent_by_relay or is_local(connection.client))
    sender, remedy = host_of(connection.client), "use security.protocol=SASL_SSL, or a SCRAM mechanism"
    if is_sent_by_relay:
        sender, remedy = "kproxy", "pass --upstream-tls to kproxy, or use a SCRAM mechanism"
    yield Problem(
        f"{_CREDENTIALS[mechanism]} of SASL {mechanism} is sent from {sender} to {connection.server} without TLS",
        severity=Severity.INFO if is_all_local else None,
        hint=f"{remedy}; change the credential if others may have seen it",
        blame="proxy" if is_sent_by_relay else None,
        expected="TLS",
        got=f"{mechanism} in the clear",
        **locate(event.message, "mechanism"),
    )
