"""Captures of real clients are replayed with real Kafka; they differ only because the cluster's state does."""

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
#: APIs whose responses depend only on earlier requests.
DETERMINISTIC = {
    "CreateTopics", "InitProducerId", "Produce", "AddPartitionsToTxn", "AddOffsetsToTxn", "TxnOffsetCommit", "EndTxn",
    "CreatePartitions", "IncrementalAlterConfigs", "AlterConfigs",
}  # fmt: skip


async def run_replay(client: str, address: TcpAddress) -> list[ReplayedExchange]:
    steps = read_steps(PCAP / f"{client}-4.3.1.pcap.gz", pytest.fail)
    replayer = Replayer(shift_ms=(time.time_ns() - steps[0].at) // 1_000_000)

    async def open_connection(_: object) -> BrokerConnection:
        return await connect(address, 60)

    return [exchange async for exchange in Replay(open_connection, replayer, timeout_s=60).run(steps)]


@pytest.mark.parametrize("lab", RELEASES[:1], indirect=True)  # the release of the captures
@pytest.mark.parametrize("client", ["kafkajs", "kafka-python", "sarama"])
def test_capture_replays_with_few_differences(client: str, lab: Lab) -> None:
    results = asyncio.run(run_replay(client, TcpAddress(*lab.kafka.direct)))
    differences = [
        (exchange.captured.line.api, difference) for exchange in results for difference in exchange.differences
    ]
    assert [(api, difference) for api, difference in differences if api in DETERMINISTIC] == []
    unexplained = [
        exchange for exchange in results if exchange.outcome is ReplayOutcome.DIFFERENT and not exchange.differences
    ]
    assert unexplained == []
    codes = {
        (api, schema_path(parts(difference.path)))
        for api, difference in differences
        if difference.why is DifferenceKind.ERROR_CODE
    }
    assert codes <= {
        ("Heartbeat", "error_code"),
        ("Metadata", "topics[].error_code"),
    }  # due to a rebalance and to an existing topic
    outcomes = [exchange.outcome for exchange in results]
    assert outcomes.count(ReplayOutcome.EQUAL) > 0.8 * len(results)
