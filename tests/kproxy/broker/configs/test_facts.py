"""The known configs of each release, and how they are derived."""

from __future__ import annotations

from typing import Any

import pytest

from dissectors.schemas.lines import lines
from kproxy.broker.configs.facts import all_definitions, definitions
from kproxy.broker.threaded import BrokerThread
from kproxy.schema_import.configs import describe, merge


def config(name: str, default: str | None, **fields: Any) -> dict[str, Any]:
    return {"name": name, "default": default, "read_only": False, "sensitive": False, **fields}


def test_merge_records_when_configs_appeared_and_disappeared() -> None:
    stable, changing = config("stays", "1"), config("grows", "1")
    known = {
        "1.0": {"topic": [stable, changing, config("goes", None)]},
        "1.1": {"topic": [stable, changing, config("comes", "7")]},
        "2.0": {"topic": [stable, {**changing, "default": "2", "type": 3}, config("comes", "7")], "metrics": []},
        "2.1": {
            "topic": [{**stable, "default": "0"}, changing | {"default": "2"}],
            "metrics": [config("interval", "5")],
        },
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
def test_broker_describes_the_known_configs_of_its_release(release: str) -> None:
    name = "0.11.0" if release == "0.11" else release
    with BrokerThread(release=release, topics={"t": 1}) as broker:
        described = describe(broker.bootstrap, "t")
    for kind in ("topic", "broker"):
        assert {config["name"] for config in described[kind]} == set(definitions(kind, name))
        for config in described[kind]:
            if "default" in config:  # an old broker does not report the default of a config that was set
                assert config["default"] == definitions(kind, name)[config["name"]].default


def test_every_release_has_defaults_for_the_configs_of_the_newest() -> None:
    for kind in ("topic", "group"):
        for release in lines():
            for name, fact in definitions(kind, lines()[-1]).items():
                assert all_definitions(kind, release)[name].default is not None or fact.default is None
