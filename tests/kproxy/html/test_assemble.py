"""The modules of the web application as one script."""

from __future__ import annotations

import json
import re
from importlib.resources import files

from dissectors.trackers.allowed_waits import LONG_POLLS
from kproxy.html.assemble import MODULES

APP = files("kproxy.html.app")


def test_each_module_comes_after_those_it_imports() -> None:
    for position, name in enumerate(MODULES):
        imported = re.findall(r'from "\./([\w.]+)"', (APP / name).read_text(encoding="utf-8"))
        assert set(imported) <= set(MODULES[:position]), name


def test_page_and_rules_agree_about_long_polls() -> None:
    script = (APP / "ladder_events.js").read_text(encoding="utf-8")
    names = re.search(r"const LONG_POLLS = (\[.*\]);", script)
    assert names is not None
    assert set(json.loads(names[1])) == LONG_POLLS


def test_page_has_every_module_but_those_of_a_server() -> None:
    names = {path.name for path in APP.iterdir() if path.name.endswith(".js")}
    assert names - set(MODULES) == {"server_source.js", "served.js"}
