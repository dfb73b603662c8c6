"""Misconfigurations of SASL: credentials, mechanisms, listeners, sessions."""

from __future__ import annotations

from tests.peers.misconfigurations import Case


def cases() -> list[Case]:
    failed_login = [
        Case(
            name=f"wrong password for {name}",
            mechanism=name,
            login="wrong password",
            code="X008",
            message=(f"{name} login", "Authentication failed"),
            hint=f"credentials for {name}" if name.startswith("SCRAM") else "check user, password",
            depends_on_release=name == "SCRAM-SHA-256",
        )
        for name in ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512")
    ]
    token = {"mechanism": "OAUTHBEARER", "code": "X008", "hint": "check the token's issuer, audience, scope and expiry"}
    rejected_token = ("OAUTHBEARER login", "invalid_token")
    return [
        *failed_login,
        Case(
            name="unknown user",
            mechanism="SCRAM-SHA-256",
            login="unknown user",
            code="X008",
            message=("SCRAM-SHA-256 login", "Authentication failed"),
            hint="check user",
        ),
        Case(
            name="the token has expired",
            login="expired token",
            message=(*rejected_token, "the token expired"),
            depends_on_release=True,
            **token,
        ),
        Case(
            name="the token has expired",
            client="confluent",
            login="expired token",
            message=(*rejected_token, "the token expired"),
            **token,
        ),
        Case(
            name="the token is not valid yet", login="early token", message=(*rejected_token, "not valid yet"), **token
        ),
        Case(name="the token is for another audience", login="token for others", message=rejected_token, **token),
        Case(name="the token has another signature", login="stranger's token", message=rejected_token, **token),
        Case(name="the token is not a JWT", login="no JWT", message=(*rejected_token, "not a JWT"), **token),
        Case(
            name="the mechanism is not enabled",
            listener="SASL_SSL_SHORT",
            mechanism="SCRAM-SHA-256",
            code="X007",
            message=("requests mechanism 'SCRAM-SHA-256'", "supports PLAIN"),
            hint="sasl.enabled.mechanisms",
            depends_on_release=True,
        ),
        Case(
            name="no SASL where it is required",
            client="java",
            mechanism="",
            login="no certificate",
            code="X006",
            message=("closed at the first",),
            hint="set security.protocol=SASL_SSL",
            depends_on_release=True,
        ),
        Case(
            name="SASL on a listener without it",
            listener="SSL",
            to_brokers="certificate",
            code="X017",
            message=("ILLEGAL_SASL_STATE",),
            hint="may not use SASL",
            depends_on_release=True,
        ),
        Case(
            name="SASL on a plaintext listener without it",
            listener="DIRECT",
            to_clients="plaintext",
            to_brokers="plaintext",
            login="plaintext",
            code="X017",
            message=("ILLEGAL_SASL_STATE",),
            hint="may not use SASL",
        ),
        Case(
            name="the client does not renew its session",
            client="aio",
            listener="SASL_SSL_SHORT",
            code="X010",
            message=("after its SASL session expired",),
            hint="KIP-368",
            depends_on_release=True,
        ),
    ]
