"""Parse HTML pages and unpack the data in them."""

from __future__ import annotations

import base64
import io
import json
import zlib
from collections.abc import Iterable
from dataclasses import dataclass, field
from html.parser import HTMLParser
from typing import Any

from kproxy.filters import parse
from kproxy.html.page import HtmlOutput
from kproxy.trace.lines import Line


@dataclass
class ParsedPage(HTMLParser):
    """A parsed page: its elements with attributes, the texts of each tag, and the page's data."""

    text: str
    elements: list[tuple[str, dict[str, str | None]]] = field(default_factory=list)
    texts: dict[str, list[str]] = field(default_factory=dict)
    _open_tag: str = ""

    def __post_init__(self) -> None:
        super().__init__()
        self.feed(self.text)
        self.close()
        data = [text for text in self.texts.get("script", ()) if text.startswith("{")]
        self.data: dict[str, Any] = json.loads(data[0]) if data else {}

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))
        self.texts.setdefault(tag, []).append("")
        self._open_tag = tag

    def handle_endtag(self, tag: str) -> None:
        self._open_tag = ""

    def handle_data(self, data: str) -> None:
        if self._open_tag:
            self.texts[self._open_tag][-1] += data

    def unpacked(self, name: str) -> list[Any]:
        """Return the values of a list that the page stores in compressed chunks."""
        return [value for chunk in self.data[name] for value in json.loads(zlib.decompress(base64.b64decode(chunk)))]

    @property
    def lines(self) -> list[dict[str, Any]]:
        """The trace lines of all rows."""
        return [line for row in self.unpacked("lines") for line in row["lines"]]

    def sides(self, row: int) -> Any:
        """Return the request and the response of a row."""
        return self.unpacked("sides")[self.data["places"][row]]


def page_of(
    lines: Iterable[Line], *, chosen: str = "", names: Iterable[str] = ("a.pcap",)
) -> tuple[ParsedPage, HtmlOutput]:
    """Return the page for these lines, and the output that wrote it."""
    file = io.TextIOWrapper(io.BytesIO(), encoding="utf-8")
    output = HtmlOutput(file, parse(chosen) if chosen else None)
    for name in names:
        output.begin(name)
    for line in lines:
        output.write(line)
    output.close()
    return ParsedPage(file.buffer.getvalue().decode()), output  # type: ignore[attr-defined]
