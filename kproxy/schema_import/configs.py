"""Makes ``kproxy/broker/configs/facts.json``, the configs of real brokers of every release.

1. For each release line from 0.11.0 on (older brokers lack DescribeConfigs), with any existing topic:
   ``python -m kproxy.schema_import.configs describe HOST:PORT TOPIC > DIR/2.4.json``
2. ``python -m kproxy.schema_import.configs merge DIR > kproxy/broker/configs/facts.json``

Only defaults are kept, so how those brokers are configured matters little.
"""

from __future__ import annotations

import json
import socket
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from dissectors import schemas
from dissectors.schemas.codes import ApiKey
from dissectors.schemas.lines import lines
from dissectors.wire.decode import decode
from dissectors.wire.encode import encode
from dissectors.wire.layout import layout

_API: Final = "DescribeConfigs"
_KEY: Final = ApiKey.DESCRIBE_CONFIGS
_DEFAULT: Final = 5  # ConfigSource.DEFAULT_CONFIG
Facts = Mapping[str, Sequence[Mapping[str, Any]]]


def main() -> None:
    """Print the configs of one broker, or merge the files of a directory; one config per line."""
    match sys.argv[1:]:
        case ["describe", address, topic]:
            _print_facts(describe(address, topic))
        case ["merge", directory]:
            files = {line: Path(directory, f"{line}.json") for line in lines()}
            _print_facts(merge({line: json.loads(path.read_bytes()) for line, path in files.items() if path.exists()}))
        case _:
            raise SystemExit("usage: configs describe HOST:PORT TOPIC | configs merge DIR")


def describe(address: str, topic: str) -> Facts:
    """Return the configs of a broker by resource type, omitting types that the broker does not support."""
    host, _, port = address.rpartition(":")
    resource_types = {"topic": (2, topic), "broker": (4, "1"), "client_metrics": (16, "any"), "group": (32, "any")}
    with socket.create_connection((host, int(port)), timeout=30) as broker:
        versions = {key["api_key"]: key["max_version"] for key in _request(broker, "ApiVersions", 0, {})["api_keys"]}
        configs_by_type: dict[str, Sequence[Mapping[str, Any]]] = {}
        for type_name, (code, name) in resource_types.items():
            body = {
                "resources": [{"resource_type": code, "resource_name": name, "configuration_keys": None}],
                "include_synonyms": True,
                "include_documentation": True,
            }
            [result] = _request(broker, _API, min(versions[_KEY], 4), body)["results"]
            if not result["error_code"]:
                configs_by_type[type_name] = [
                    _config_facts(entry) for entry in sorted(result["configs"], key=lambda entry: str(entry["name"]))
                ]
    return configs_by_type


def merge(by_line: Mapping[str, Facts]) -> Facts:
    """Return the configs of all release lines, given oldest first, merged into one list per resource type.

    Each config is described as in the last line that has it. ``since`` and ``until`` are the first and last line that
    have it, omitted if they are the first or last of all lines; ``older`` maps lines to the default up to that line.
    """
    lines_in_order = list(by_line)
    merged: dict[str, list[Mapping[str, Any]]] = {}
    for resource_type in dict.fromkeys(resource_type for facts in by_line.values() for resource_type in facts):
        configs: dict[str, dict[str, Any]] = {}
        for line, facts in _without_gaps(by_line, resource_type):
            for fact in facts:
                previous = lines_in_order[lines_in_order.index(line) - 1]
                configs[fact["name"]] = _merge_config(configs.get(fact["name"]), fact, previous, line)
        for config in configs.values():
            for bound, outermost_line in (("since", lines_in_order[0]), ("until", lines_in_order[-1])):
                if config[bound] == outermost_line:
                    del config[bound]
        merged[resource_type] = [configs[name] for name in sorted(configs)]
    return merged


def _without_gaps(by_line: Mapping[str, Facts], resource_type: str) -> list[tuple[str, Sequence[Mapping[str, Any]]]]:
    """Return the configs of each line with this resource type; lines that list none get those of the next line."""
    filled: list[tuple[str, Sequence[Mapping[str, Any]]]] = []
    newer_facts: Sequence[Mapping[str, Any]] = ()
    for line, facts in reversed(list(by_line.items())):
        if resource_type in facts:
            newer_facts = facts[resource_type] or newer_facts
            filled.append((line, newer_facts))
    return filled[::-1]


def _merge_config(
    merged: Mapping[str, Any] | None, fact: Mapping[str, Any], previous: str, line: str
) -> dict[str, Any]:
    """Return a config as the newer line describes it, with the different defaults in earlier lines."""
    if merged is None:
        return {**fact, "since": line, "until": line, "older": {}}
    older_defaults = dict(merged["older"])
    if "default" in merged and "default" in fact and merged["default"] != fact["default"]:
        older_defaults[previous] = merged["default"]
    return {**merged, **fact, "until": line, "older": older_defaults}


def _request(broker: socket.socket, name: str, version: int, body: Mapping[str, Any]) -> Mapping[str, Any]:
    api = schemas.api_by_name(name)
    assert api is not None
    request_header, response_header = schemas.header_versions(api.key, version)
    header = {"request_api_key": api.key, "request_api_version": version, "correlation_id": 1, "client_id": "kproxy"}
    request = encode(layout("RequestHeader", request_header), header) + encode(layout(f"{name}Request", version), body)
    broker.sendall(len(request).to_bytes(4, "big") + request)
    frame = _receive_exactly(broker, int.from_bytes(_receive_exactly(broker, 4), "big"))
    start = decode(layout("ResponseHeader", response_header), frame).end
    return decode(layout(f"{name}Response", version), frame, start).values


def _config_facts(config: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the facts about a config: default, type and documentation depend on the version of DescribeConfigs."""
    synonyms = config.get("synonyms") or []
    defaults = [synonym["value"] for synonym in synonyms if synonym["source"] == _DEFAULT]
    fact = {
        "name": config["name"],
        "read_only": config["read_only"],
        "sensitive": config["is_sensitive"],
    }
    if defaults:
        fact["default"] = defaults[-1]
    elif config.get("is_default") or config.get("config_source") == _DEFAULT:
        fact["default"] = config["value"]
    elif "synonyms" in config:  # it is set, and has no default
        fact["default"] = None
    if "synonyms" in config:
        fact["synonyms"] = [synonym["name"] for synonym in synonyms if synonym["source"] == _DEFAULT]
    if "config_type" in config:
        fact |= {"type": config["config_type"], "documentation": config["documentation"]}
    return fact


def _print_facts(facts: Facts) -> None:
    kinds = [
        f"{json.dumps(kind)}: [\n" + ",\n".join(json.dumps(config) for config in configs) + "\n]"
        for kind, configs in facts.items()
    ]
    print("{\n" + ",\n".join(kinds) + "\n}")  # noqa: T201


def _receive_exactly(broker: socket.socket, size: int) -> bytes:
    data = bytearray()
    while len(data) < size:
        if not (chunk := broker.recv(size - len(data))):
            raise SystemExit("the broker closed the connection")
        data += chunk
    return bytes(data)


if __name__ == "__main__":
    main()
