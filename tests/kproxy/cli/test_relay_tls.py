"""The live proxy with TLS as a user runs it: options, messages, trace and findings."""

import contextlib
import ssl
from pathlib import Path

import pytest

from kproxy.development_ca import certificates, store
from tests.kproxy.cli.conftest import Run
from tests.kproxy.cli.test_relay import ANSWER, REQUEST, Broker, broker, read_trace, running

__all__ = ["broker"]  # a fixture

RELAY_OPTIONS = ("--listen", "0", "--upstream", "k:9092")


@pytest.fixture(scope="module")
def ca(tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = tmp_path_factory.mktemp("ca")
    store.save(directory, certificates.create(["localhost"], 10))
    return directory


def tls_options(ca: Path) -> tuple[object, ...]:
    return "--tls-cert", ca / "cert.pem", "--tls-key", ca / "key.pem"


@pytest.mark.slow
def test_terminates_tls_and_reports_failed_handshakes(ca: Path, broker: Broker, tmp_path: Path) -> None:
    key_log = tmp_path / "keys"
    arguments = ("--upstream", f"127.0.0.1:{broker.port}", *tls_options(ca), "--tls-key-log", key_log)
    with running(tmp_path, *arguments) as proxy:
        trusting_context = ssl.create_default_context(cafile=ca / "ca.pem")
        with proxy.connect() as plain, trusting_context.wrap_socket(plain, server_hostname="localhost") as client:
            client.sendall(REQUEST)
            assert client.recv(len(ANSWER)) == ANSWER
        distrusting_context = ssl.create_default_context()
        with proxy.connect() as plain, pytest.raises(ssl.SSLCertVerificationError):
            distrusting_context.wrap_socket(plain, server_hostname="localhost")
        with proxy.connect() as plain, contextlib.suppress(ConnectionError):
            plain.sendall(REQUEST)
            while plain.recv(1000):
                pass
        out, err = proxy.end()
    assert "TLS with client 127.0.0.1 failed: it does not trust kproxy's certificate: unknown CA" in out
    assert "TLS with client 127.0.0.1 failed: it speaks plaintext" in out
    assert "X001" not in out
    lines = read_trace(tmp_path / "kproxy-trace")
    assert [line["tls"] for line in lines if line["kind"] == "open"] == [True] * 3
    assert [line["api"] for line in lines if line["kind"] == "response"] == ["ApiVersions"]
    assert sorted(str(line["how"]) for line in lines if line["kind"] == "close") == ["fin", "tls", "tls"]
    assert {line["code"] for line in lines if line["kind"] == "finding"} == {"X022"}
    assert "CLIENT_TRAFFIC_SECRET_0" in key_log.read_text()
    assert key_log.stat().st_mode & 0o777 == 0o600
    for text in (out, err, *map(str, lines)):
        assert "PRIVATE KEY" not in text
        assert "TRAFFIC_SECRET" not in text


@pytest.mark.slow
def test_upstream_without_tls_is_reported_at_startup(kproxy_process: Run, broker: Broker) -> None:
    result = kproxy_process("--listen", "0", "--upstream", f"127.0.0.1:{broker.port}", "--upstream-tls", "--no-control")
    assert result.returncode == 3
    assert "is unreachable: TLS failed: it " in result.stderr
    assert (
        "use the port of the broker's TLS listener" in result.stderr or "is the broker's TLS listener" in result.stderr
    )
    assert "or use --no-check to start kproxy without it" in result.stderr


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        (("--tls-cert", "c.pem"), "--tls-cert and --tls-key must be used together"),
        (("--tls-key", "k.pem"), "--tls-cert and --tls-key must be used together"),
        (("--tls-client-ca", "c.pem"), "--tls-client-ca needs --tls-cert and --tls-key"),
        (("--upstream-ca", "c.pem"), "--upstream-ca needs --upstream-tls"),
        (("--upstream-insecure",), "--upstream-insecure needs --upstream-tls"),
        (("--upstream-tls", "--upstream-cert", "c"), "--upstream-cert and --upstream-key must be used together"),
        (("--upstream-tls", "--upstream-ca", "c", "--upstream-insecure"), "--upstream-insecure accepts any"),
        (("--upstream-tls", "--upstream-ca", "c"), "--upstream-ca c: No such file or directory; choose another file"),
        (("--upstream-tls", "--tls-key-log", "no/log"), "--tls-key-log no/log: No such file or directory; choose"),
        (("--tls-key-log", "log"), "--tls-key-log needs TLS: pass --tls-cert and --tls-key, or --upstream-tls"),
        (("--tls-cert", "c", "--tls-key", "k"), "--tls-cert c: No such file or directory; choose another file"),
        (("--advertise", "b$id.x"), "--advertise with $id in a host name needs TLS, which tells the names apart"),
        (("--advertise", "b$id$id.x"), "--advertise 'b$id$id.x': use a host name with $id in it once"),
        (("--advertise", "b$id.x:0"), "--advertise 'b$id.x:0': invalid port '0': use 1 to 65535"),
    ],
)
def test_invalid_tls_option_prints_one_sentence(kproxy: Run, arguments: tuple[str, ...], reason: str) -> None:
    result = kproxy(*RELAY_OPTIONS, "--no-check", *arguments)
    assert (result.returncode, result.stdout) == (2, "")
    assert result.stderr.startswith(f"kproxy: {reason}")
    assert result.stderr.count("\n") == 1


@pytest.mark.parametrize("option", ["--upstream-tls", "--upstream-insecure", "--upstream-sni=x"])
def test_upstream_tls_options_are_rejected_with_the_built_in_broker(kproxy: Run, option: str) -> None:
    result = kproxy("--listen", "0", "--upstream", option)
    assert result.returncode == 2
    assert f"{option.partition('=')[0]} cannot be used with the built-in broker" in result.stderr
