"""Decrypts captured TLS connections with a key log: TLS 1.3, and TLS 1.2 with AEAD suites."""

from __future__ import annotations

from kproxy.capture.keylog import KeyLog
from kproxy.capture.tls_ciphers import (
    TLS12_SUITES,
    TLS13_SUITES,
    RecordCipher,
    Suite,
    Tls13Cipher,
    tls12_ciphers,
)

__all__ = ["KeyLog", "TlsDecryptor"]

_RECORD_HEADER = 5
_MAX_RECORD = (1 << 14) + 2048  # RFC 5246, 6.2.3
_MAX_MESSAGE = 1 << 18  # the longest message is a certificate chain
_CHANGE_CIPHER_SPEC, _ALERT, _HANDSHAKE, _APPLICATION_DATA = 20, 21, 22, 23
_CLIENT_HELLO, _SERVER_HELLO, _FINISHED, _KEY_UPDATE = 1, 2, 20, 24
_SUPPORTED_VERSIONS = 43
_TLS12, _TLS13 = 0x0303, 0x0304
#: The random of a HelloRetryRequest, which otherwise looks like a ServerHello (RFC 8446, 4.1.3).
_RETRY = bytes.fromhex("cf21ad74e59a6111be1d8c021e65b891c2a211167abb8c5e079e09e2c8a8339c")


class _Side:
    """One direction: unprocessed bytes, and its cipher."""

    def __init__(self) -> None:
        self.records = bytearray()
        self.messages = bytearray()
        self.cipher: RecordCipher | None = None
        self.next_cipher: RecordCipher | None = None  # after ChangeCipherSpec, or after Finished in TLS 1.3


class TlsDecryptor:
    """Decrypts both directions of a TLS connection, from its first byte on.

    Directions are 0 and 1; the handshake shows which is the client's. `problem` is None, or the reason why decryption
    stopped: no logged key, an unsupported suite, or missing bytes. Never raises on peer data.
    """

    def __init__(self, keylog: KeyLog) -> None:
        self.problem: str | None = None
        self._keylog = keylog
        self._sides = (_Side(), _Side())
        self._client_random: bytes | None = None
        self._version = 0

    def receive_data(self, direction: int, data: bytes) -> list[tuple[int, bytes]]:
        """Process the next bytes of one direction, in chunks of any size; return (direction, plaintext) pairs."""
        plaintexts: list[tuple[int, bytes]] = []
        side = self._sides[direction]
        if self.problem is not None:
            return plaintexts
        side.records += data
        start, records = 0, side.records
        while self.problem is None and len(records) - start >= _RECORD_HEADER:
            header = bytes(records[start : start + _RECORD_HEADER])
            content_type, size = header[0], int.from_bytes(header[3:], "big")
            if not _CHANGE_CIPHER_SPEC <= content_type <= _APPLICATION_DATA or size > _MAX_RECORD:
                self.problem = "the captured bytes are not a sequence of TLS records"
                break
            end = start + _RECORD_HEADER + size
            if end > len(records):
                break
            application_data = self._receive_record(direction, header, bytes(records[start + _RECORD_HEADER : end]))
            if application_data:
                plaintexts.append((direction, application_data))
            start = end
        del records[:start]
        return plaintexts

    def _receive_record(self, direction: int, header: bytes, body: bytes) -> bytes:
        """Process a complete record; return its application data."""
        side, content_type = self._sides[direction], header[0]
        if content_type == _CHANGE_CIPHER_SPEC and self._version != _TLS13:
            side.cipher, side.next_cipher = side.next_cipher, None
            return b""
        if side.cipher is not None and (self._version == _TLS12 or content_type == _APPLICATION_DATA):
            decrypted = side.cipher.open(content_type, header, body)
            if decrypted is None:
                self.problem = (
                    "a TLS record cannot be decrypted: bytes are missing, or the key belongs to another session"
                )
                return b""
            content_type, body = decrypted
            if content_type == _APPLICATION_DATA:
                return body
        elif content_type == _APPLICATION_DATA:
            self.problem = (
                "the beginning of the TLS connection is not in the capture"
                if self._client_random is None
                else "TLS data arrived before its keys: early data, or bytes are missing"
            )
        if content_type == _HANDSHAKE:
            side.messages += body
            self._receive_messages(direction)
        return b""

    def _receive_messages(self, direction: int) -> None:
        messages = self._sides[direction].messages
        while len(messages) >= 4:
            size = int.from_bytes(messages[1:4], "big")
            if size > _MAX_MESSAGE:
                self.problem = "the captured bytes are not a TLS handshake"
                return
            if len(messages) < 4 + size:
                return
            kind, message = messages[0], bytes(messages[4 : 4 + size])
            del messages[: 4 + size]
            self._receive_message(direction, kind, message)

    def _receive_message(self, direction: int, kind: int, message: bytes) -> None:
        side = self._sides[direction]
        if kind == _CLIENT_HELLO and side.cipher is None:
            self._client_random = message[2:34]
        elif kind == _SERVER_HELLO and side.cipher is None:
            self._set_ciphers(server=direction, hello=message)
        elif self._version == _TLS13 and kind == _FINISHED and side.next_cipher is not None:
            side.cipher, side.next_cipher = side.next_cipher, None
        elif self._version == _TLS13 and kind == _KEY_UPDATE and isinstance(side.cipher, Tls13Cipher):
            side.cipher = side.cipher.updated()

    def _set_ciphers(self, server: int, hello: bytes) -> None:
        """Set up the ciphers of both sides after the ServerHello."""
        server_random = hello[2:34]
        if server_random == _RETRY:
            return
        if self._client_random is None:
            self.problem = "the beginning of the TLS connection is not in the capture"
            return
        after_session_id = 35 + hello[34] if len(hello) > 34 else len(hello)
        suite_number = int.from_bytes(hello[after_session_id : after_session_id + 2], "big")
        self._version = _selected_version(hello, after_session_id + 3)
        suites = {_TLS12: TLS12_SUITES, _TLS13: TLS13_SUITES}.get(self._version, {})
        suite = suites.get(suite_number)
        if suite is None:
            self.problem = f"TLS version {self._version:#06x} with suite {suite_number:#06x} is not supported"
        else:
            ciphers = self._ciphers(suite, self._client_random, server_random)
            if not ciphers:
                self.problem = f"no key for client random {self._client_random.hex()}"
            for side, (current_cipher, next_cipher) in zip(
                (self._sides[1 - server], self._sides[server]), ciphers, strict=False
            ):
                side.cipher, side.next_cipher = current_cipher, next_cipher

    def _ciphers(
        self, suite: Suite, client_random: bytes, server_random: bytes
    ) -> list[tuple[RecordCipher | None, RecordCipher]]:
        """Return the (current, next) ciphers of client and server; empty if their keys were not logged."""
        if self._version == _TLS12:
            master_secret = self._keylog.secret("CLIENT_RANDOM", client_random)
            if master_secret is None:
                return []
            return [(None, cipher) for cipher in tls12_ciphers(suite, master_secret, client_random, server_random)]
        secrets = [
            self._keylog.secret(f"{sender}_{stage}", client_random)
            for sender in ("CLIENT", "SERVER")
            for stage in ("HANDSHAKE_TRAFFIC_SECRET", "TRAFFIC_SECRET_0")
        ]
        ciphers = [Tls13Cipher(suite, secret) for secret in secrets if secret is not None]
        return [(ciphers[0], ciphers[1]), (ciphers[2], ciphers[3])] if len(ciphers) == 4 else []


def _selected_version(hello: bytes, extensions: int) -> int:
    """Return the version that a ServerHello selects. `extensions` is the offset of its extensions."""
    position = extensions + 2
    while position + 4 <= len(hello):
        kind = int.from_bytes(hello[position : position + 2], "big")
        size = int.from_bytes(hello[position + 2 : position + 4], "big")
        if kind == _SUPPORTED_VERSIONS:
            return int.from_bytes(hello[position + 4 : position + 6], "big")
        position += 4 + size
    return int.from_bytes(hello[:2], "big")
