from __future__ import annotations

import asyncio
import ssl
from pathlib import Path
from typing import Any

import pytest

from kproxy.broker.security.subject import subject
from tests.kproxy.broker.security.certificates import tls_context, write_self_signed
from tests.kproxy.broker.security.sasl_client import login_plain
from tests.kproxy.broker.socket_client import broker_client


@pytest.fixture(scope="module")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_self_signed(tmp_path_factory.mktemp("tls") / "both.pem")


async def request_metadata(client: Any) -> Any:
    return await client("Metadata", 9, {"topics": []})


async def test_listener_accepts_tls(certificate: Path) -> None:
    async with broker_client(tls=tls_context(certificate), tls_certificate=certificate) as client:
        assert len((await request_metadata(client))["brokers"]) == 1


async def test_sasl_works_over_tls(certificate: Path) -> None:
    options = {"tls_certificate": certificate, "sasl": ["PLAIN"], "users": {"alice": "secret"}}
    async with broker_client(tls=tls_context(certificate), **options) as client:
        assert (await login_plain(client))["error_code"] == 0
        await request_metadata(client)


async def test_rejects_a_client_without_the_required_certificate(certificate: Path) -> None:
    options = {"tls_certificate": certificate, "tls_client_ca": certificate}
    async with broker_client(tls=tls_context(certificate), **options) as client:
        with pytest.raises((ssl.SSLError, ConnectionError, asyncio.IncompleteReadError)):
            await request_metadata(client)


async def test_certificate_subject_is_the_principal(certificate: Path) -> None:
    principal = "User:1.2.840.113549.1.9.1=#16056140622e63,CN=alice,O=Example\\, Inc,C=NL"
    options = {"tls_certificate": certificate, "tls_client_ca": certificate, "acls": True, "super_users": (principal,)}
    async with broker_client(tls=tls_context(certificate, as_client=True), topics={"t": 1}, **options) as client:
        body = await client("Metadata", 9, {"topics": [{"name": "t"}]})
        assert [topic["error_code"] for topic in body["topics"]] == [0]


async def test_tls_listener_does_not_serve_plaintext(certificate: Path) -> None:
    async with broker_client(tls_certificate=certificate) as client:
        await client.send("ApiVersions", 0)
        reader, _ = await client.streams(1)
        async with asyncio.timeout(5):
            assert (await reader.read()).startswith(b"\x15") or reader.at_eof()


@pytest.mark.parametrize(
    ("parts", "expected"),
    [
        ([[("commonName", "a")]], "CN=a"),
        ([[("organizationName", "o")], [("commonName", "a"), ("userId", "u")]], "CN=a+UID=u,O=o"),
        # Java formats these two in the same way.
        ([[("commonName", ' #a+"b"\\<c>; ')]], 'CN=\\ \\#a\\+\\"b\\"\\\\\\<c\\>\\;\\ '),
        ([[("organizationalUnitName", "a=b")], [("domainComponent", "z")]], "DC=z,OU=a\\=b"),
        ([[("serialNumber", "12")]], "2.5.4.5=#13023132"),
        ([[("jurisdictionCountryName", "NL")], [("commonName", "a")]], "CN=a"),
    ],
)
def test_subject_is_formatted_as_in_rfc_2253(parts: Any, expected: str) -> None:
    assert subject({"subject": parts}) == expected
