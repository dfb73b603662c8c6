"""With real clients and real Kafka, each common misconfiguration of TLS or SASL is reported by its finding."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

pytest.importorskip("confluent_kafka")
from tests.peers import misconfigured_sasl, misconfigured_tls
from tests.peers.kafka import RELEASES, missing
from tests.peers.misconfigurations import WRONG_PASSWORD, Case, Setting
from tests.peers.processes import until
from tests.peers.proxy import Proxy
from tests.peers.secure_clients import run_attempts
from tests.peers.secure_cluster import SecureCluster
from tests.peers.toolchains import skip
from tests.peers.trace import Line, all_findings, read_lines

pytestmark = pytest.mark.peers

NEWEST, *OLDER = RELEASES
CASES = (*misconfigured_tls.cases(), *misconfigured_sasl.cases())
DOCUMENT = Path(__file__).parents[2] / "docs" / "proxy.md"


@pytest.fixture(scope="module")
def setting(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Setting]:
    if reason := missing():
        skip(reason)
    directory = tmp_path_factory.mktemp("broker")
    cluster = SecureCluster(request.param, directory, brokers=1)
    cluster.create_topic("orders")
    yield Setting(cluster, directory)
    cluster.kill()


def case_id(case: Case) -> str:
    return f"{case.client}-{case.name}"


@pytest.mark.parametrize("setting", [NEWEST], indirect=True)
@pytest.mark.parametrize("case", CASES, ids=case_id)
def test_finding_names_the_side_the_reason_and_the_remedy(setting: Setting, case: Case, tmp_path: Path) -> None:
    check_case(setting, case, tmp_path)


@pytest.mark.parametrize("setting", OLDER, indirect=True)
@pytest.mark.parametrize("case", [case for case in CASES if case.depends_on_release], ids=case_id)
def test_finding_is_the_same_with_older_brokers(setting: Setting, case: Case, tmp_path: Path) -> None:
    check_case(setting, case, tmp_path)


def check_case(setting: Setting, case: Case, tmp_path: Path) -> None:
    broker = setting.cluster.nodes[0]
    upstream = broker.direct if case.listener == "DIRECT" else broker.listeners[case.listener]
    proxy = Proxy(upstream, tmp_path, "--no-check", "--advertise", *setting.options(case))

    def matching_findings() -> list[Line]:
        lines = all_findings(read_lines(proxy.trace, torn_end=True))
        return [line for line in lines if line["code"] == case.code and line["severity"] != "info"]

    try:
        with run_attempts(case.client, broker, setting.login(case, proxy.bootstrap), tmp_path):
            finding, *_ = until(f"{case.code} is there: {proxy.trace}", matching_findings, timeout=60)
    finally:
        proxy.kill_all()
    assert [part for part in case.message if part not in finding["message"]] == [], finding["message"]
    assert case.hint in finding["hint"]
    assert finding["blame"] == case.blame
    assert WRONG_PASSWORD not in proxy.printed
    findings = all_findings(read_lines(proxy.trace, torn_end=True))
    assert {line["code"] for line in findings if line["severity"] == "error"} <= {case.code}


def test_documentation_lists_each_case_with_its_finding() -> None:
    rows = [line for line in DOCUMENT.read_text().splitlines() if line.startswith("| ") and line.count("|") == 4]
    for case in CASES:
        [row] = (row for row in rows if case.name in row.replace("PLAIN, SCRAM-SHA-256 or ", f"{case.mechanism} "))
        assert case.code in row
