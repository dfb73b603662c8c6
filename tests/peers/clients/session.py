"""Code shared by the Python clients: command-line arguments, records to send, and the report.

Each client is a separate program, so that its threads, warnings and native code stay out of the test run:
``python -m tests.peers.clients.NAME HOST:PORT TOPIC [MECHANISM USER PASSWORD]``.
"""

from __future__ import annotations

import argparse
import json
import time
from dataclasses import dataclass

PARTITIONS = 4
MESSAGES = 100
#: A client that has not consumed everything after this time has failed.
DEADLINE_SECONDS = 90
SCRAM_ITERATIONS = 4096
#: A single call of a client that takes longer has failed.
CALL_SECONDS = 60


@dataclass(frozen=True)
class Session:
    """One run of a client."""

    bootstrap: str
    topic: str
    mechanism: str | None
    user: str
    password: str

    @property
    def protocol(self) -> str:
        return "SASL_PLAINTEXT" if self.mechanism else "PLAINTEXT"

    @property
    def group(self) -> str:
        return f"group-{self.topic}"


@dataclass(frozen=True)
class Message:
    """A record to produce."""

    key: bytes | None
    value: bytes | None
    headers: list[tuple[str, bytes]]


def session() -> Session:
    """Parse the command line."""
    parser = argparse.ArgumentParser()
    parser.add_argument("bootstrap")
    parser.add_argument("topic")
    parser.add_argument("sasl", nargs="*", metavar="MECHANISM USER PASSWORD")
    args = parser.parse_args()
    mechanism, user, password = args.sasl or (None, "", "")
    return Session(args.bootstrap, args.topic, mechanism, user, password)


def messages() -> list[Message]:
    """Return compressible records with headers; some keys and values are null."""
    return [
        Message(
            f"key-{i}".encode() if i % 3 else None,
            f"value {i} {'a' * 55}".encode() if i % 5 or not i % 15 else None,
            [("trace", b"00-4bf92f35"), ("empty", b"")],
        )
        for i in range(MESSAGES)
    ]


def deadline() -> float:
    return time.monotonic() + DEADLINE_SECONDS


def report(*, produced: int, consumed: int, members: int, configs: int) -> None:
    """Print the last line of output; see `tests.peers.clients.Report`."""
    counts = {"produced": produced, "consumed": consumed, "members": members, "configs": configs}
    print(json.dumps(counts))  # noqa: T201
