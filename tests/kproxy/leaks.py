"""Whether a secret can be found in an output, however that is written."""

from __future__ import annotations

import base64
from collections.abc import Mapping

#: Bytes that give a secret away: dumps break it into rows, excerpts cut it.
_PART = 8


class SecretSearch:
    """Looks for parts of these secrets, by name: as they are, in hex, in base64 at each of three alignments."""

    def __init__(self, secrets: Mapping[str, bytes]) -> None:
        self._spellings: dict[int, dict[bytes, str]] = {}  # by length, so that a text is cut once for all secrets
        for name, secret in secrets.items():
            for spelling in _spellings(secret):
                self._spellings.setdefault(len(spelling), {})[spelling] = name

    def find(self, *texts: str | bytes) -> set[str]:
        """The names of the secrets that are in one of these texts."""
        found: set[str] = set()
        for text in texts:
            data = text.encode(errors="surrogateescape") if isinstance(text, str) else text
            for size, spellings in self._spellings.items():
                pieces = {data[start : start + size] for start in range(len(data) - size + 1)}
                found |= {spellings[piece] for piece in pieces & spellings.keys()}
        return found


def _spellings(secret: bytes) -> set[bytes]:
    parts = _windows(secret, _PART)
    written = set(parts)
    for part in parts:
        written |= {part.hex().encode(), part.hex(" ").encode(), part.hex().upper().encode()}
    for skipped in range(3):
        # Characters that also hold bits of the bytes around the secret are left out.
        first, last = -(-skipped * 4 // 3), (skipped + len(secret)) * 4 // 3
        written |= _windows(base64.b64encode(bytes(skipped) + secret)[first:last], _PART * 4 // 3)
    return written | {each.replace(b"+", b"-").replace(b"/", b"_") for each in written}


def _windows(data: bytes, size: int) -> set[bytes]:
    return {data[start : start + size] for start in range(max(1, len(data) - size + 1))}
