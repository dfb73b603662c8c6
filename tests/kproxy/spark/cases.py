"""The problems planted in `tests.kproxy.spark.sample_fleet`, each a stream of timed lines."""

from __future__ import annotations

import heapq
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from random import Random
from typing import Any

from kproxy.trace.lines import FindingEntry, FindingLine, RepeatEntry, TopicEntry
from tests.kproxy.spark.fleet import (
    JAVA,
    LIBRDKAFKA,
    MS,
    SECOND,
    Connection,
    Group,
    Member,
    Proxy,
    Software,
    Timed,
    batch_entry,
    error,
)

_FIRST_DAY = datetime(2026, 11, 17, tzinfo=UTC)
DAYS, HOURS = 7, (2, 13)
BROKERS = ("10.1.0.1:9092", "10.1.0.2:9092", "10.1.0.3:9092")


def hour_of(day: int, hour: int) -> datetime:
    """Return an hour of one of the fleet's days, which are numbered from 0."""
    return _FIRST_DAY + timedelta(days=day, hours=hour)


@dataclass(frozen=True)
class Planted:
    """The planted problems: names of clients, groups, topics and brokers, and their hours (UTC)."""

    slow_broker: str
    slow_hour: datetime
    error_topic: str
    error_name: str
    error_hour: datetime
    metadata_loop: str
    metadata_loop_hour: datetime
    metadata_requests: int
    stalled_group: str
    stalled_hours: tuple[datetime, ...]
    stalled_us: int
    storm_group: str
    storm_hour: datetime
    storm_rounds: int
    #: Client ids, each with the API and version that Kafka 4 does not serve.
    old_clients: tuple[tuple[str, str, int], ...]
    churning: str
    churn_hour: datetime
    churn_connections: int
    idle_race: str
    idle_race_hour: datetime
    throttled: str
    throttled_hour: datetime
    throttled_responses: int
    hot_topic: str
    hot_partition: int
    #: Its last transaction is left open.
    transactional: str
    transactional_hour: datetime
    committed: int
    blind_retries: str
    blind_retries_hour: datetime
    retried: int
    #: Client, broker and rule code; one of the rule's `findings` is reported in full, the others are counted.
    finding: tuple[str, str, str]
    findings_hour: datetime
    findings: int


PLANTED = Planted(
    slow_broker=BROKERS[1],
    slow_hour=hour_of(4, 13),
    error_topic="payments",
    error_name="NOT_LEADER_OR_FOLLOWER",
    error_hour=hour_of(1, 13),
    metadata_loop="report-loader",
    metadata_loop_hour=hour_of(0, 13),
    metadata_requests=200,
    stalled_group="settlement",
    stalled_hours=tuple(hour_of(day, 2) for day in range(DAYS)),
    stalled_us=40_000_000,
    storm_group="billing",
    storm_hour=hour_of(3, 13),
    storm_rounds=15,
    old_clients=(
        ("legacy-etl", "Produce", 2),
        ("legacy-audit", "Fetch", 3),
        ("legacy-sync", "ListOffsets", 0),
    ),
    churning="health-probe",
    churn_hour=hour_of(2, 13),
    churn_connections=120,
    idle_race="idle-writer",
    idle_race_hour=hour_of(5, 2),
    throttled="importer",
    throttled_hour=hour_of(6, 13),
    throttled_responses=40,
    hot_topic="clicks",
    hot_partition=5,
    transactional="ledger",
    transactional_hour=hour_of(1, 2),
    committed=8,
    blind_retries="order-writer",
    blind_retries_hour=hour_of(5, 13),
    retried=12,
    finding=("gateway-user", "10.1.0.9:9092", "L005"),
    findings_hour=hour_of(6, 2),
    findings=25,
)


def planted_streams(at: int, hour: datetime, proxies: list[Proxy], random: Random) -> Iterator[Iterator[Timed]]:
    """Yield the problems of the hour that begins at `at`; each is traced by another proxy, in turn."""
    candidates = [
        (hour.hour == 13, _old_clients),
        (hour == PLANTED.metadata_loop_hour, _metadata_loop),
        (hour in PLANTED.stalled_hours, _stalled_group),
        (hour == PLANTED.storm_hour, _rebalance_storm),
        (hour == PLANTED.churn_hour, _connection_churn),
        (hour == PLANTED.idle_race_hour, _idle_race),
        (hour == PLANTED.throttled_hour, _throttled_client),
        (hour == PLANTED.transactional_hour, _transactional_producer),
        (hour == PLANTED.blind_retries_hour, _blind_retries),
        (hour == PLANTED.findings_hour, _findings),
    ]
    for number, make_stream in enumerate(make_stream for is_due, make_stream in candidates if is_due):
        yield make_stream(proxies[number % len(proxies)], at, random)


def _old_clients(proxy: Proxy, at: int, random: Random) -> Iterator[Timed]:
    """Yield the lines of clients that use versions removed in Kafka 4 and send no ApiVersions."""
    for number, (client_id, api, version) in enumerate(PLANTED.old_clients):
        software = Software(None, None, {"Metadata": 1, api: version})
        connection = Connection(proxy, f"10.9.0.{number}", BROKERS[number], client_id, software)
        yield connection.open(at)
        yield from connection.exchange("Metadata", at + 10 * MS, 900)
        topics = [batch_entry("audit", 0, 900, 3, "none")] if api != "ListOffsets" else [TopicEntry("audit", None, [0])]
        for _ in range(5):
            at += SECOND
            yield from connection.exchange(api, at, 2000 + random.randrange(500), topics=topics)
        yield connection.close(at + SECOND)
        at += 2 * SECOND


def _metadata_loop(proxy: Proxy, at: int, random: Random) -> Iterator[Timed]:
    """Yield the lines of a client that requests metadata of a missing topic ten times a second."""
    connection = Connection(proxy, "10.9.1.1", BROKERS[0], PLANTED.metadata_loop, JAVA)
    yield from connection.hello(at)
    missing = error("topics[0].error_code", 3, "UNKNOWN_TOPIC_OR_PARTITION")
    for _ in range(PLANTED.metadata_requests):
        at += 100 * MS
        latency_us = 600 + random.randrange(300)
        yield from connection.exchange(
            "Metadata", at, latency_us, topics=[TopicEntry("reports-missing")], response_columns=missing
        )
    yield connection.close(at + SECOND)


def _stalled_group(proxy: Proxy, at: int, random: Random) -> Iterator[Timed]:
    """Yield the lines of a group with a new member: one old member rejoins at once, another only after 40 s of work."""
    group = Group(PLANTED.stalled_group, "payments", (), BROKERS[0], BROKERS[1])
    swift, busy, newcomer = (
        Member(group, proxy, f"10.9.2.{number}", f"{group.name}-{name}", random)
        for number, name in enumerate(("swift", "busy", "new"))
    )
    joined_at, join_at = at + 500 * MS, at + 8 * SECOND
    rejoin_at = join_at + PLANTED.stalled_us * 1000
    end_at = rejoin_at + 10 * SECOND
    rebalance_error = error("error_code", 27, "REBALANCE_IN_PROGRESS")
    heartbeat_at = joined_at + 9 * SECOND  # the first heartbeat after the newcomer's JoinGroup

    def join_and_wait(member: Member, rejoins_at: int) -> Iterator[Timed]:
        yield from member.join(at, joined_at)
        yield from member.heartbeats(joined_at, heartbeat_at, 1)
        yield from member.heartbeats(heartbeat_at - 3 * SECOND, rejoins_at, 1, rebalance_error)
        yield from member.group_exchange(
            "JoinGroup", rejoins_at, (rejoin_at + 2 * MS - rejoins_at) // 1000, 1, response_columns={"generation_id": 2}
        )

    def finish(member: Member) -> Iterator[Timed]:
        yield from member.sync(rejoin_at + 5 * MS, 2)
        yield from member.heartbeats(rejoin_at + 5 * MS, end_at, 2)
        yield from member.leave(end_at, 2)

    def member_lines(member: Member, rejoins_at: int) -> Iterator[Timed]:
        yield from join_and_wait(member, rejoins_at)
        yield from finish(member)

    def newcomer_lines() -> Iterator[Timed]:
        yield from newcomer.find(join_at - 100 * MS)
        yield from newcomer.group_exchange(
            "JoinGroup", join_at, (rejoin_at + 2 * MS - join_at) // 1000, response_columns={"generation_id": 2}
        )
        yield from finish(newcomer)

    yield from heapq.merge(
        member_lines(swift, heartbeat_at + 10 * MS),
        member_lines(busy, rejoin_at),
        newcomer_lines(),
        key=lambda timed: timed[0],
    )


def _rebalance_storm(proxy: Proxy, at: int, random: Random) -> Iterator[Timed]:
    """Yield the lines of a member that leaves and rejoins every two seconds, which makes the other one rejoin too."""
    group = Group(PLANTED.storm_group, "orders", (), BROKERS[2], BROKERS[0])
    steady, flapping = (Member(group, proxy, f"10.9.3.{number}", f"{group.name}-{number}", random) for number in (1, 2))
    end_at = at + (2 * PLANTED.storm_rounds + 1) * SECOND
    joined_at = at + 500 * MS

    def steady_lines() -> Iterator[Timed]:
        yield from steady.join(at, joined_at)
        for number in range(PLANTED.storm_rounds):
            for delay, generation in ((0, 2 * number + 2), (SECOND, 2 * number + 3)):
                join_at = joined_at + SECOND + 2 * number * SECOND + delay + 50 * MS
                yield from steady.group_exchange(
                    "JoinGroup", join_at, 40_000, generation - 1, response_columns={"generation_id": generation}
                )
                yield from steady.sync(join_at + 50 * MS, generation)
        yield from steady.leave(end_at + 3 * SECOND, 2 * PLANTED.storm_rounds + 1)

    def flapping_lines() -> Iterator[Timed]:
        yield from flapping.find(at)
        for number in range(PLANTED.storm_rounds):
            generation = 2 * number + 2
            join_at = joined_at + SECOND + 2 * number * SECOND
            yield from flapping.group_exchange(
                "JoinGroup", join_at, 90_000, response_columns={"generation_id": generation}
            )
            yield from flapping.sync(join_at + 100 * MS, generation)
            yield from flapping.group_exchange("LeaveGroup", join_at + 990 * MS, 900, generation)
        yield flapping.coordinator.close(end_at)

    yield from heapq.merge(steady_lines(), flapping_lines(), key=lambda timed: timed[0])


def _connection_churn(proxy: Proxy, at: int, random: Random) -> Iterator[Timed]:
    """Yield the lines of a client that opens a new connection for every Metadata request, four a second."""
    for _ in range(PLANTED.churn_connections):
        connection = Connection(proxy, "10.9.4.1", BROKERS[0], PLANTED.churning, LIBRDKAFKA)
        yield from connection.hello(at)
        yield from connection.exchange("Metadata", at + 10 * MS, 600 + random.randrange(300))
        yield connection.close(at + 15 * MS)
        at += 250 * MS


def _idle_race(proxy: Proxy, at: int, random: Random) -> Iterator[Timed]:
    """Yield a write after ten idle minutes that crosses with the broker's close, and its retry on a new connection."""
    connection = Connection(proxy, "10.9.5.1", BROKERS[1], PLANTED.idle_race, JAVA)
    topics = [batch_entry("audit", 1, 700, 2)]
    yield from connection.hello(at)
    yield from connection.exchange("Produce", at + SECOND, 2400, request_columns={"acks": -1}, topics=topics)
    late_at = at + 601 * SECOND
    yield from connection.exchange("Produce", late_at, None, request_columns={"acks": -1}, topics=topics)
    message = "the Produce request was the first request after 10 minutes of silence, and its connection was closed"
    close_line = connection.close(late_at + MS // 2, "server", "reset")
    yield close_line[0], FindingLine(
        v=1, ts=close_line[1].ts, connection_id=connection.id, code="C016", name="idle-close-race", severity="warning",
        message=message, blame="network", direction="request",
    )  # fmt: skip
    yield close_line
    new_connection = Connection(proxy, "10.9.5.1", BROKERS[1], PLANTED.idle_race, JAVA)
    yield from new_connection.hello(late_at + 100 * MS)
    yield from new_connection.exchange("Produce", late_at + 120 * MS, 2400, request_columns={"acks": -1}, topics=topics)
    yield new_connection.close(late_at + SECOND)


def _throttled_client(proxy: Proxy, at: int, random: Random) -> Iterator[Timed]:
    """Yield the lines of a client that exceeds its quota and waits as long as requested."""
    connection = Connection(proxy, "10.9.6.1", BROKERS[1], PLANTED.throttled, LIBRDKAFKA)
    yield from connection.hello(at)
    for _ in range(PLANTED.throttled_responses):
        at += 500 * MS
        wait_ms = 500 + random.randrange(1000)
        topics = [batch_entry("audit", random.randrange(6), 60_000, 200)]
        yield from connection.exchange(
            "Produce",
            at,
            3000,
            size=60_100,
            request_columns={"acks": 1},
            response_columns={"throttle_time_ms": wait_ms},
            topics=topics,
        )
        at += wait_ms * MS
    yield connection.close(at + SECOND)


def _transactional_producer(proxy: Proxy, at: int, random: Random) -> Iterator[Timed]:
    """Yield the lines of a producer that commits transactions and disconnects with one still open."""
    connection = Connection(proxy, "10.9.9.1", BROKERS[1], PLANTED.transactional, JAVA)
    identity: dict[str, Any] = {"transactional_id": PLANTED.transactional, "producer_id": 7000, "producer_epoch": 3}
    yield from connection.hello(at)
    yield from connection.exchange("InitProducerId", at + 10 * MS, transaction_timeout_ms=60_000, **identity)
    for number in range(PLANTED.committed + 1):
        at += SECOND
        partition = random.randrange(6)
        added_partitions = [TopicEntry("audit", partitions=[partition])]
        yield from connection.exchange("AddPartitionsToTxn", at, topics=added_partitions, **identity)
        topics = [batch_entry("audit", partition, 4_000, 20)]
        yield from connection.exchange(
            "Produce", at + 100 * MS, 2000, size=4_100, request_columns={"acks": -1}, topics=topics, **identity
        )
        if number < PLANTED.committed:
            yield from connection.exchange("EndTxn", at + 500 * MS, committed=True, **identity)
    yield connection.close(at + SECOND)


def _blind_retries(proxy: Proxy, at: int, random: Random) -> Iterator[Timed]:
    """Yield the lines of a producer without idempotence that resends stored batches."""
    connection = Connection(proxy, "10.9.7.1", BROKERS[2], PLANTED.blind_retries, JAVA)
    yield from connection.hello(at)
    entry = FindingEntry(
        "S034", "blind-retry-duplicates", "warning", "the batch was sent before, and offset 5 was given to it", "client"
    )
    for number in range(PLANTED.retried):
        size = 800 + random.randrange(400)
        topics = [batch_entry("orders", number % 6, size, 3)]
        for latency_us, findings in ((150_000, []), (2500, [entry] if number == 0 else [])):
            at += 2 * SECOND
            yield from connection.exchange(
                "Produce",
                at,
                latency_us,
                size=size + 110,
                request_columns={"acks": -1, "findings": findings},
                topics=topics,
            )
    yield connection.close(at + 3 * SECOND, repeated=[RepeatEntry("S034", entry.name, PLANTED.retried - 1)])


def _findings(proxy: Proxy, at: int, random: Random) -> Iterator[Timed]:
    """Yield the lines of a gateway that writes a field of a later version; it is reported once, then only counted."""
    client, server, code = PLANTED.finding
    connection = Connection(proxy, "10.9.8.1", server, client, LIBRDKAFKA)
    entry = FindingEntry(
        code, "field-from-newer-version", "error",
        "Metadata v12 response: throttle_time_ms of version 13 is written first (4 bytes too many)", "broker",
        "throttle_time_ms", (8, 12), "do not write throttle_time_ms in version 12",
    )  # fmt: skip
    yield from connection.hello(at)
    for number in range(PLANTED.findings):
        at += 5 * SECOND
        columns = {"findings": [entry]} if number == 0 else {}
        yield from connection.exchange("Metadata", at, 900 + random.randrange(300), response_columns=columns)
    yield connection.close(at + SECOND, repeated=[RepeatEntry(code, "field-from-newer-version", PLANTED.findings - 1)])
