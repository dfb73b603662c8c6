"""SASL GSSAPI (RFC 4752) with Kerberos: identify tokens by their first bytes (RFC 4121, section 4.1)."""

from __future__ import annotations

from dissectors.sasl.messages import GssapiKind, GssapiToken

#: The object identifier of Kerberos 5, 1.2.840.113554.1.2.2, as DER.
_KERBEROS = bytes.fromhex("06092a864886f712010202")
_KINDS = {
    b"\x01\x00": GssapiKind.INITIAL,
    b"\x02\x00": GssapiKind.REPLY,
    b"\x03\x00": GssapiKind.ERROR,
    b"\x02\x01": GssapiKind.WRAP,  # RFC 1964
    b"\x05\x04": GssapiKind.WRAP,
}
#: The first byte of a client's first token, and of some others: an ASN.1 application tag.
APPLICATION = b"\x60"


def is_first_token(data: bytes) -> bool:
    """Whether this is the first token of a client."""
    return data[:1] == APPLICATION and read(data[:32]).kind is GssapiKind.INITIAL


def read(data: bytes) -> GssapiToken:
    """Read a token from either side; the client's last token wraps the protection that it chose."""
    if not data:
        return GssapiToken(kind=GssapiKind.EMPTY)
    inner = data
    if data[:1] == APPLICATION and len(data) > 1:
        header_size = 2 + (data[1] & 0x7F if data[1] & 0x80 else 0)  # DER: one byte, or the number of length bytes
        if not data.startswith(_KERBEROS, header_size):
            return GssapiToken()
        inner = data[header_size + len(_KERBEROS) :]
    return GssapiToken(kind=_KINDS.get(bytes(inner[:2]), GssapiKind.OTHER))
