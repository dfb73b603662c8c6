"""Misconfigurations of TLS, on both sides of kproxy."""

from __future__ import annotations

from typing import Any

from tests.peers.kafka import HOST
from tests.peers.misconfigurations import Case

_CLIENT_FAILURE, _BROKER_FAILURE = f"TLS with client {HOST} failed: ", f"TLS with upstream {HOST}:"
_REJECTED, _UNTRUSTED = "it rejected kproxy's certificate", "it does not trust kproxy's certificate: unknown CA"


def cases() -> list[Case]:
    client, broker = {"message": (_CLIENT_FAILURE,)}, {"message": (_BROKER_FAILURE,), "blame": "broker"}

    def make_case(name: str, base: dict[str, Any], message: str, hint: str, **more: Any) -> Case:
        return Case(name=name, **base | {"message": (*base["message"], message), "hint": hint} | more)

    all_cases = []
    for other_client, message in {
        "confluent": _UNTRUSTED,
        "kafka_python": _UNTRUSTED,
        "franz": _REJECTED,
        "java": _REJECTED,
    }.items():
        all_cases.append(
            make_case(
                "the client does not trust kproxy's CA",
                client,
                message,
                "make the client trust the CA of --tls-cert",
                client=other_client,
                login="stranger's CA",
            )
        )
    for name in ("confluent", "franz", "java"):
        all_cases.append(
            make_case(
                "kproxy's certificate has expired",
                client,
                f"{_REJECTED}: expired",
                "renew the certificate of --tls-cert",
                client=name,
                to_clients="expired",
            )
        )
        all_cases.append(
            make_case(
                "kproxy's certificate is for another host",
                client,
                f"{_REJECTED}: not for this host name",
                "subject alternative name",
                client=name,
                to_clients="elsewhere",
            )
        )
    certificate_request = {"asks_for_certificates": True}
    return [
        *all_cases,
        make_case(
            "the client supports TLS 1.1 only",
            client,
            "no TLS version that kproxy accepts",
            "enable TLS 1.2 or 1.3 on the client",
            login="TLS 1.1",
        ),
        make_case(
            "the client has no certificate",
            client,
            "it sent no client certificate",
            "give the client a certificate",
            login="no certificate",
            **certificate_request,
        ),
        make_case(
            "the client has no certificate",
            client,
            "it sent no client certificate",
            "give the client a certificate",
            client="java",
            **certificate_request,
        ),
        make_case(
            "the client's certificate is of another CA",
            client,
            "signed by an unknown CA",
            "--tls-client-ca",
            login="stranger's certificate",
            **certificate_request,
        ),
        make_case(
            "the client's certificate has expired",
            client,
            "its certificate has expired",
            "renew the client's certificate",
            login="expired certificate",
            **certificate_request,
        ),
        make_case(
            "the client sends plaintext to a TLS port",
            client,
            "it speaks plaintext",
            "set security.protocol=SSL",
            login="plaintext",
        ),
        make_case(
            "the client sends plaintext to a TLS port",
            client,
            "it speaks plaintext",
            "set security.protocol=SSL",
            client="java",
            login="plaintext",
        ),
        Case(
            name="the client sends TLS to a plaintext port",
            code="X001",
            to_clients="plaintext",
            to_brokers="plaintext",
            listener="SASL_PLAIN",
            message=(f"client {HOST} sends TLS",),
            hint="set security.protocol=PLAINTEXT",
        ),
        make_case(
            "kproxy does not trust the broker's CA",
            broker,
            "signed by an unknown CA",
            "--upstream-ca",
            to_brokers="stranger's CA",
        ),
        make_case(
            "the broker's certificate has expired",
            broker,
            "its certificate has expired",
            "renew the broker's certificate",
            listener="SSL_EXPIRED",
            mechanism="",
        ),
        make_case(
            "the broker's certificate is for another host",
            broker,
            "not for this host name",
            "--upstream-sni",
            listener="SSL_ELSEWHERE",
            mechanism="",
        ),
        make_case(
            "the broker supports TLS 1.1 only",
            broker,
            "no TLS version that kproxy offers",
            "enable TLS 1.2 or 1.3 on the broker",
            listener="SSL_OLD",
            mechanism="",
        ),
        make_case(
            "kproxy has no certificate for the broker",
            broker,
            "it requires a client certificate",
            "pass --upstream-cert",
            listener="SSL",
            mechanism="",
        ),
        make_case(
            "kproxy's certificate for the broker is of another CA",
            broker,
            _REJECTED,
            "not in the broker's truststore",
            listener="SSL",
            mechanism="",
            to_brokers="stranger's certificate",
        ),
        make_case(
            "kproxy's certificate for the broker has expired",
            broker,
            f"{_REJECTED}: expired",
            "renew the certificate of --upstream-cert",
            listener="SSL",
            mechanism="",
            to_brokers="expired certificate",
        ),
        make_case(
            "kproxy sends TLS to a plaintext port",
            broker,
            "it closed the connection during the handshake",
            "the broker's TLS listener",
            listener="SASL_PLAIN",
        ),
        Case(
            name="kproxy sends plaintext to a TLS port",
            code="X002",
            to_brokers="plaintext",
            message=("expects TLS, but kproxy sends it plain Kafka",),
            hint="pass --upstream-tls",
            blame="proxy",
        ),
        Case(
            name="plaintext from the client to the broker's TLS port",
            code="X002",
            to_clients="plaintext",
            to_brokers="plaintext",
            login="plaintext",
            message=("answers with TLS to a client that sends plain Kafka",),
            hint="pass --upstream-tls",
        ),
    ]
