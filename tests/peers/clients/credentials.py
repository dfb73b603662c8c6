"""Send secrets with confluent-kafka's admin client: SCRAM credentials and a sensitive setting.

``python -m tests.peers.clients.credentials HOST:PORT SALT MECHANISM USER PASSWORD``; the password is
also the setting's value.
"""

from __future__ import annotations

import contextlib
from typing import Any

from confluent_kafka import KafkaException
from confluent_kafka.admin import (
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    ScramCredentialInfo,
    ScramMechanism,
    UserScramCredentialUpsertion,
)

from tests.peers.clients import session as run


def main() -> None:
    session = run.session()
    settings: dict[str, Any] = {"bootstrap.servers": session.bootstrap, "security.protocol": session.protocol}
    login = {"sasl.mechanism": session.mechanism, "sasl.username": session.user, "sasl.password": session.password}
    admin = AdminClient(settings | login)
    for mechanism in (ScramMechanism.SCRAM_SHA_256, ScramMechanism.SCRAM_SHA_512):
        credential = UserScramCredentialUpsertion(
            session.user,
            ScramCredentialInfo(mechanism, run.SCRAM_ITERATIONS),
            session.password.encode(),
            session.topic.encode(),
        )
        admin.alter_user_scram_credentials([credential])[session.user].result(run.CALL_SECONDS)
    setting = ConfigEntry("ssl.key.password", session.password, incremental_operation=AlterConfigOpType.SET)
    broker = ConfigResource("broker", "1", incremental_configs=[setting])
    with contextlib.suppress(KafkaException):  # the broker may reject it without TLS
        admin.incremental_alter_configs([broker])[broker].result(run.CALL_SECONDS)


if __name__ == "__main__":
    main()
