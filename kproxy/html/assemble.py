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

from kproxy.html.chunks import inline_json

_PLACEHOLDER = re.compile(r"\{\{(\w+)\}\}")
#: The modules of the application that a page in one file needs, each after those that it imports.
MODULES = (
    "elements.js",
    "formats.js",
    "router.js",
    "scroller.js",
    "filter_errors.js",
    "filter_pattern.js",
    "filter_records.js",
    "filter_text.js",
    "filter_match.js",
    "query.js",
    "rows.js",
    "ladder_events.js",
    "matching_records.js",
    "over_time.js",
    "topics_over_time.js",
    "embedded_source.js",
    "menu.js",
    "pane.js",
    "exchange.js",
    "copies.js",
    "filter_box.js",
    "frames_view.js",
    "table_view.js",
    "causes_view.js",
    "records_view.js",
    "ladder_view.js",
    "marks.js",
    "charts.js",
    "over_time_view.js",
    "timelines_view.js",
    "main.js",
    "embedded.js",
)
_APP = "kproxy.html.app"
_IMPORT = re.compile(r'^import \{ ([^}]*) \} from "\./(\w+)\.js";$', re.MULTILINE)
_EXPORT = re.compile(r"^export (?=(?:const|class) ([\w$]+))", re.MULTILINE)
_EXPORTS = re.compile(r"^export \{ ([^}]*) \};$", re.MULTILINE)


def application_page(title: str, data: dict[str, Any]) -> str:
    """Return the web application as a page in one file, with its data; it needs no server, and may contact none."""
    script = f'"use strict";\n{join_modules(MODULES)}'
    head = _head(title, _read_text(_APP, "page.css"), f"script-src {_csp_hash(script)}; ")
    return (
        f"{head}{_read_text(_APP, 'page.html')}"
        f'<script type="application/json" id="data">{inline_json(data)}</script>\n'
        f"<script>{script}</script>\n</body>\n</html>\n"
    )


def index_page() -> str:
    """Return the page of the web application for a server that serves its modules under ``app/``.

    The page requests all modules at once; otherwise each would be found only via its importer, a round trip later.
    """
    names = (*(name for name in MODULES if name != "embedded.js"), "server_source.js")
    modules = "".join(f'<link rel="modulepreload" href="app/{name}">\n' for name in names)
    return (
        '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        '<meta name="color-scheme" content="light dark">\n<title>kproxy</title>\n<link rel="icon" href="data:,">\n'
        '<link rel="stylesheet" href="app/page.css">\n'
        f'{modules}<script type="module" src="app/served.js"></script>\n</head>\n'
        f"{_read_text(_APP, 'page.html')}</body>\n</html>\n"
    )


def join_modules(names: Sequence[str]) -> str:
    """Return modules as one script without imports: each is a function that returns what the module exports."""
    return "".join(
        f"const {name.removesuffix('.js')}_js = {_module_function(_read_text(_APP, name))};\n" for name in names
    )


def _module_function(module: str) -> str:
    names = [match[1] for match in _EXPORT.finditer(module)]
    names += [name for match in _EXPORTS.finditer(module) for name in match[1].split(", ")]
    body = _EXPORTS.sub("", _EXPORT.sub("", _IMPORT.sub(r"const { \1 } = \2_js;", module)))
    return f"(() => {{\n{body}return {{ {', '.join(names)} }};\n}})()"


def page(title: str, data: dict[str, Any], package: str, scripts: Sequence[str]) -> str:
    """Return a page with its style, scripts and data inline; its policy forbids all network access.

    `package` contains page.html (the body), page.css and the scripts, which share one scope that nothing else can
    access.
    """
    body, *script_texts = (_read_text(package, name) for name in ("page.html", *scripts))
    script = f'(() => {{\n"use strict";\n{"".join(script_texts)}}})();\n'
    substitutions = {"script": script, "data": inline_json(data)}
    head = _head(title, _read_text(package, "page.css"), f"script-src {_csp_hash(script)}; ")
    return head + _PLACEHOLDER.sub(lambda match: substitutions[match[1]], body)


def static_page(title: str, body: Element) -> str:
    """Return a page without a script: this body, and static_page.css inline."""
    markup = ElementTree.tostring(body, encoding="unicode", method="html")
    return _head(title, _read_text(__package__, "static_page.css")) + markup + "\n</html>\n"


def _head(title: str, style: str, script_policy: str = "") -> str:
    """Return everything before the body."""
    policy = f"default-src 'none'; style-src {_csp_hash(style)}; {script_policy}base-uri 'none'; form-action 'none'"
    substitutions = {"title": html.escape(title), "policy": html.escape(policy, quote=False), "style": style}
    return _PLACEHOLDER.sub(lambda match: substitutions[match[1]], _read_text(__package__, "head.html"))


def _read_text(package: str, name: str) -> str:
    return resources.files(package).joinpath(name).read_text(encoding="utf-8")


def _csp_hash(text: str) -> str:
    """Return the hash of an inline script or style for a Content-Security-Policy."""
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"
