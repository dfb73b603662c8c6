"""What is wrong with a certificate of kproxy's own, as peers see it that reject it and do not say why."""

from __future__ import annotations

import ssl

import pytest

from dissectors.connections.tls_failures import TlsReason
from kproxy.proxy.tls.failure import tls_error
from kproxy.proxy.tls.own_certificate import OwnCertificate
from tests.kproxy.proxy.certificates import Files
from tests.kproxy.proxy.tls_relay import Certificates, in_thread

UNSPECIFIC = ["SSLV3_ALERT_BAD_CERTIFICATE", "SSLV3_ALERT_CERTIFICATE_UNKNOWN", "SSLV3_ALERT_UNSUPPORTED_CERTIFICATE"]


def own(files: Files, *, for_clients: bool = True) -> OwnCertificate:
    return in_thread(OwnCertificate, files.certificate, files.key, for_clients=for_clients)


def flaw(files: Files, *names: str, for_clients: bool = True) -> tuple[TlsReason, str] | None:
    found = own(files, for_clients=for_clients).flaw(names)
    return found and (found.reason, found.detail)


def test_a_right_certificate_has_no_flaw(made: Certificates) -> None:
    assert flaw(made.proxy, "localhost") is None
    assert flaw(made.proxy, "b1.kafka.test") is None
    assert flaw(made.broker, "127.0.0.1") is None
    assert flaw(made.proxy) is None
    assert flaw(made.client, for_clients=False) is None


def test_one_name_that_fits_is_enough(made: Certificates) -> None:
    assert flaw(made.proxy, "127.0.0.1", "localhost") is None


@pytest.mark.parametrize(
    "name", ["other.test", "127.0.0.1", "kafka.test", "a.b.kafka.test", "not a name", "", "x" * 300]
)
def test_a_name_that_is_not_in_the_certificate(made: Certificates, name: str) -> None:
    reason, detail = flaw(made.proxy, name)  # type: ignore[misc]
    assert reason is TlsReason.NAME_MISMATCH
    assert "not valid for" in detail


@pytest.mark.parametrize(("days", "reason"), [(-3, TlsReason.EXPIRED), (3, TlsReason.NOT_YET_VALID)])
@pytest.mark.parametrize("names", [("localhost",), ()])
@pytest.mark.parametrize("for_clients", [True, False])
def test_the_wrong_time(
    made: Certificates, days: int, reason: TlsReason, names: tuple[str, ...], for_clients: bool
) -> None:
    found = flaw(made.ca.issue("localhost", days=days), *names, for_clients=for_clients)
    assert found is not None
    assert found[0] is reason


def alert(name: str) -> ssl.SSLError:
    error = ssl.SSLError(1, name)
    error.reason = name
    return error


@pytest.mark.parametrize("name", UNSPECIFIC)
def test_an_unspecific_alert_gets_the_reason_that_the_certificate_gives(made: Certificates, name: str) -> None:
    expired = own(made.ca.issue("localhost", days=-3))
    error = tls_error(alert(name), own=expired, names=("localhost",))
    assert (error.reason, error.by_peer) == (TlsReason.EXPIRED, True)
    error = tls_error(alert(name), own=own(made.proxy), names=("other.test",))
    assert error.reason is TlsReason.NAME_MISMATCH
    assert str(error) == (
        "TLS failed: it rejected kproxy's certificate: not for this host name "
        "(Hostname mismatch, certificate is not valid for 'other.test')"
    )
    error = tls_error(alert(name), own=own(made.proxy), names=("localhost",))
    assert (error.reason, error.by_peer) == (TlsReason.BAD_CERTIFICATE, True)


def test_an_alert_that_names_the_reason_is_taken_as_it_is(made: Certificates) -> None:
    expired = own(made.ca.issue("localhost", days=-3))
    assert tls_error(alert("TLSV1_ALERT_UNKNOWN_CA"), own=expired).reason is TlsReason.UNKNOWN_CA
