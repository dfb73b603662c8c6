"""Servers are assigned to clusters."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from kproxy.cli import main
from kproxy.spark.derived.clusters import ServerLocation, Sighting, clusters
from kproxy.trace.lines import Line
from tests.kproxy.spark.conftest import ENGINE
from tests.kproxy.spark.files import trace_bytes, write
from tests.kproxy.spark.sample_lines import finding, request, response

#: A proxy, a server, the cluster id that the server reports, and the brokers that it names.
SightingRow = tuple[str, str, str | None, Sequence[str]]


def cluster_names(*sightings: SightingRow) -> dict[str, str]:
    """Return the cluster of each server, keyed by ``proxy server``."""
    names = clusters(
        Sighting(ServerLocation(proxy, server), cluster_id, brokers, 1)
        for proxy, server, cluster_id, brokers in sightings
    )
    return {" ".join(location): name for location, name in names.items()}


@pytest.mark.parametrize(
    ("sightings", "expected"),
    [
        pytest.param([("p", "a:1", None, [])], {"p a:1": "a:1"}, id="nothing is known"),
        pytest.param(
            [("p", "a:1", None, []), ("p", "a:1", "X", [])], {"p a:1": "X"}, id="an id is for the whole server"
        ),
        pytest.param(
            [("p", "a:1", "X", []), ("q", "a:1", "Y", [])],
            {"p a:1": "X", "q a:1": "Y"},
            id="two networks have the same address",
        ),
        pytest.param(
            [("p", "a:1", "X", []), ("p", "b:1", None, [])],
            {"p a:1": "X", "p b:1": "X"},
            id="a proxy has seen one cluster only",
        ),
        pytest.param(
            [("c", "a:1", "X", ["a:1", "b:1"]), ("c", "d:1", "Y", ["d:1"]), ("c", "b:1", None, [])],
            {"c a:1": "X", "c d:1": "Y", "c b:1": "X"},
            id="a capture of two clusters: a broker is named",
        ),
        pytest.param(
            [("c", "a:1", "X", []), ("c", "d:1", "Y", []), ("c", "e:1", None, []), ("c", "f:1", None, [])],
            {"c a:1": "X", "c d:1": "Y", "c e:1": "e:1", "c f:1": "f:1"},
            id="a capture of two clusters: nobody knows",
        ),
        pytest.param(
            [("p", "a:1", "X", ["B.example:1"]), ("q", "b.example:1", None, [])],
            {"p a:1": "X", "q b.example:1": "X"},
            id="another proxy knows the broker",
        ),
        pytest.param(
            [("p", "a:1", "X", ["k:1"]), ("q", "b:1", None, ["k:1"]), ("q", "c:1", None, [])],
            {"p a:1": "X", "q b:1": "X", "q c:1": "X"},
            id="both name the same broker",
        ),
        pytest.param(
            [("p", "b:1", None, []), ("p", "a:1", None, []), ("q", "b:1", None, []), ("q", "c:1", None, []),
             ("r", "d:1", None, [])],
            {"p b:1": "a:1", "p a:1": "a:1", "q b:1": "a:1", "q c:1": "a:1", "r d:1": "d:1"},
            id="old traces: servers of one proxy, and of those that share one",
        ),
        pytest.param(
            [(f"p{proxy}", f"{server}:1", None, []) for proxy in range(8) for server in (proxy, proxy + 1)],
            {f"p{proxy} {server}:1": "0:1" for proxy in range(8) for server in (proxy, proxy + 1)},
            id="a chain of proxies",
        ),
        pytest.param(
            [("p", "a:1", None, ["k:1", "l:1"]), ("q", "b:1", None, ["l:1"]), ("r", "c:1", None, ["m:1"])],
            {"p a:1": "a:1", "q b:1": "a:1", "r c:1": "c:1"},
            id="Metadata before version 2: brokers in common",
        ),
        pytest.param(
            [("p", "localhost:1", None, []), ("q", "127.0.0.1:1", None, [])],
            {"p localhost:1": "127.0.0.1:1", "q 127.0.0.1:1": "127.0.0.1:1"},
            id="two spellings of an address",
        ),
    ],
)  # fmt: skip
def test_every_server_is_assigned_to_its_cluster(sightings: list[SightingRow], expected: dict[str, str]) -> None:
    assert cluster_names(*sightings) == expected
    assert cluster_names(*reversed(sightings)) == expected


def cluster_lines(cluster_id: str, proxy: str, errors: int) -> Iterator[Line]:
    """Yield the lines of a proxy in front of a cluster; every cluster's broker has the same address."""
    connection_columns = {"connection_id": f"{proxy}-1-1", "server": "kafka:9092"}
    yield response("Metadata", at=0, **connection_columns, cluster_id=cluster_id, brokers=["kafka:9092"])
    for number in range(errors):
        yield request("Heartbeat", at=1 + number, **connection_columns, group_id="billing", member_id="m")
        yield response("Heartbeat", at=1 + number, **connection_columns, group_id="billing", member_id="m")
    yield finding("C016", at=9, connection_id=f"{proxy}-1-1")


@pytest.fixture
def analyze(
    spark: SparkSession, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> Callable[..., str]:
    """Return a function that runs a command in this process and returns its output."""
    monkeypatch.setattr(type(spark), "stop", lambda _: None)

    def run(*args: object) -> str:
        capfd.readouterr()
        assert main(["analyze", "--engine", ENGINE, *map(str, args)]) == 0
        return capfd.readouterr().out

    return run


def test_cluster_column_is_shown_only_if_there_are_several_clusters(
    analyze: Callable[..., str], tmp_path: Path
) -> None:
    write(tmp_path / "a" / "a.jsonl", trace_bytes(*cluster_lines("A", "p", 3)))
    write(tmp_path / "b" / "b.jsonl", trace_bytes(*cluster_lines("B", "q", 2)))
    # The filter excludes the lines that contain the cluster id.
    args = ("--job", "latency", "--where", "api=Heartbeat")
    output = analyze(tmp_path, *args, "--format", "json")
    rows = [json.loads(line) for line in output.splitlines()]
    assert list(rows[0])[-1] == "cluster"
    assert {(row["by"], row["value"], row["responses"], row["cluster"]) for row in rows if row["by"] != "version"} == {
        (by, value, responses, cluster)
        for by, value in (("api", None), ("client", "app"), ("broker", "kafka:9092"))
        for responses, cluster in ((3, "A"), (2, "B"))
    }
    assert analyze(tmp_path, *args).splitlines()[1].endswith("\tcluster")
    assert "cluster" not in analyze(tmp_path / "a", *args)
    [row] = map(json.loads, analyze(tmp_path / "a", "--job", "findings", "--format", "json").splitlines())
    assert (row["code"], row["cluster"]) == ("C016", "A")
    analyze("convert", tmp_path, "--out", tmp_path / "table")
    rows = [
        json.loads(line) for line in analyze(tmp_path / "table", "--job", "findings", "--format", "json").splitlines()
    ]
    assert [(row["client"], row["broker"], row["cluster"]) for row in rows] == [
        ("app", "kafka:9092", "A"), ("app", "kafka:9092", "B"),
    ]  # fmt: skip
