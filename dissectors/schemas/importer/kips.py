"""Find the KIPs that introduced the versions of an API, in the comments of Kafka's definitions."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import TypeAlias

#: Version -> numbers of KIPs.
Kips: TypeAlias = dict[str, list[int]]

_DEFINITION = re.compile(r'"name":\s*"(\w+)(?:Request|Response)"')
#: A comment line outside the fields: it is indented once.
_COMMENT = re.compile(r"^  ?//(.*)$", re.MULTILINE)
_PARAGRAPH_START = re.compile(r"\s*Versions? (\d+)\b")
_KIP = re.compile(r"KIP[-_](\d+)")


def kips(texts: Iterable[str]) -> Mapping[str, Kips]:
    """Return the KIPs of each API, by its name and version.

    Args:
        texts: Definition files. In their comments, a paragraph that begins with ``Version 3`` is about that version.
    """
    kips: dict[str, dict[int, set[int]]] = {}
    for text in texts:
        if (name := _DEFINITION.search(text)) is None:
            continue
        version = None
        for line in _COMMENT.findall(text):
            if paragraph_start := _PARAGRAPH_START.match(line):
                version = int(paragraph_start[1])
            elif not line.strip():
                version = None
            if version is not None:
                for number in _KIP.findall(line):
                    kips.setdefault(name[1], {}).setdefault(version, set()).add(int(number))
    return {
        api: {str(version): sorted(numbers) for version, numbers in sorted(versions.items())}
        for api, versions in sorted(kips.items())
    }
