"""kproxy ca: the files of a development CA, verified with Python's ssl and with openssl."""

import shutil
import ssl
import subprocess
from pathlib import Path

import pytest

from kproxy.development_ca import certificates, store
from tests.kproxy.cli.conftest import Run
from tests.kproxy.proxy.test_tls_stream import SslPeer

HOSTS = ("localhost", "*.kafka.example.com", "127.0.0.1", "::1")


@pytest.fixture(scope="module")
def ca(tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = tmp_path_factory.mktemp("made") / "ca"
    store.save(directory, certificates.create(HOSTS, 10))
    return directory


@pytest.mark.parametrize("host", ["localhost", "b1.kafka.example.com", "127.0.0.1", "::1"])
def test_clients_that_trust_the_ca_accept_the_certificate(ca: Path, host: str) -> None:
    server = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    server.load_cert_chain(ca / "cert.pem", ca / "key.pem")
    client = ssl.create_default_context(cafile=ca / "ca.pem")
    client.verify_flags |= ssl.VERIFY_X509_STRICT
    client_end, server_end = SslPeer(client, host), SslPeer(server, server=True)
    data = b""
    while not (client_end.established and server_end.established):
        data = server_end.step(client_end.step(data))


@pytest.mark.skipif(shutil.which("openssl") is None, reason="needs openssl")
def test_openssl_verifies_the_certificate(ca: Path) -> None:
    command = ["openssl", "verify", "-x509_strict", "-purpose", "sslserver", "-CAfile", ca / "ca.pem", ca / "cert.pem"]
    assert subprocess.run(command, capture_output=True, check=True).stdout.endswith(b": OK\n")


def test_keys_are_readable_by_their_owner_only(ca: Path) -> None:
    modes = {path.name: path.stat().st_mode & 0o777 for path in ca.iterdir()}
    assert modes["key.pem"] == modes["ca-key.pem"] == 0o600
    assert set(modes) == {"ca.pem", "ca-key.pem", "cert.pem", "key.pem"}


def test_ca_command_creates_and_exports_a_ca(kproxy: Run, tmp_path: Path) -> None:
    created = kproxy("ca", "create", "my-ca", "--host", "localhost", "--host", "*.kafka.example.com", "--days", 30)
    assert (created.returncode, created.stderr) == (0, "")
    assert "for localhost, *.kafka.example.com, valid for 30 days" in created.stdout
    exported = kproxy("ca", "export", "my-ca")
    assert exported.stdout == (tmp_path / "my-ca" / "ca.pem").read_text()
    for platform in ("Java", "librdkafka", "Python", "Go", "Node", "keytool -importcert"):
        assert platform in exported.stderr
    saved = kproxy("ca", "export", "my-ca", "--output", "trusted.pem")
    assert (tmp_path / "trusted.pem").read_text() == exported.stdout
    assert f"ssl.ca.location={tmp_path / 'trusted.pem'}" in saved.stdout
    for output in (created, exported, saved):
        assert "PRIVATE KEY" not in output.stdout + output.stderr


def test_ca_create_refuses_to_overwrite_a_file(kproxy: Run, tmp_path: Path) -> None:
    (tmp_path / "my-ca").mkdir()
    (tmp_path / "my-ca" / "key.pem").write_text("mine")
    refused = kproxy("ca", "create", "my-ca")
    assert (refused.returncode, refused.stdout) == (2, "")
    assert refused.stderr == "kproxy: my-ca/key.pem exists: choose another directory, or remove it\n"
    assert [path.name for path in (tmp_path / "my-ca").iterdir()] == ["key.pem"]


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        (("create", "--host", "a b"), "--host: 'a b' is not a host name: use NAME, '*.NAME' or an IP address"),
        (("create", "--host", ""), "--host: '' is not a host name"),
        (("create", "--days", 0), "invalid --days 0: use 1 to 36500"),
        (("export",), "kproxy-ca/ca.pem: No such file or directory; make a CA with kproxy ca create kproxy-ca"),
    ],
)
def test_invalid_ca_option_prints_one_sentence(kproxy: Run, arguments: tuple[object, ...], reason: str) -> None:
    refused = kproxy("ca", *arguments)
    assert (refused.returncode, refused.stdout) == (2, "")
    assert refused.stderr.startswith(f"kproxy: {reason}")
    assert refused.stderr.count("\n") == 1
