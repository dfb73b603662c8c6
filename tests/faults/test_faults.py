"""A dozen scenarios from the fault matrix, which cover every kind of fault, and runs without a fault."""

from __future__ import annotations

from collections.abc import Mapping
from concurrent.futures import Future, ThreadPoolExecutor

import pytest

pytest.importorskip("confluent_kafka")

from tests.faults.apis import CLIENTS
from tests.faults.run import Outcome, play, prepare
from tests.faults.scenarios import all_scenarios
from tests.peers.toolchains import absent, skip

pytestmark = pytest.mark.peers

NAMES = (
    "Produce:close/librdkafka-produce",
    "Fetch:error:TOPIC_AUTHORIZATION_FAILED/java-read",
    "ListOffsets:empty:topics/librdkafka-watermarks",
    "Metadata:layout:missing:controller_id/librdkafka-produce",
    "FindCoordinator:drop/librdkafka-consume",
    "CreateTopics:drop/librdkafka-CreateTopics",
    "JoinGroup:layout:moved:throttle_time_ms:last/franz-go-consume",
    "InitProducerId:error:NOT_COORDINATOR/java-transactions",
    "TxnOffsetCommit:error:GROUP_AUTHORIZATION_FAILED/franz-go-offsets",
    "EndTxn:delay/java-transactions",
    "AlterClientQuotas:close/java-AlterClientQuotas",
    "DescribeQuorum:layout:missing:error_code/franz-go-DescribeQuorum",
    "right/librdkafka-consume",
    "right/franz-go-transactions",
    "right/java-next-generation",
)


@pytest.fixture(scope="module")
def outcomes(tmp_path_factory: pytest.TempPathFactory) -> Mapping[str, Future[Outcome]]:
    """Return the outcomes of all runs, played three at a time because they wait more than they compute."""
    if reason := absent("java", "javac", "mvn", "go"):
        skip(reason)
    for client in CLIENTS:
        prepare(client)
    by_name = {scenario.name: scenario for scenario in all_scenarios()}
    with ThreadPoolExecutor(3) as pool:
        return {name: pool.submit(play, by_name[name], tmp_path_factory.mktemp("run") / "0") for name in NAMES}


@pytest.mark.parametrize("name", NAMES)
def test_first_report_names_the_fault(name: str, outcomes: Mapping[str, Future[Outcome]]) -> None:
    outcome = outcomes[name].result()
    assert outcome.result == ("quiet" if "right/" in name else "first"), (outcome.lacks, [*map(str, outcome.reports)])
