"""Assembles a page from its files, with a content security policy that allows nothing else."""

from __future__ import annotations

import base64
import hashlib
import html
import re
from collections.abc import Sequence
from importlib import resources
from typing import Any
from xml.etree import ElementTree  # written, not read
from xml.etree.ElementTree import Element

from kproxy.html.packing import inline_json

_PLACE = re.compile(r"\{\{(\w+)\}\}")
#: The parts of the script, in dependency order.
_SCRIPTS = (
    "basics.js",
    "filter_text.js",
    "filter_match.js",
    "filter_records.js",
    "pane.js",
    "exchange.js",
    "transactions.js",
    "page.js",
)


def page(title: str, data: dict[str, Any], package: str = "kproxy.html", scripts: Sequence[str] = _SCRIPTS) -> str:
    """Return a page with its style, scripts and data inline; its policy forbids all network access.

    `package` contains page.html (the body), page.css and the scripts, which share one scope that nothing else can
    access.
    """
    body, *written = (_text(package, name) for name in ("page.html", *scripts))
    script = f'(() => {{\n"use strict";\n{"".join(written)}}})();\n'
    filled = {"script": script, "data": inline_json(data)}
    head = _head(title, _text(package, "page.css"), f"script-src {_hash(script)}; ")
    return head + _PLACE.sub(lambda found: filled[found[1]], body)


def static_page(title: str, body: Element) -> str:
    """Return a page without a script: this body, and static_page.css inline."""
    made = ElementTree.tostring(body, encoding="unicode", method="html")
    return _head(title, _text(__package__, "static_page.css")) + made + "\n</html>\n"


def _head(title: str, style: str, more_policy: str = "") -> str:
    """Return everything before the body."""
    policy = f"default-src 'none'; style-src {_hash(style)}; {more_policy}base-uri 'none'; form-action 'none'"
    parts = {"title": html.escape(title), "policy": html.escape(policy, quote=False), "style": style}
    return _PLACE.sub(lambda found: parts[found[1]], _text(__package__, "head.html"))


def _text(package: str, name: str) -> str:
    return resources.files(package).joinpath(name).read_text(encoding="utf-8")


def _hash(text: str) -> str:
    """Return the hash of an inline script or style for a Content-Security-Policy."""
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"
