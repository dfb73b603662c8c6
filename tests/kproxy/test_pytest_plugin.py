"""The pytest plugin is tested in a separate run: which findings fail a test, and with which messages."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

TESTS = """
import socket
import pytest
from dissectors import encode_request

METADATA = encode_request("Metadata", 9, {"topics": None}, client_id="mine")
CONFIGS = encode_request("DescribeConfigs", 1, {"resources": []}, client_id="mine")

def ask(address, *requests):
    host, port = address.split(":")
    with socket.create_connection((host, int(port)), timeout=30) as client:
        for request in requests or [METADATA]:
            client.sendall(request)
            assert client.recv(4096)

def test_broker(kproxy_broker):
    ask(kproxy_broker.bootstrap)

@pytest.mark.kproxy_broker(quirks=["Metadata:9:missing:throttle_time_ms"])
def test_wrong_broker(kproxy_broker):
    ask(kproxy_broker.bootstrap)

@pytest.mark.kproxy_broker(quirks=["Metadata:9:missing:throttle_time_ms"])
@pytest.mark.kproxy(ignore=["L"])
def test_ignored(kproxy_broker):
    ask(kproxy_broker.bootstrap)

@pytest.mark.kproxy(fail_on="info")
def test_strict_proxy(kproxy_broker, kproxy_proxy):
    ask(kproxy_proxy(kproxy_broker.bootstrap).bootstrap)

@pytest.mark.kproxy_broker(topic={"orders": 1})
def test_wrong_setting(kproxy_broker):
    pass

def test_unreachable(kproxy_proxy):
    kproxy_proxy("127.0.0.1:1")

@pytest.mark.kproxy(ignore="Q999")
def test_unknown_code(kproxy_broker):
    pass

@pytest.mark.kproxy(fail_on="always")
def test_unknown_severity(kproxy_broker):
    pass

@pytest.mark.kproxy(fail_on="info", ignore=["V003"], rules=["H020:calls=3"])
def test_lower_limit(kproxy_broker):
    ask(kproxy_broker.bootstrap, CONFIGS, CONFIGS, CONFIGS)

@pytest.mark.kproxy(fail_on="info", ignore=["V003"])
def test_usual_limit(kproxy_broker):
    ask(kproxy_broker.bootstrap, CONFIGS, CONFIGS, CONFIGS)

@pytest.mark.kproxy(rules="H020:call=3")
def test_unknown_limit(kproxy_broker):
    pass
"""


def run_pytest(directory: Path, *options: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "-rA", "-q", *options]
    return subprocess.run(command, capture_output=True, text=True, check=False, cwd=directory)


@pytest.fixture(scope="module")
def output(tmp_path_factory: pytest.TempPathFactory) -> str:
    directory = tmp_path_factory.mktemp("run")
    (directory / "test_mine.py").write_text(TESTS)
    (directory / "pytest.ini").write_text(
        "[pytest]\nkproxy_fail_on = error\nasyncio_default_fixture_loop_scope = function\n"
    )
    return run_pytest(directory).stdout


@pytest.mark.slow
def test_findings_fail_the_tests_that_do_not_ignore_them(output: str) -> None:
    lines = output[output.index("short test summary") :].splitlines()
    assert {line.partition(" - ")[0] for line in lines if line.startswith("ERROR")} == {
        "ERROR test_mine.py::test_wrong_broker",
        "ERROR test_mine.py::test_strict_proxy",
        "ERROR test_mine.py::test_wrong_setting",
        "ERROR test_mine.py::test_unknown_code",
        "ERROR test_mine.py::test_unknown_severity",
        "ERROR test_mine.py::test_lower_limit",
        "ERROR test_mine.py::test_unknown_limit",
    }
    assert "PASSED test_mine.py::test_broker" in lines
    assert "PASSED test_mine.py::test_ignored" in lines
    assert "PASSED test_mine.py::test_usual_limit" in lines


@pytest.mark.parametrize(
    "sentence",
    [
        "kproxy found in the traffic of this test:\n\nerror: L004 field-missing-for-version: Metadata v9 response: ",
        "info: V003 no-apiversions: client 'mine' at 127.0.0.1 sends Metadata v9",
        "kproxy_broker: unknown setting 'topic'; did you mean topics?",
        "kproxy cannot start: upstream 127.0.0.1:1 is unreachable: connection refused",
        "--kproxy-ignore Q999: unknown rule",
        "kproxy: invalid fail_on 'always': use info, warning, error, never",
        "info: H020 same-question: client 'mine' at 127.0.0.1 sent the same DescribeConfigs request 3 times",
        "kproxy cannot start: --rule H020:call=3: H020 has no limit 'call'; it has ",
    ],
)
def test_failures_are_reported_in_one_sentence(output: str, sentence: str) -> None:
    assert sentence in output
    assert "Traceback" not in output
    assert "pytest_plugin.py" not in output


@pytest.mark.slow
def test_invalid_project_setting_ends_the_run(tmp_path: Path) -> None:
    (tmp_path / "pytest.ini").write_text("[pytest]\nkproxy_fail_on = often\n")
    process = run_pytest(tmp_path)
    assert process.returncode == pytest.ExitCode.USAGE_ERROR
    assert "ERROR: kproxy: invalid fail_on 'often': use info, warning, error, never" in process.stderr
