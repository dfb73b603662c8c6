"""Search outputs for secrets in any encoding."""

from __future__ import annotations

import base64
from collections.abc import Mapping

#: The length in bytes of a part that reveals a secret; dumps split secrets into rows, and excerpts truncate them.
_PART = 8


class SecretSearch:
    """Find parts of named secrets as plain bytes, in hex, and in base64 at each of its three alignments."""

    def __init__(self, secrets: Mapping[str, bytes]) -> None:
        self._spellings: dict[
            int, dict[bytes, str]
        ] = {}  # keyed by length, so that each text is split only once per length
        for name, secret in secrets.items():
            for spelling in _spellings(secret):
                self._spellings.setdefault(len(spelling), {})[spelling] = name

    def find(self, *texts: str | bytes) -> set[str]:
        """Return the names of the secrets that occur in one of the texts."""
        names: set[str] = set()
        for text in texts:
            data = text.encode(errors="surrogateescape") if isinstance(text, str) else text
            for size, spellings in self._spellings.items():
                pieces = {data[start : start + size] for start in range(len(data) - size + 1)}
                names |= {spellings[piece] for piece in pieces & spellings.keys()}
        return names


def _spellings(secret: bytes) -> set[bytes]:
    parts = _windows(secret, _PART)
    spellings = set(parts)
    for part in parts:
        spellings |= {part.hex().encode(), part.hex(" ").encode(), part.hex().upper().encode()}
    for skipped in range(3):
        # Omit characters that also encode bits of the bytes around the secret.
        first, last = -(-skipped * 4 // 3), (skipped + len(secret)) * 4 // 3
        spellings |= _windows(base64.b64encode(bytes(skipped) + secret)[first:last], _PART * 4 // 3)
    return spellings | {spelling.replace(b"+", b"-").replace(b"/", b"_") for spelling in spellings}


def _windows(data: bytes, size: int) -> set[bytes]:
    return {data[start : start + size] for start in range(max(1, len(data) - size + 1))}
