"""Clients that produce to every partition of a topic and consume it in a group, with TLS and any SASL mechanism.

``python -m tests.peers.clients.secure_clients LIBRARY LOGIN``; LIBRARY is confluent, kafka_python or aio,
LOGIN a `Login` as JSON. It prints the number of records consumed, or ``failed:`` and the kind of error.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import time
from dataclasses import asdict, dataclass
from typing import Any

PARTITIONS = 3
RECORDS_PER_PARTITION = 20
RECORDS = PARTITIONS * RECORDS_PER_PARTITION


@dataclass(frozen=True, kw_only=True)
class Login:
    """The address and the credentials of a login.

    Attributes:
        mechanism: The SASL mechanism; "" for none.
        ca: A file with the CA certificates that the client trusts (PEM); "" for no TLS.
        secret: A password, or a token for OAUTHBEARER.
        certificate, key: Files with the client's own certificate and key (PEM), if it has them.
        newest_tls: The newest version of TLS that the client supports, such as TLSv1.1; for Go only.
        jvm: Options of the JVM, for Java only.
        seconds: The time after which a login without success has failed.
    """

    bootstrap: str = ""
    topic: str = ""
    mechanism: str = ""
    ca: str = ""
    user: str = ""
    secret: str = ""
    certificate: str = ""
    key: str = ""
    newest_tls: str = ""
    jvm: tuple[str, ...] = ()
    seconds: float = 60

    @property
    def protocol(self) -> str:
        """The security protocol, as Kafka names it."""
        return {(0, 0): "PLAINTEXT", (0, 1): "SSL", (1, 0): "SASL_PLAINTEXT", (1, 1): "SASL_SSL"}[
            bool(self.mechanism), bool(self.ca)
        ]

    def as_json(self) -> str:
        return json.dumps(asdict(self))


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("library")
    parser.add_argument("login", type=lambda text: Login(**json.loads(text)))
    args = parser.parse_args()
    try:
        print({"confluent": confluent, "kafka_python": kafka_python, "aio": aiokafka}[args.library](args.login))  # noqa: T201
    except Exception as error:  # noqa: BLE001
        print(f"failed: {type(error).__name__}")  # noqa: T201 - not the text, which may contain the secret


def confluent(login: Login) -> int:
    from confluent_kafka import Consumer, Producer

    base: dict[str, Any] = {"bootstrap.servers": login.bootstrap, "security.protocol": login.protocol, "log_level": 0}
    if login.ca:
        base["ssl.ca.location"] = login.ca
    if login.certificate:
        base |= {"ssl.certificate.location": login.certificate, "ssl.key.location": login.key}
    if login.mechanism == "OAUTHBEARER":
        base |= {"sasl.mechanism": login.mechanism}
        base["oauth_cb"] = lambda _: (login.secret, time.time() + 3600, login.user, {})
    elif login.mechanism:
        base |= {"sasl.mechanism": login.mechanism, "sasl.username": login.user, "sasl.password": login.secret}
    producer = Producer(base | {"message.timeout.ms": int(1000 * login.seconds), "linger.ms": 0})
    errors: list[Any] = []
    for number in range(RECORDS):
        producer.produce(
            login.topic, str(number), partition=number % PARTITIONS,
            on_delivery=lambda error, _: errors.append(error) if error else None,
        )  # fmt: skip
    if producer.flush(login.seconds) or errors:
        raise TimeoutError
    consumer = Consumer(base | {"group.id": f"g-{login.topic}", "auto.offset.reset": "earliest"})
    consumer.subscribe([login.topic])
    values: list[int] = []
    deadline = time.monotonic() + login.seconds
    while len(values) < RECORDS and time.monotonic() < deadline:
        values += [int(message.value()) for message in consumer.consume(RECORDS, 0.5) if message.error() is None]
    consumer.close()
    return len(set(values))


def kafka_python(login: Login) -> int:
    from kafka import KafkaConsumer, KafkaProducer
    from kafka.net.sasl.oauth import AbstractTokenProvider

    class Token(AbstractTokenProvider):  # type: ignore[misc]
        def token(self) -> str:
            return login.secret

    base: dict[str, Any] = {"bootstrap_servers": login.bootstrap, "security_protocol": login.protocol}
    base["bootstrap_timeout_ms"] = int(1000 * login.seconds)
    if login.ca:
        base["ssl_cafile"] = login.ca
    if login.certificate:
        base |= {"ssl_certfile": login.certificate, "ssl_keyfile": login.key}
    if login.mechanism == "OAUTHBEARER":
        base |= {"sasl_mechanism": login.mechanism, "sasl_oauth_token_provider": Token()}
    elif login.mechanism:
        base |= {"sasl_mechanism": login.mechanism, "sasl_plain_username": login.user}
        base["sasl_plain_password"] = login.secret
    producer = KafkaProducer(**base)
    sent = [
        producer.send(login.topic, str(number).encode(), partition=number % PARTITIONS) for number in range(RECORDS)
    ]
    for future in sent:
        future.get(login.seconds)
    producer.close()
    consumer = KafkaConsumer(login.topic, **base, group_id=f"g-{login.topic}", auto_offset_reset="earliest",
                             consumer_timeout_ms=int(1000 * login.seconds))  # fmt: skip
    values = {int(message.value) for _, message in zip(range(RECORDS), consumer, strict=False)}
    consumer.close()
    return len(values)


def aiokafka(login: Login) -> int:
    """Send a record every 0.3 s for `login.seconds`; aiokafka does not reauthenticate (KIP-368)."""
    from aiokafka import AIOKafkaProducer
    from aiokafka.helpers import create_ssl_context

    async def send() -> int:
        producer = AIOKafkaProducer(
            bootstrap_servers=login.bootstrap, security_protocol=login.protocol, sasl_mechanism=login.mechanism,
            sasl_plain_username=login.user, sasl_plain_password=login.secret,
            ssl_context=create_ssl_context(cafile=login.ca),
        )  # fmt: skip
        await producer.start()
        end = time.monotonic() + login.seconds
        sent = 0
        try:
            while time.monotonic() < end:
                await producer.send_and_wait(login.topic, b"0", partition=0)
                sent += 1
                await asyncio.sleep(0.3)
        finally:
            await producer.stop()
        return sent

    return asyncio.run(send())


if __name__ == "__main__":
    main()
