"""kcat (librdkafka) through the relay: it sends data as soon as it connects, before the upstream connection exists."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from tests.peers.proxy import Proxy
from tests.peers.toolchains import absent, skip

pytestmark = pytest.mark.peers

CAPTURE = Path(__file__).parents[1] / "data" / "pcap" / "kcat-4.3.1.pcap.gz"
RECORDS = "".join(f"{number}\n" for number in range(1000))


def test_kcat_produces_and_consumes_through_the_relay(tmp_path: Path) -> None:
    if reason := absent("kcat"):
        skip(reason)
    proxy = Proxy(None, tmp_path)
    try:
        run_kcat(proxy, "-P", "-t", "orders", stdin=RECORDS)
        assert run_kcat(proxy, "-C", "-t", "orders", "-p", "0", "-o", "beginning", "-e", "-q") == RECORDS
        proxy.interrupt()
    finally:
        proxy.kill_all()


def run_kcat(proxy: Proxy, *options: str, stdin: str = "") -> str:
    command = ["kcat", "-b", proxy.bootstrap, *options]
    run = subprocess.run(command, input=stdin, capture_output=True, text=True, timeout=120, check=False)
    assert run.returncode == 0, run.stderr + proxy.printed
    return run.stdout


def test_kcat_gets_metadata_from_a_capture(tmp_path: Path) -> None:
    if reason := absent("kcat"):
        skip(reason)
    proxy = Proxy(CAPTURE, tmp_path)
    try:
        output = run_kcat(proxy, "-L")
        proxy.interrupt()
    finally:
        proxy.kill_all()
    assert f"broker 1 at {proxy.bootstrap} (controller)" in output
    assert 'topic "kcat-225886-20008" with 1 partitions:' in output
