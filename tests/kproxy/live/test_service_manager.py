"""Datagrams of sd_notify(3), received as systemd would receive them."""

from __future__ import annotations

import socket
import time
from pathlib import Path

import pytest

from kproxy.live.service_manager import notify, notify_ready, notify_reloading


def listen(address: str, monkeypatch: pytest.MonkeyPatch) -> socket.socket:
    monkeypatch.setenv("NOTIFY_SOCKET", address)
    sock = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
    sock.bind("\0" + address[1:] if address.startswith("@") else address)
    sock.settimeout(5)
    return sock


@pytest.mark.parametrize("kind", ["path", "abstract"])
def test_sends_readiness_and_status(kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    address = str(tmp_path / "notify") if kind == "path" else f"@kproxy-test-{tmp_path}"
    with listen(address, monkeypatch) as sock:
        notify_ready([("127.0.0.1:9092", "b:9092"), ("[::1]:9092", "b:9092")])
        assert sock.recv(4096) == b"READY=1\nSTATUS=relaying 127.0.0.1:9092 -> b:9092, [::1]:9092 -> b:9092"
        notify("STOPPING=1", status="a line\nREADY=1")  # a status is always a single line
        assert sock.recv(4096) == b"STOPPING=1\nSTATUS=a line READY=1"


def test_reload_message_has_its_start_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with listen(str(tmp_path / "notify"), monkeypatch) as sock:
        started_at = time.monotonic_ns() // 1000
        with pytest.raises(ZeroDivisionError), notify_reloading(lambda: []):
            raise ZeroDivisionError
        state, reload_time, _ = sock.recv(4096).split(b"\n")
        assert state == b"RELOADING=1"
        assert started_at <= int(reload_time.removeprefix(b"MONOTONIC_USEC=")) <= time.monotonic_ns() // 1000
        assert sock.recv(4096).startswith(b"READY=1\n")


@pytest.mark.parametrize(
    "address", ["", "relative", "vsock:2:1234", "/no/such/socket", "@" + "x" * 300, "/" + "x" * 300]
)
def test_ignores_an_unusable_socket(address: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NOTIFY_SOCKET", address)
    notify("READY=1", status="a")


def test_does_nothing_without_a_service_manager(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("NOTIFY_SOCKET", raising=False)
    notify("READY=1")


def test_service_manager_that_does_not_read_does_not_block(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with listen(str(tmp_path / "notify"), monkeypatch):
        for _ in range(5_000):
            notify(status="x" * 1000)
