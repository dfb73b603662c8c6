"""TLS key logs in the NSS format (SSLKEYLOGFILE)."""

from __future__ import annotations


class KeyLog:
    """Secrets by label and client random. Comments and invalid lines are ignored."""

    def __init__(self, text: str = "") -> None:
        self._secrets: dict[tuple[str, bytes], bytes] = {}
        self.add(text)

    def add(self, text: str) -> None:
        """Add lines `LABEL client_random secret`, in hex. The last secret for a session and label wins."""
        for line in text.splitlines():
            if line.startswith("#") or len(words := line.split()) != 3:
                continue
            try:
                self._secrets[words[0], bytes.fromhex(words[1])] = bytes.fromhex(words[2])
            except ValueError:
                continue

    def __len__(self) -> int:
        return len(self._secrets)

    def secret(self, label: str, client_random: bytes) -> bytes | None:
        """Return the secret of a session, None if it was not logged."""
        return self._secrets.get((label, client_random))
