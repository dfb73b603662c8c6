"""What is known of the configs of each release, and how it is made."""

from __future__ import annotations

from typing import Any

import pytest

from dissectors.schemas.lines import lines
from kproxy.broker.configs.facts import all_facts, facts
from kproxy.broker.threaded import BrokerThread
from kproxy.schema_import.configs import describe, merge


def config(name: str, default: str | None, **more: Any) -> dict[str, Any]:
    return {"name": name, "default": default, "read_only": False, "sensitive": False, **more}


def test_lines_are_merged_to_what_came_and_went() -> None:
    stays, grows = config("stays", "1"), config("grows", "1")
    known = {
        "1.0": {"topic": [stays, grows, config("goes", None)]},
        "1.1": {"topic": [stays, grows, config("comes", "7")]},
        "2.0": {"topic": [stays, {**grows, "default": "2", "type": 3}, config("comes", "7")], "metrics": []},
        "2.1": {"topic": [{**stays, "default": "0"}, grows | {"default": "2"}], "metrics": [config("interval", "5")]},
    }
    assert merge(known) == {
        "topic": [
            config("comes", "7", since="1.1", until="2.0", older={}),
            config("goes", None, until="1.0", older={}),
            config("grows", "2", type=3, older={"1.1": "1"}),
            config("stays", "0", older={"2.0": "1"}),
        ],
        "metrics": [config("interval", "5", since="2.0", older={})],
    }


@pytest.mark.parametrize("release", ["0.11", "2.4", "3.9", "4.3"])
def test_what_a_broker_describes_is_what_is_known_of_its_release(release: str) -> None:
    name = "0.11.0" if release == "0.11" else release
    with BrokerThread(release=release, topics={"t": 1}) as broker:
        found = describe(broker.bootstrap, "t")
    for kind in ("topic", "broker"):
        assert {each["name"] for each in found[kind]} == set(facts(kind, name))
        for each in found[kind]:
            if "default" in each:  # an old broker does not say the default of what was set
                assert each["default"] == facts(kind, name)[each["name"]].default


def test_each_release_has_a_default_for_what_the_newest_has() -> None:
    for kind in ("topic", "group"):
        for release in lines():
            for name, fact in facts(kind, lines()[-1]).items():
                assert all_facts(kind, release)[name].default is not None or fact.default is None
