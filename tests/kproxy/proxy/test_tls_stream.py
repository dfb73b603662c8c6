"""TLS without sockets, against Python's own ssl."""

from __future__ import annotations

import ssl
from collections.abc import Callable
from pathlib import Path

import pytest

from kproxy.proxy.tls import contexts
from kproxy.proxy.tls.stream import TlsStream
from tests.kproxy.proxy import tls_peer
from tests.kproxy.proxy.certificates import Authority, Files

VERSIONS = [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3]


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return Authority(tmp_path_factory.mktemp("ca"))


@pytest.fixture(scope="module")
def files(authority: Authority) -> Files:
    return authority.issue("localhost")


class SslPeer:
    """The other end of the connection, with Python's ssl."""

    def __init__(self, context: ssl.SSLContext, name: str | None = None, *, server: bool = False) -> None:
        self.incoming, self.outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        self.tls = context.wrap_bio(self.incoming, self.outgoing, server, name)
        self.established = False

    def step(self, data: bytes) -> bytes:
        self.incoming.write(data)
        try:
            self.tls.do_handshake()
            self.established = True
        except ssl.SSLWantReadError:
            pass
        return self.outgoing.read()


def complete_handshake(
    stream: TlsStream, peer: SslPeer, cut: Callable[[bytes], list[bytes]] = lambda data: [data]
) -> bytes:
    """Complete the handshake; return the data that the stream decrypts meanwhile."""
    decrypted = stream.receive_data(b"")
    turns = 0
    while not (stream.established and peer.established and turns > 1):
        for piece in cut(peer.step(stream.data_to_send())):
            decrypted += stream.receive_data(piece)
        turns = turns + 1 if stream.established and peer.established else 0
    return decrypted


def split_into_bytes(data: bytes) -> list[bytes]:
    return [bytes([element]) for element in data]


@pytest.mark.parametrize("version", VERSIONS)
def test_stream_serves_a_client_whose_bytes_arrive_one_by_one(
    authority: Authority, files: Files, version: ssl.TLSVersion
) -> None:
    stream = TlsStream(contexts.server_context(files.certificate, files.key))
    peer = SslPeer(
        tls_peer.client_context(authority.path, minimum_version=version, maximum_version=version), "localhost"
    )
    complete_handshake(stream, peer, split_into_bytes)
    assert stream.requested_name == "localhost"
    peer.tls.write(b"asked" * 5000)
    assert b"".join(map(stream.receive_data, split_into_bytes(peer.outgoing.read()))) == b"asked" * 5000
    peer.incoming.write(stream.send(b"answer"))
    assert peer.tls.read(100) == b"answer"


@pytest.mark.parametrize("version", VERSIONS)
def test_stream_connects_to_a_server_whose_bytes_arrive_one_by_one(
    authority: Authority, files: Files, version: ssl.TLSVersion
) -> None:
    stream = TlsStream(contexts.client_context(authority.path), "localhost")
    peer = SslPeer(tls_peer.server_context(files, minimum_version=version, maximum_version=version), server=True)
    complete_handshake(stream, peer, split_into_bytes)
    peer.incoming.write(stream.send(b"x" * 100_000))
    assert b"".join(peer.tls.read(1 << 16) for _ in range(7)) == b"x" * 100_000


def test_next_call_returns_data_that_arrived_with_the_handshake(authority: Authority, files: Files) -> None:
    stream = TlsStream(contexts.server_context(files.certificate, files.key))
    peer = SslPeer(tls_peer.client_context(authority.path), "localhost")
    stream.receive_data(peer.step(b""))
    last = peer.step(stream.data_to_send())
    peer.tls.write(b"early")
    assert stream.receive_data(last + peer.outgoing.read()) == b""
    assert stream.established
    assert stream.receive_data(b"") == b"early"


def test_close_notify_ends_one_direction(authority: Authority, files: Files) -> None:
    stream = TlsStream(contexts.server_context(files.certificate, files.key))
    peer = SslPeer(tls_peer.client_context(authority.path), "localhost")
    complete_handshake(stream, peer)
    peer.tls.write(b"last")
    with pytest.raises(ssl.SSLWantReadError):
        peer.tls.unwrap()
    assert stream.receive_data(peer.outgoing.read()) == b"last"
    assert stream.closed
    peer.incoming.write(stream.send(b"answer"))
    assert stream.failure is None


def test_stream_reads_after_its_own_close_notify(authority: Authority, files: Files) -> None:
    stream = TlsStream(contexts.server_context(files.certificate, files.key))
    peer = SslPeer(tls_peer.client_context(authority.path), "localhost")
    complete_handshake(stream, peer)
    assert stream.end()
    assert stream.end() == b""
    peer.tls.write(b"still here")
    assert stream.receive_data(peer.outgoing.read()) == b"still here"


def test_damaged_record_is_a_failure_without_an_exception(authority: Authority, files: Files) -> None:
    stream = TlsStream(contexts.server_context(files.certificate, files.key))
    peer = SslPeer(tls_peer.client_context(authority.path), "localhost")
    complete_handshake(stream, peer)
    peer.tls.write(b"good")
    whole = peer.outgoing.read()
    peer.tls.write(b"bad")
    damaged = bytearray(peer.outgoing.read())
    damaged[-1] ^= 1
    assert stream.receive_data(whole + damaged) == b"good"
    assert stream.failure is not None
    assert stream.data_to_send()
    assert stream.receive_data(b"more") == b""


def test_plaintext_is_recognized_by_its_first_byte(files: Files) -> None:
    stream = TlsStream(contexts.server_context(files.certificate, files.key))
    stream.receive_data(b"\0")
    assert stream.plaintext


def test_rejects_an_invalid_server_name(authority: Authority) -> None:
    with pytest.raises(ValueError, match=r"."):
        TlsStream(contexts.client_context(authority.path), ".")


@pytest.mark.parametrize("log", ["new", "there"])
def test_key_log_is_readable_by_its_owner_only(authority: Authority, files: Files, tmp_path: Path, log: str) -> None:
    path = tmp_path / "keys"
    if log == "there":
        path.write_text("")
        path.chmod(0o644)
    context = contexts.server_context(files.certificate, files.key)
    contexts.log_keys([context], path)
    assert path.stat().st_mode & 0o777 == 0o600
    complete_handshake(TlsStream(context), SslPeer(tls_peer.client_context(authority.path), "localhost"))
    assert "CLIENT_TRAFFIC_SECRET_0 " in path.read_text()
    assert path.stat().st_mode & 0o777 == 0o600


def test_unusable_file_is_reported_in_one_sentence(authority: Authority, files: Files, tmp_path: Path) -> None:
    other_files = authority.issue("other")
    encrypted_files = authority.issue("encrypted", password="secret")
    text = tmp_path / "text"
    text.write_text("no certificate")
    broken = tmp_path / "broken"
    broken.write_text("-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n")
    missing = tmp_path / "missing"
    for certificate, key, sentence in [
        (missing, files.key, f"--tls-cert {missing}: No such file or directory; choose another file"),
        (files.certificate, missing, f"--tls-key {missing}: No such file or directory; choose another file"),
        (text, files.key, f"--tls-cert {text} has no PEM certificate: use a file with a -----BEGIN ...CERTIFICATE"),
        (files.certificate, text, f"--tls-key {text} has no PEM private key: use a file with a -----BEGIN ...PRIVATE"),
        (
            files.certificate,
            other_files.key,
            f"--tls-key {other_files.key} is not the key of --tls-cert {files.certificate}",
        ),
        (
            encrypted_files.certificate,
            encrypted_files.key,
            f"--tls-key {encrypted_files.key} is protected by a password",
        ),
        (broken, files.key, f"--tls-cert {broken}, --tls-key {files.key}: "),
    ]:
        with pytest.raises(contexts.TlsFileError) as caught:
            contexts.server_context(certificate, key)
        assert str(caught.value).startswith(sentence)
    for ca in (missing, text, broken):
        with pytest.raises(contexts.TlsFileError, match=f"^--upstream-ca {ca}"):
            contexts.client_context(ca)
    with pytest.raises(contexts.TlsFileError, match=r"^--tls-key-log .*Is a directory"):
        contexts.log_keys([contexts.client_context(authority.path)], tmp_path)
