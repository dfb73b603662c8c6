"""TLS sessions from Kafka captures and from OpenSSL are decrypted with their key log."""

from __future__ import annotations

import json
from collections import defaultdict
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kproxy.capture import BytesCaptured, Reassembler, open_capture
from kproxy.capture.keylog import KeyLog
from tests.kproxy.capture.packets import PCAPS

pytest.importorskip("cryptography", reason="the extra tls is not installed")

from kproxy.capture.tls import TlsDecryptor

#: Sessions between OpenSSL 3.0's s_client and s_server (-rev); a relay recorded each chunk with its direction.
SESSIONS: list[dict[str, Any]] = [json.loads(line) for line in (PCAPS / "tls-sessions.jsonl").read_text().splitlines()]
DECRYPTABLE = [session for session in SESSIONS if "CBC" not in session["name"]]
SESSION = DECRYPTABLE[0]


def chunks(session: dict[str, Any]) -> list[tuple[int, bytes]]:
    return [(direction, bytes.fromhex(data)) for direction, data in session["chunks"]]


def decrypt(decryptor: TlsDecryptor, received: list[tuple[int, bytes]]) -> tuple[str, str]:
    plaintext = [b"", b""]
    for direction, data in received:
        for sender, decrypted in decryptor.receive_data(direction, data):
            plaintext[sender] += decrypted
    return plaintext[0].decode(), plaintext[1].decode()


@pytest.mark.parametrize("session", DECRYPTABLE, ids=lambda session: session["name"])
def test_every_suite_key_updates_and_hello_retries_are_decrypted(session: dict[str, Any]) -> None:
    decryptor = TlsDecryptor(KeyLog(session["keylog"]))
    assert decrypt(decryptor, chunks(session)) == (session["client"], session["server"])
    assert decryptor.problem is None


@pytest.mark.parametrize("session", DECRYPTABLE, ids=lambda session: session["name"])
def test_decrypts_a_stream_byte_by_byte(session: dict[str, Any]) -> None:
    decryptor = TlsDecryptor(KeyLog(session["keylog"]))
    single_bytes = [(direction, bytes((byte,))) for direction, data in chunks(session) for byte in data]
    assert decrypt(decryptor, single_bytes) == (session["client"], session["server"])


def test_handshake_reveals_which_side_is_the_client() -> None:
    decryptor = TlsDecryptor(KeyLog(SESSION["keylog"]))
    swapped = [(1 - direction, data) for direction, data in chunks(SESSION)]
    assert decrypt(decryptor, swapped) == (SESSION["server"], SESSION["client"])


@pytest.mark.parametrize("session", SESSIONS, ids=lambda session: session["name"])
def test_session_without_its_key_yields_a_reason_and_no_data(session: dict[str, Any]) -> None:
    decryptor = TlsDecryptor(KeyLog())
    assert decrypt(decryptor, chunks(session)) == ("", "")
    client_random = chunks(session)[0][1][11:43].hex()
    reason = "TLS version 0x0303 with suite 0xc009 is not supported" if "CBC" in session["name"] else None
    assert decryptor.problem == (reason or f"no key for client random {client_random}")


def test_reports_a_missing_start_of_the_connection() -> None:
    for skipped in (1, 4):
        decryptor = TlsDecryptor(KeyLog(SESSION["keylog"]))
        decrypt(decryptor, chunks(SESSION)[skipped:])
        assert decryptor.problem == "the beginning of the TLS connection is not in the capture"


def test_missing_tls_record_ends_decryption_with_a_reason() -> None:
    decryptor = TlsDecryptor(KeyLog(SESSION["keylog"]))
    received = chunks(SESSION)
    last_server_chunk = max(index for index, (direction, _) in enumerate(received) if direction == 1)
    _, server_plaintext = decrypt(decryptor, received[: last_server_chunk - 3] + received[last_server_chunk:])
    assert SESSION["server"] != server_plaintext
    assert (
        decryptor.problem
        == "a TLS record cannot be decrypted: bytes are missing, or the key belongs to another session"
    )


def test_reports_bytes_that_are_not_tls() -> None:
    decryptor = TlsDecryptor(KeyLog())
    assert decryptor.receive_data(0, b"\0\0\0\x12\0\x03\0\0\0\0\0\1") == []
    assert decryptor.problem == "the captured bytes are not a sequence of TLS records"


@given(st.integers(0, 3000), st.binary(min_size=1, max_size=4), st.integers(0, len(DECRYPTABLE) - 1))
def test_damaged_bytes_never_raise_nor_forge_plaintext(offset: int, damage: bytes, index: int) -> None:
    session = DECRYPTABLE[index]
    decryptor = TlsDecryptor(KeyLog(session["keylog"]))
    received = []
    for direction, data in chunks(session):
        received.append(
            (direction, data[:offset] + damage + data[offset + len(damage) :] if offset < len(data) else data)
        )
        offset -= len(data)
        offset = offset if offset >= 0 else 1 << 20
    client, server = decrypt(decryptor, received)
    assert session["client"].startswith(client)
    assert session["server"].startswith(server)


def test_key_log_skips_invalid_lines() -> None:
    keylog = KeyLog("# comment\n\nCLIENT_RANDOM aa bb\nCLIENT_RANDOM xx bb\nRSA aa\nCLIENT_RANDOM cc dd\n")
    keylog.add("CLIENT_RANDOM aa ee")
    assert len(keylog) == 2
    assert keylog.secret("CLIENT_RANDOM", b"\xaa") == b"\xee"
    assert keylog.secret("CLIENT_RANDOM", b"\xbb") is None


def decrypt_capture(capture: Path, keylog: KeyLog) -> tuple[dict[tuple[int, int], bytes], list[str | None]]:
    decryptors: dict[int, TlsDecryptor] = defaultdict(lambda: TlsDecryptor(keylog))
    plaintext: dict[tuple[int, int], bytes] = defaultdict(bytes)
    reassembler = Reassembler()
    with open_capture(capture) as packets:
        for packet in packets:
            for event in reassembler.receive(packet):
                if isinstance(event, BytesCaptured):
                    for direction, decrypted in decryptors[event.flow.id].receive_data(event.direction, event.data):
                        plaintext[event.flow.id, direction] += decrypted
    return plaintext, [decryptor.problem for decryptor in decryptors.values()]


@pytest.mark.parametrize("name", ["tls-kafka-python-4.3.1", "sasl_ssl-scram512-kafka-python-4.3.1"])
def test_decrypted_kafka_traffic_consists_of_whole_frames(name: str) -> None:
    plaintext, problems = decrypt_capture(PCAPS / f"{name}.pcap.gz", KeyLog((PCAPS / f"{name}.keys").read_text()))
    assert problems == [None] * 6
    for flow in range(6):
        request_ids: list[bytes] = []
        response_ids: list[bytes] = []
        for direction, ids in enumerate((request_ids, response_ids)):
            remaining = plaintext[flow, direction]
            while remaining:
                size = int.from_bytes(remaining[:4], "big")
                frame, remaining = remaining[4 : 4 + size], remaining[4 + size :]
                assert len(frame) == size
                ids.append(frame[4:8] if direction == 0 else frame[:4])
                assert direction == 1 or int.from_bytes(frame[:2], "big") in (18, 17, 36, 3, 19, 20, 0, 2)
        assert response_ids == request_ids


def test_capture_without_keys_yields_one_reason_per_connection() -> None:
    plaintext, problems = decrypt_capture(PCAPS / "tls-java-nokeys-4.3.1.pcap.gz", KeyLog())
    assert plaintext == {}
    assert len(problems) == 4
    assert all(problem and problem.startswith("no key for client random ") for problem in problems)
