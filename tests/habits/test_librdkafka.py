"""Each habit with librdkafka against the built-in broker: the bad variant is named, the fixed one is not."""

from __future__ import annotations

import json
import time
from collections import defaultdict
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.peers.proxy import Proxy
from tests.peers.trace import read_lines

pytestmark = pytest.mark.peers

kafka = pytest.importorskip("confluent_kafka")

RECORDS = 250
TEXT = json.dumps([{"customer": number, "status": "delivered"} for number in range(200)]).encode()

Config = dict[str, Any]
Variant = Callable[[Config], None]


def produce(*, config: Config, flush_each: bool = False, value: bytes = b"v", records: int = RECORDS) -> Variant:
    def run(common: Config) -> None:
        producer = kafka.Producer(common | config)
        for number in range(records):
            producer.produce("orders", value, partition=0)
            if flush_each:
                producer.flush(10)
            elif number % 100 == 99:
                producer.poll(0)
        assert producer.flush(30) == 0

    return run


def producer_each(count: int, records: int) -> Variant:
    def run(common: Config) -> None:
        for _ in range(count):
            produce(config={}, records=records)(common)

    return run


def consume(*, commit: str, config: Config | None = None, seconds: float = 0.0) -> Variant:
    """A consumer of `RECORDS` records; `commit`: after each record, once per poll, or also with nothing read."""

    def run(common: Config) -> None:
        name = common["client.id"]
        own = {"group.id": name, "auto.offset.reset": "earliest", "enable.auto.commit": False}
        consumer = kafka.Consumer(common | own | (config or {}))
        consumer.subscribe(["filled"])
        read = 0
        while read < RECORDS:
            messages = consumer.consume(1 if commit == "record" else 100, timeout=1)
            for message in messages:
                assert message.error() is None
            read += len(messages)
            if messages:
                consumer.commit(asynchronous=False)
        for _ in range(150 if commit == "always" else 0):
            consumer.consume(1, timeout=0.001)
            consumer.commit(asynchronous=False, offsets=consumer.position(consumer.assignment()))
        if seconds:
            consumer.consume(1, timeout=seconds)
        consumer.close()

    return run


def metadata(count: int) -> Variant:
    def run(common: Config) -> None:
        producer = kafka.Producer(common)
        for number in range(80):
            if number < count:
                producer.list_topics("orders", timeout=10)
            producer.produce("orders", b"v", partition=0)
        producer.flush(10)

    return run


def poll(topic: str, seconds: float = 9) -> Variant:
    """A consumer that waits for records of a topic until an error has lasted, or for a moment if there is none."""

    def run(common: Config) -> None:
        own = {"group.id": common["client.id"], "auto.offset.reset": "earliest", "allow.auto.create.topics": False}
        consumer = kafka.Consumer(common | own)
        consumer.subscribe([topic])
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            message = consumer.poll(0.1)
            if message is not None and message.error() is None:
                break
        consumer.close()

    return run


LINGER = {"linger.ms": 50}
#: By rule: the bad variant and the fixed one.
HABITS: dict[str, tuple[Variant, Variant]] = {
    "C018": (producer_each(25, 1), producer_each(1, 25)),
    "R026-flush": (produce(config={}, flush_each=True), produce(config=LINGER)),
    "R026-linger": (
        produce(config={"linger.ms": 0, "batch.num.messages": 1}, records=600),
        produce(config=LINGER, records=600),
    ),
    "R029": (
        produce(config=LINGER, value=TEXT),
        produce(config=LINGER | {"compression.type": "lz4"}, value=TEXT),
    ),
    "S090": (
        produce(config={"acks": 0, "batch.num.messages": 1}, records=400),
        produce(config={"acks": "all"} | LINGER, records=400),
    ),
    "S091": (consume(commit="record"), consume(commit="poll")),
    "S092": (consume(commit="always"), consume(commit="poll")),
    "S031": (consume(commit="poll", config={"fetch.wait.max.ms": 1}, seconds=6),
             consume(commit="poll", seconds=2)),
    "S009": (metadata(80), metadata(1)),
    "E002": (poll("nowhere"), poll("filled")),
}  # fmt: skip


def names() -> Iterator[tuple[str, str, Variant]]:
    for habit, (bad, fixed) in HABITS.items():
        yield f"{habit}-bad", habit, bad
        yield f"{habit}-fixed", habit, fixed


@pytest.fixture(scope="module")
def reported(tmp_path_factory: pytest.TempPathFactory) -> dict[str, dict[str, str]]:
    """What kproxy says of each variant, by client id and code. One proxy, so that nobody waits for many to start."""
    directory = tmp_path_factory.mktemp("habits")
    return run_all(directory)


def run_all(directory: Path) -> dict[str, dict[str, str]]:
    proxy = Proxy(None, directory, "--no-control")
    common = {"bootstrap.servers": proxy.bootstrap}
    filling = kafka.Producer(common | {"client.id": "filling"} | LINGER)
    for _ in range(RECORDS):
        filling.produce("filled", b"v", partition=0)
    assert filling.flush(30) == 0
    for client_id, _, variant in names():
        variant(common | {"client.id": client_id})
    proxy.interrupt()
    found: dict[str, dict[str, str]] = defaultdict(dict)
    for line in read_lines(proxy.trace):
        entries = [line] if line.get("kind") == "finding" else line.get("findings") or []
        for entry in entries:
            for client_id, _, _ in names():
                if f"'{client_id}'" in entry["message"]:
                    found[client_id][entry["code"]] = entry["message"]
    return found


@pytest.mark.parametrize("habit", HABITS)
def test_the_bad_variant_is_named(habit: str, reported: dict[str, dict[str, str]]) -> None:
    assert habit.partition("-")[0] in reported[f"{habit}-bad"]


@pytest.mark.parametrize("habit", HABITS)
def test_the_fixed_variant_is_silent(habit: str, reported: dict[str, dict[str, str]]) -> None:
    assert reported.get(f"{habit}-fixed", {}) == {}


def test_a_flush_after_each_record_is_told_from_a_short_linger_time(reported: dict[str, dict[str, str]]) -> None:
    flushed, hasty = (reported[f"R026-{habit}-bad"]["R026"] for habit in ("flush", "linger"))
    assert flushed.endswith("each sent only after the response to the one before")
    assert "response" not in hasty


@pytest.mark.parametrize(
    ("options", "found"),
    [
        (["--inspectors=2"], False),
        (["--inspectors=2", "--rule=C018:connections=5"], True),
        (["--config-file=kproxy.toml"], True),
        (["--config-file=kproxy.toml", "--rule=C018:connections=100"], False),
    ],
)
def test_limits_of_a_live_proxy(
    options: list[str], found: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "kproxy.toml").write_text("[rules.C018]\nconnections = 5\n")
    proxy = Proxy(None, tmp_path, "--no-control", "-q", *options)
    producer_each(10, 1)({"bootstrap.servers": proxy.bootstrap, "client.id": "leak"})
    proxy.interrupt()
    assert ("C018" in proxy.printed) is found


if __name__ == "__main__":
    import sys
    import tempfile

    json.dump(run_all(Path(tempfile.mkdtemp())), sys.stdout, indent=1)
