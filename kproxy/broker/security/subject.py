"""The subject of a certificate as Kafka prints it: RFC 2253, most specific part first."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final

# The attributes with keywords in Java's X500Principal.getName; others are printed as numbers and hex.
_KEYWORDS: Final = {
    "commonName": "CN",
    "countryName": "C",
    "localityName": "L",
    "stateOrProvinceName": "ST",
    "organizationName": "O",
    "organizationalUnitName": "OU",
    "streetAddress": "STREET",
    "domainComponent": "DC",
    "userId": "UID",
}
_IA5_STRING, _PRINTABLE_STRING = 0x16, 0x13
_OIDS: Final = {
    "emailAddress": ("1.2.840.113549.1.9.1", _IA5_STRING),
    "serialNumber": ("2.5.4.5", _PRINTABLE_STRING),
}
_ESCAPED: Final = re.compile(r'[,=+<>#;"\\]|^ +| +$')


def subject(certificate: Mapping[str, Any]) -> str:
    """Return the subject of a certificate from `ssl.SSLSocket.getpeercert`, e.g. ``CN=alice,OU=kafka,O=example``.

    Attributes without a keyword in Java, which do not identify clients, are left out.
    """
    names = []
    for attributes in reversed(certificate["subject"]):
        formatted = [text for key, value in attributes if (text := _format_attribute(key, value))]
        if formatted:
            names.append("+".join(formatted))
    return ",".join(names)


def _format_attribute(key: str, value: str) -> str | None:
    if key in _KEYWORDS:
        return f"{_KEYWORDS[key]}={_ESCAPED.sub(_escape, value)}"
    if key in _OIDS and len(value) < 128:
        oid, tag = _OIDS[key]
        return f"{oid}=#{bytes((tag, len(value), *value.encode())).hex()}"
    return None


def _escape(match: re.Match[str]) -> str:
    return "".join(f"\\{character}" for character in match[0])
