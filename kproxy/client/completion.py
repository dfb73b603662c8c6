"""Words that may follow in a command line of `kproxy send`: APIs, and the fields of the last one."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from dissectors import schemas
from dissectors.wire.layout import Layout, layout
from kproxy.client.request import API_WORD

_VERSION = re.compile(r"(?:-v|--api-version)[= ]?(\d{1,4})")
_INDEX = re.compile(r"\[\d*\]")


def candidates(line: str) -> list[str]:
    """The words that may stand for the last one of a command line up to the cursor; fields end with ``=``."""
    *words, last = line.split(" ")
    if "send" not in words or not _operands(words):
        return []
    names = {api.name.lower(): api for api in schemas.apis()}
    matching = [name.name for name in names.values() if name.name.lower().startswith(last.lower())]
    api, version = None, None
    for word in _operands(words)[1:]:
        if (match := API_WORD.fullmatch(word)) and match[1].lower() in names:
            api, version = names[match[1].lower()], match[2]
    if api is None:
        return matching
    given = _VERSION.search(line)
    number = int(version or (given[1] if given else api.max_version))
    if number not in api.versions or schemas.request(api.key) is None:
        return matching
    return matching + list(_fields(layout(f"{api.name}Request", number), last))


def _operands(words: Sequence[str]) -> list[str]:
    """The words after ``send`` that are not options. The value of an option may be among them, which is harmless."""
    return [word for word in words[words.index("send") + 1 :] if word and not word.startswith("-")]


def _fields(struct: Layout, path: str) -> Iterator[str]:
    """The fields of a request whose path begins with `path`: those of the struct that it names so far."""
    above, dot, name = path.rpartition(".")
    for part in above.split(".") if dot else ():
        plain = _INDEX.sub("", part)
        inner = next((field.struct for field in (*struct.fields, *struct.tagged) if field.name == plain), None)
        if inner is None:
            return
        struct = inner
    for field in (*struct.fields, *struct.tagged):
        if field.name.startswith(name):
            yield f"{above}{dot}{field.name}="
