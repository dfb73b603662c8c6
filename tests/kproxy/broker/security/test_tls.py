from __future__ import annotations

import asyncio
import ssl
from pathlib import Path
from typing import Any

import pytest

from kproxy.broker.security.subject import subject
from tests.kproxy.broker.security.certificates import self_signed, trusting
from tests.kproxy.broker.security.sasl_client import plain
from tests.kproxy.broker.socket_client import asked


@pytest.fixture(scope="module")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return self_signed(tmp_path_factory.mktemp("tls") / "both.pem")


async def metadata(ask: Any) -> Any:
    return await ask("Metadata", 9, {"topics": []})


async def test_a_listener_speaks_tls(certificate: Path) -> None:
    async with asked(tls=trusting(certificate), tls_certificate=certificate) as ask:
        assert len((await metadata(ask))["brokers"]) == 1


async def test_and_sasl_within_it(certificate: Path) -> None:
    options = {"tls_certificate": certificate, "sasl": ["PLAIN"], "users": {"alice": "secret"}}
    async with asked(tls=trusting(certificate), **options) as ask:
        assert (await plain(ask))["error_code"] == 0
        await metadata(ask)


async def test_a_client_without_a_certificate_is_nobody_where_it_needs_one(certificate: Path) -> None:
    options = {"tls_certificate": certificate, "tls_client_ca": certificate}
    async with asked(tls=trusting(certificate), **options) as ask:
        with pytest.raises((ssl.SSLError, ConnectionError, asyncio.IncompleteReadError)):
            await metadata(ask)


async def test_a_client_is_who_its_certificate_says(certificate: Path) -> None:
    who = "User:1.2.840.113549.1.9.1=#16056140622e63,CN=alice,O=Example\\, Inc,C=NL"
    options = {"tls_certificate": certificate, "tls_client_ca": certificate, "acls": True, "super_users": (who,)}
    async with asked(tls=trusting(certificate, as_client=True), topics={"t": 1}, **options) as ask:
        body = await ask("Metadata", 9, {"topics": [{"name": "t"}]})
        assert [topic["error_code"] for topic in body["topics"]] == [0]


async def test_who_speaks_no_tls_is_not_answered(certificate: Path) -> None:
    async with asked(tls_certificate=certificate) as ask:
        await ask.send("ApiVersions", 0)
        reader, _ = await ask.streams(1)
        async with asyncio.timeout(5):
            assert (await reader.read()).startswith(b"\x15") or reader.at_eof()


@pytest.mark.parametrize(
    ("parts", "written"),
    [
        ([[("commonName", "a")]], "CN=a"),
        ([[("organizationName", "o")], [("commonName", "a"), ("userId", "u")]], "CN=a+UID=u,O=o"),
        # These two as Java writes them.
        ([[("commonName", ' #a+"b"\\<c>; ')]], 'CN=\\ \\#a\\+\\"b\\"\\\\\\<c\\>\\;\\ '),
        ([[("organizationalUnitName", "a=b")], [("domainComponent", "z")]], "DC=z,OU=a\\=b"),
        ([[("serialNumber", "12")]], "2.5.4.5=#13023132"),
        ([[("jurisdictionCountryName", "NL")], [("commonName", "a")]], "CN=a"),
    ],
)
def test_subjects_are_written_as_rfc_2253_says(parts: Any, written: str) -> None:
    assert subject({"subject": parts}) == written
