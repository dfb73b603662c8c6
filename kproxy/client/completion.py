"""Completes the command line of `kproxy send`: the names of APIs, and the fields of the last API."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from dissectors import schemas
from dissectors.wire.layout import Layout, layout
from kproxy.client.request import API_WORD

_VERSION = re.compile(r"(?:-v|--api-version)[= ]?(\d{1,4})")
_INDEX = re.compile(r"\[\d*\]")


def candidates(line: str) -> list[str]:
    """Return the completions of the last word of a command line up to the cursor; fields end with ``=``."""
    *words, last_word = line.split(" ")
    if "send" not in words or not _operands(words):
        return []
    apis = {api.name.lower(): api for api in schemas.apis()}
    matching_apis = [api.name for api in apis.values() if api.name.lower().startswith(last_word.lower())]
    api, version = None, None
    for word in _operands(words)[1:]:
        if (match := API_WORD.fullmatch(word)) and match[1].lower() in apis:
            api, version = apis[match[1].lower()], match[2]
    if api is None:
        return matching_apis
    version_option = _VERSION.search(line)
    chosen_version = int(version or (version_option[1] if version_option else api.max_version))
    if chosen_version not in api.versions or schemas.request(api.key) is None:
        return matching_apis
    return matching_apis + list(_field_paths(layout(f"{api.name}Request", chosen_version), last_word))


def _operands(words: Sequence[str]) -> list[str]:
    """Return the words after ``send`` that are not options; option values among them do no harm."""
    return [word for word in words[words.index("send") + 1 :] if word and not word.startswith("-")]


def _field_paths(struct: Layout, path: str) -> Iterator[str]:
    """Yield the paths of the request fields that complete `path`, without their nested fields."""
    parent, dot, name = path.rpartition(".")
    for path_element in parent.split(".") if dot else ():
        field_name = _INDEX.sub("", path_element)
        inner_struct = next(
            (field.struct for field in (*struct.fields, *struct.tagged) if field.name == field_name), None
        )
        if inner_struct is None:
            return
        struct = inner_struct
    for field in (*struct.fields, *struct.tagged):
        if field.name.startswith(name):
            yield f"{parent}{dot}{field.name}="
