"""Differences between direct and proxied runs of a suite are found, and problems in a trace."""

from __future__ import annotations

import pytest

from tests.peers.suites.comparison import Run, differences, trace_problems, unsteady_tests
from tests.peers.trace import Line


def runs(*outcomes: str) -> list[Run]:
    return [Run({} if outcome == "absent" else {"test_group": outcome}, 1.0, None) for outcome in outcomes]


@pytest.mark.parametrize(
    ("direct", "through", "differs", "varies"),
    [
        (("passed", "passed"), ("passed", "passed"), False, False),
        (("failure: x", "FAIL"), ("error: y", "did not end"), False, False),
        (("passed", "passed"), ("passed", "failure: x"), True, False),
        (("failure: x", "failure: x"), ("passed", "passed"), True, False),
        (("passed", "passed"), ("passed", "absent"), True, False),
        (("passed", "passed"), ("skipped: z", "SKIP"), True, False),
        (("passed", "failure: x"), ("passed", "passed"), False, True),
    ],
)
def test_outcomes_that_never_occur_directly_are_differences(
    direct: tuple[str, ...], through: tuple[str, ...], *, differs: bool, varies: bool
) -> None:
    assert bool(differences(runs(*direct), runs(*through))) is differs
    assert bool(unsteady_tests(runs(*direct), runs(*through))) is varies


def metadata(*rewritten: str) -> Line:
    brokers = ["127.0.0.1:15001", "127.0.0.1:15002"]
    changes = [{"path": path, "from": "15001", "to": "16001"} for path in rewritten]
    return {"kind": "response", "api": "Metadata", "brokers": brokers, "rewritten": changes}


def finding(code: str, blame: str) -> Line:
    return {"kind": "finding", "code": code, "name": "some-name", "blame": blame}


@pytest.mark.parametrize(
    ("line", "problem"),
    [
        (metadata("brokers[0].port", "brokers[1].port"), None),
        (
            metadata("brokers[0].host", "brokers[1].port"),
            "1 Metadata responses whose brokers' ports were not all rewritten",
        ),
        ({"kind": "gap"}, "1 gaps in the trace"),
        (finding("S027", "client"), None),
        (finding("C012", "broker"), None),
        (finding("S027", "broker"), "1 x S027 some-name, blame broker"),
        (finding("L010", "client"), "1 x L010 some-name, blame client"),
        (finding("K007", "kproxy"), "1 x K007 some-name, blame kproxy"),
        (finding("S002", "network"), "1 x S002 some-name, blame network"),
    ],
)
def test_only_findings_against_valid_traffic_are_problems(line: Line, problem: str | None) -> None:
    assert list(trace_problems([line])) == ([] if problem is None else [problem])
