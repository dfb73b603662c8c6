"""Decrypts TLS records: key schedules and AEAD ciphers of TLS 1.2 and 1.3."""

from __future__ import annotations

import hmac
from typing import NamedTuple, Protocol, TypeAlias

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM, ChaCha20Poly1305

_Aead: TypeAlias = AESGCM | ChaCha20Poly1305
_TAG = 16


class Suite(NamedTuple):
    """The parameters of a cipher suite that decryption needs."""

    aead: type[AESGCM] | type[ChaCha20Poly1305]
    key_size: int
    hash_name: str


_AES_128 = Suite(AESGCM, 16, "sha256")
_AES_256 = Suite(AESGCM, 32, "sha384")
_CHACHA = Suite(ChaCha20Poly1305, 32, "sha256")

#: Suites by number: TLS 1.3 (RFC 8446), and TLS 1.2 with AES-GCM (RFC 5288, 5289) or ChaCha20 (RFC 7905).
TLS13_SUITES = {0x1301: _AES_128, 0x1302: _AES_256, 0x1303: _CHACHA}
TLS12_SUITES = {
    **dict.fromkeys((0x009C, 0x009E, 0xC02B, 0xC02F), _AES_128),
    **dict.fromkeys((0x009D, 0x009F, 0xC02C, 0xC030), _AES_256),
    **dict.fromkeys((0xCCA8, 0xCCA9, 0xCCAA), _CHACHA),
}


class RecordCipher(Protocol):
    """Decrypts the records of one direction with one key."""

    def open(self, content_type: int, header: bytes, body: bytes) -> tuple[int, bytes] | None:
        """Return content type and plaintext of the next record, None if key or sequence number do not match."""
        ...


class Tls13Cipher:
    """Decrypts records with one traffic secret (RFC 8446, 5.2 and 7.3)."""

    def __init__(self, suite: Suite, secret: bytes) -> None:
        self._suite = suite
        self._secret = secret
        self._aead: _Aead = suite.aead(self._expand("key", suite.key_size))
        self._nonce = int.from_bytes(self._expand("iv", 12), "big")
        self._sequence = 0

    def open(self, content_type: int, header: bytes, body: bytes) -> tuple[int, bytes] | None:
        inner = _decrypt(self._aead, self._nonce ^ self._sequence, body, header)
        if inner is None:
            return None
        self._sequence += 1
        inner = inner.rstrip(b"\0")  # padding follows the real content type
        return (inner[-1], inner[:-1]) if inner else (content_type, b"")

    def updated(self) -> Tls13Cipher:
        """Return the cipher after a KeyUpdate."""
        return Tls13Cipher(self._suite, self._expand("traffic upd", len(self._secret)))

    def _expand(self, label: str, size: int) -> bytes:
        name = b"tls13 " + label.encode()
        info = size.to_bytes(2, "big") + bytes((len(name),)) + name + b"\0"
        return hmac.digest(self._secret, info + b"\x01", self._suite.hash_name)[:size]  # never more than one block


class Tls12Cipher:
    """Decrypts records of one direction of a TLS 1.2 session (RFC 5246, 5288, 7905)."""

    def __init__(self, suite: Suite, key: bytes, salt: bytes) -> None:
        self._aead: _Aead = suite.aead(key)
        self._salt = salt
        self._explicit_size = 12 - len(salt)  # number of nonce bytes in each record
        self._sequence = 0

    def open(self, content_type: int, header: bytes, body: bytes) -> tuple[int, bytes] | None:
        size = len(body) - self._explicit_size - _TAG
        if size < 0:
            return None
        if self._explicit_size:
            nonce = int.from_bytes(self._salt + body[: self._explicit_size], "big")
        else:
            nonce = int.from_bytes(self._salt, "big") ^ self._sequence
        associated_data = self._sequence.to_bytes(8, "big") + header[:3] + size.to_bytes(2, "big")
        plaintext = _decrypt(self._aead, nonce, body[self._explicit_size :], associated_data)
        if plaintext is None:
            return None
        self._sequence += 1
        return content_type, plaintext


def tls12_ciphers(
    suite: Suite, master_secret: bytes, client_random: bytes, server_random: bytes
) -> tuple[Tls12Cipher, Tls12Cipher]:
    """Return the ciphers of the client's and of the server's records."""
    key_size, salt_size = suite.key_size, 12 if suite.aead is ChaCha20Poly1305 else 4
    block = _tls12_prf(suite.hash_name, master_secret, b"key expansion" + server_random + client_random)
    keys, salts = block[: 2 * key_size], block[2 * key_size :]
    return Tls12Cipher(suite, keys[:key_size], salts[:salt_size]), Tls12Cipher(
        suite, keys[key_size:], salts[salt_size : 2 * salt_size]
    )


def _tls12_prf(hash_name: str, secret: bytes, seed: bytes) -> bytes:
    """Compute P_hash (RFC 5246, 5): at least 88 bytes, enough for the keys of all suites here."""
    output, link = b"", seed
    while len(output) < 2 * (32 + 12):
        link = hmac.digest(secret, link, hash_name)
        output += hmac.digest(secret, link + seed, hash_name)
    return output


def _decrypt(aead: _Aead, nonce: int, body: bytes, associated_data: bytes) -> bytes | None:
    try:
        return aead.decrypt(nonce.to_bytes(12, "big"), body, associated_data)
    except InvalidTag:
        return None
