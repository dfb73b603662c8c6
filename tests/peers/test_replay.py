"""Captures of real clients replay at real Kafka: what differs is what else that cluster has."""

from __future__ import annotations

import asyncio
import time
from pathlib import Path

import pytest

from dissectors.wire.paths import parts, schema_path
from kproxy.client.connection import BrokerConnection, connect
from kproxy.comparison.bodies import DifferenceKind
from kproxy.proxy.address import TcpAddress
from kproxy.replay.exchange import ReplayedExchange, Replayer, ReplayOutcome
from kproxy.replay.run import Replay
from kproxy.replay.step_reader import read_steps
from tests.peers.kafka import RELEASES
from tests.peers.lab import Lab

pytestmark = pytest.mark.peers

PCAP = Path(__file__).parents[1] / "data/pcap"
#: Answers that depend on nothing but the requests before them.
CERTAIN = {
    "CreateTopics", "InitProducerId", "Produce", "AddPartitionsToTxn", "AddOffsetsToTxn", "TxnOffsetCommit", "EndTxn",
    "CreatePartitions", "IncrementalAlterConfigs", "AlterConfigs",
}  # fmt: skip


async def replayed(client: str, address: TcpAddress) -> list[ReplayedExchange]:
    steps = read_steps(PCAP / f"{client}-4.3.1.pcap.gz", pytest.fail)
    replayer = Replayer(shift_ms=(time.time_ns() - steps[0].at) // 1_000_000)

    async def open_connection(_: object) -> BrokerConnection:
        return await connect(address, 60)

    return [each async for each in Replay(open_connection, replayer, within=60).run(steps)]


@pytest.mark.parametrize("lab", RELEASES[:1], indirect=True)  # that made the captures
@pytest.mark.parametrize("client", ["kafkajs", "kafka-python", "sarama"])
def test_a_capture_replays(client: str, lab: Lab) -> None:
    results = asyncio.run(replayed(client, TcpAddress(*lab.kafka.direct)))
    differences = [
        (exchange.captured.line.api, difference) for exchange in results for difference in exchange.differences
    ]
    assert [(api, one) for api, one in differences if api in CERTAIN] == []
    others = [
        exchange for exchange in results if exchange.outcome is ReplayOutcome.DIFFERENT and not exchange.differences
    ]
    assert others == []
    codes = {
        (api, schema_path(parts(difference.path)))
        for api, difference in differences
        if difference.why is DifferenceKind.ERROR_CODE
    }
    assert codes <= {("Heartbeat", "error_code"), ("Metadata", "topics[].error_code")}  # a rebalance, a topic left over
    counts = [result.outcome for result in results]
    assert counts.count(ReplayOutcome.EQUAL) > 0.8 * len(results)
