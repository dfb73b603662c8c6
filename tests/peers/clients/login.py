"""A client that logs in, lists the topics for some seconds, and prints ``ok`` or the reason for the failure.

``python -m tests.peers.clients.login LIBRARY HOST:PORT SECONDS MECHANISM USER SECRET``; LIBRARY is confluent or
kafka_python, SECRET a password or, with OAUTHBEARER, a token.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from typing import Any

#: A login that takes longer counts as failed.
LOGIN_SECONDS = 10


def main() -> None:
    parser = argparse.ArgumentParser()
    for name in ("library", "bootstrap", "seconds", "mechanism", "user", "secret"):
        parser.add_argument(name)
    args = parser.parse_args()
    connect = {"confluent": confluent, "kafka_python": kafka_python}[args.library]
    try:
        list_topics = connect(args.bootstrap, args.mechanism, args.user, args.secret)
        end_time = time.monotonic() + float(args.seconds)
        list_topics()
        while time.monotonic() < end_time:
            time.sleep(0.25)
            list_topics()
    except Exception as error:  # noqa: BLE001
        print(f"failed: {type(error).__name__}")  # noqa: T201 - not the text, which may contain the secret
    else:
        print("ok")  # noqa: T201


def confluent(bootstrap: str, mechanism: str, user: str, secret: str) -> Callable[[], object]:
    from confluent_kafka.admin import AdminClient

    settings: dict[str, Any] = {
        "bootstrap.servers": bootstrap, "security.protocol": "SASL_PLAINTEXT", "sasl.mechanism": mechanism,
        "log_level": 0,
    }  # fmt: skip
    if mechanism == "OAUTHBEARER":
        settings["oauth_cb"] = lambda _: (secret, time.time() + 3600, user, {})
    else:
        settings |= {"sasl.username": user, "sasl.password": secret}
    admin = AdminClient(settings)
    admin.poll(0)
    return lambda: (admin.poll(0), admin.list_topics(timeout=LOGIN_SECONDS))


def kafka_python(bootstrap: str, mechanism: str, user: str, secret: str) -> Callable[[], object]:
    from kafka import KafkaConsumer
    from kafka.net.sasl.oauth import AbstractTokenProvider

    class Token(AbstractTokenProvider):  # type: ignore[misc]
        def token(self) -> str:
            return secret

    login: dict[str, Any] = {"sasl_plain_username": user, "sasl_plain_password": secret}
    consumer = KafkaConsumer(
        bootstrap_servers=bootstrap, bootstrap_timeout_ms=1000 * LOGIN_SECONDS,
        security_protocol="SASL_PLAINTEXT", sasl_mechanism=mechanism,
        **({"sasl_oauth_token_provider": Token()} if mechanism == "OAUTHBEARER" else login),
    )  # fmt: skip
    return consumer.topics  # type: ignore[no-any-return]


if __name__ == "__main__":
    main()
