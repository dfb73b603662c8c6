"""Writes ``ca.pem``, ``ca-key.pem``, ``cert.pem`` and ``key.pem`` of a development CA; only the owner can read keys."""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from kproxy.development_ca.certificates import Authority

CA: Final = "ca.pem"
_CA_KEY: Final = "ca-key.pem"
CERTIFICATE: Final = "cert.pem"
KEY: Final = "key.pem"


def save(directory: Path, authority: Authority) -> None:
    """Write all files into a directory, which is created if necessary.

    Raises:
        FileExistsError: One of them exists; nothing is written.
        OSError: A file cannot be written.
    """
    contents = {
        _CA_KEY: authority.ca.key,
        KEY: authority.leaf.key,
        CERTIFICATE: authority.leaf.certificate,
        CA: authority.ca.certificate,
    }
    directory.mkdir(parents=True, exist_ok=True)
    check_absent(directory / name for name in contents)
    for name, content in contents.items():
        write_new(directory / name, content, 0o600 if name in (_CA_KEY, KEY) else 0o644)


def check_absent(paths: Iterable[Path]) -> None:
    """Raise `FileExistsError` for the first file that exists."""
    for path in paths:
        if path.exists() or path.is_symlink():
            raise FileExistsError(17, os.strerror(17), str(path))


def write_new(path: Path, content: bytes, mode: int) -> None:
    """Create a file with its mode set from the start, so that nobody else can read a key.

    Raises:
        OSError: The file exists, or cannot be written.
    """
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode)
    with open(descriptor, "wb") as file:  # noqa: PTH123  # opens a descriptor
        file.write(content)
