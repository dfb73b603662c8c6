"""Flaws of kproxy's own certificate, which explain why a peer rejected it without giving a reason."""

from __future__ import annotations

import ssl

import pytest

from dissectors.connections.tls_failures import TlsReason
from kproxy.proxy.tls.failure import tls_error
from kproxy.proxy.tls.own_certificate import OwnCertificate
from tests.kproxy.proxy.certificates import Files
from tests.kproxy.proxy.tls_relay import Certificates, in_thread

UNSPECIFIC = ["SSLV3_ALERT_BAD_CERTIFICATE", "SSLV3_ALERT_CERTIFICATE_UNKNOWN", "SSLV3_ALERT_UNSUPPORTED_CERTIFICATE"]


def own_certificate(files: Files, *, for_clients: bool = True) -> OwnCertificate:
    return in_thread(OwnCertificate, files.certificate, files.key, for_clients=for_clients)


def flaw(files: Files, *names: str, for_clients: bool = True) -> tuple[TlsReason, str] | None:
    result = own_certificate(files, for_clients=for_clients).flaw(names)
    return result and (result.reason, result.detail)


def test_valid_certificate_has_no_flaw(certificates: Certificates) -> None:
    assert flaw(certificates.proxy, "localhost") is None
    assert flaw(certificates.proxy, "b1.kafka.test") is None
    assert flaw(certificates.broker, "127.0.0.1") is None
    assert flaw(certificates.proxy) is None
    assert flaw(certificates.client, for_clients=False) is None


def test_one_matching_name_is_enough(certificates: Certificates) -> None:
    assert flaw(certificates.proxy, "127.0.0.1", "localhost") is None


@pytest.mark.parametrize(
    "name", ["other.test", "127.0.0.1", "kafka.test", "a.b.kafka.test", "not a name", "", "x" * 300]
)
def test_reports_a_name_that_is_not_in_the_certificate(certificates: Certificates, name: str) -> None:
    reason, detail = flaw(certificates.proxy, name)  # type: ignore[misc]
    assert reason is TlsReason.NAME_MISMATCH
    assert "not valid for" in detail


@pytest.mark.parametrize(("days", "reason"), [(-3, TlsReason.EXPIRED), (3, TlsReason.NOT_YET_VALID)])
@pytest.mark.parametrize("names", [("localhost",), ()])
@pytest.mark.parametrize("for_clients", [True, False])
def test_reports_an_expired_or_not_yet_valid_certificate(
    certificates: Certificates, days: int, reason: TlsReason, names: tuple[str, ...], for_clients: bool
) -> None:
    result = flaw(certificates.ca.issue("localhost", days=days), *names, for_clients=for_clients)
    assert result is not None
    assert result[0] is reason


def alert(name: str) -> ssl.SSLError:
    error = ssl.SSLError(1, name)
    error.reason = name
    return error


@pytest.mark.parametrize("name", UNSPECIFIC)
def test_flaw_of_the_certificate_explains_an_unspecific_alert(certificates: Certificates, name: str) -> None:
    expired = own_certificate(certificates.ca.issue("localhost", days=-3))
    error = tls_error(alert(name), own_certificate=expired, names=("localhost",))
    assert (error.reason, error.by_peer) == (TlsReason.EXPIRED, True)
    error = tls_error(alert(name), own_certificate=own_certificate(certificates.proxy), names=("other.test",))
    assert error.reason is TlsReason.NAME_MISMATCH
    assert str(error) == (
        "TLS failed: it rejected kproxy's certificate: not for this host name "
        "(Hostname mismatch, certificate is not valid for 'other.test')"
    )
    error = tls_error(alert(name), own_certificate=own_certificate(certificates.proxy), names=("localhost",))
    assert (error.reason, error.by_peer) == (TlsReason.BAD_CERTIFICATE, True)


def test_specific_alert_is_reported_unchanged(certificates: Certificates) -> None:
    expired = own_certificate(certificates.ca.issue("localhost", days=-3))
    assert tls_error(alert("TLSV1_ALERT_UNKNOWN_CA"), own_certificate=expired).reason is TlsReason.UNKNOWN_CA
