"""Makes ``kproxy/broker/configs/facts.json``: what real brokers of every release say of their configs.

1. For each release line from 0.11.0 on (older brokers describe no configs), with any topic that the broker has:
   ``python -m kproxy.schema_import.configs describe HOST:PORT TOPIC > DIR/2.4.json``
2. ``python -m kproxy.schema_import.configs merge DIR > kproxy/broker/configs/facts.json``

Only defaults are kept, so it matters little how those brokers are set up.
"""

from __future__ import annotations

import json
import socket
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from dissectors import schemas
from dissectors.schemas.lines import lines
from dissectors.wire.decode import decode
from dissectors.wire.encode import encode
from dissectors.wire.layout import layout

_API: Final = "DescribeConfigs"
_KEY: Final = 32
_DEFAULT: Final = 5  # the source of a default
Facts = Mapping[str, Sequence[Mapping[str, Any]]]


def main() -> None:
    """Print what one broker says, or what the files of a directory say together; a config a line."""
    match sys.argv[1:]:
        case ["describe", address, topic]:
            _print(described(address, topic))
        case ["merge", directory]:
            found = {line: Path(directory, f"{line}.json") for line in lines()}
            _print(merged({line: json.loads(path.read_bytes()) for line, path in found.items() if path.exists()}))
        case _:
            raise SystemExit("usage: configs describe HOST:PORT TOPIC | configs merge DIR")


def described(address: str, topic: str) -> Facts:
    """What a broker says of its configs, by kind of resource; a kind that it does not have is left out."""
    host, _, port = address.rpartition(":")
    kinds = {"topic": (2, topic), "broker": (4, "1"), "client_metrics": (16, "any"), "group": (32, "any")}
    with socket.create_connection((host, int(port)), timeout=30) as broker:
        versions = {each["api_key"]: each["max_version"] for each in _ask(broker, "ApiVersions", 0, {})["api_keys"]}
        found: dict[str, Sequence[Mapping[str, Any]]] = {}
        for kind, (code, name) in kinds.items():
            body = {
                "resources": [{"resource_type": code, "resource_name": name, "configuration_keys": None}],
                "include_synonyms": True,
                "include_documentation": True,
            }
            [result] = _ask(broker, _API, min(versions[_KEY], 4), body)["results"]
            if not result["error_code"]:
                found[kind] = [_fact(each) for each in sorted(result["configs"], key=lambda each: str(each["name"]))]
    return found


def merged(by_line: Mapping[str, Facts]) -> Facts:
    """The facts of all release lines, oldest first, as one list for each kind.

    A config is described as by the last line that has it. ``since`` and ``until`` are the first and the last line that
    have it, unless that is the first or the last line of all; ``older`` are earlier defaults, each up to a line.
    """
    known = list(by_line)
    found: dict[str, list[Mapping[str, Any]]] = {}
    for kind in dict.fromkeys(kind for facts in by_line.values() for kind in facts):
        configs: dict[str, dict[str, Any]] = {}
        for line, facts in _without_gaps(by_line, kind):
            for fact in facts:
                previous = known[known.index(line) - 1]
                configs[fact["name"]] = _joined(configs.get(fact["name"]), fact, previous, line)
        for config in configs.values():
            for bound, end in (("since", known[0]), ("until", known[-1])):
                if config[bound] == end:
                    del config[bound]
        found[kind] = [configs[name] for name in sorted(configs)]
    return found


def _without_gaps(by_line: Mapping[str, Facts], kind: str) -> list[tuple[str, Sequence[Mapping[str, Any]]]]:
    """The facts of each line that has the kind. Some describe only what was set: these have those of the next line."""
    found: list[tuple[str, Sequence[Mapping[str, Any]]]] = []
    newer: Sequence[Mapping[str, Any]] = ()
    for line, facts in reversed(list(by_line.items())):
        if kind in facts:
            newer = facts[kind] or newer
            found.append((line, newer))
    return found[::-1]


def _joined(before: Mapping[str, Any] | None, fact: Mapping[str, Any], previous: str, line: str) -> dict[str, Any]:
    """A config as it is described by a line, with what earlier lines had otherwise."""
    if before is None:
        return {**fact, "since": line, "until": line, "older": {}}
    older = dict(before["older"])
    if "default" in before and "default" in fact and before["default"] != fact["default"]:
        older[previous] = before["default"]
    return {**before, **fact, "until": line, "older": older}


def _ask(broker: socket.socket, name: str, version: int, body: Mapping[str, Any]) -> Mapping[str, Any]:
    api = schemas.api_by_name(name)
    assert api is not None
    request_header, response_header = schemas.header_versions(api.key, version)
    header = {"request_api_key": api.key, "request_api_version": version, "correlation_id": 1, "client_id": "kproxy"}
    request = encode(layout("RequestHeader", request_header), header) + encode(layout(f"{name}Request", version), body)
    broker.sendall(len(request).to_bytes(4, "big") + request)
    frame = _exactly(broker, int.from_bytes(_exactly(broker, 4), "big"))
    start = decode(layout("ResponseHeader", response_header), frame).end
    return decode(layout(f"{name}Response", version), frame, start).values


def _fact(config: Mapping[str, Any]) -> Mapping[str, Any]:
    """What is said of a config; its default, type and documentation only where the version of the API has them."""
    synonyms = config.get("synonyms") or []
    defaults = [each["value"] for each in synonyms if each["source"] == _DEFAULT]
    fact = {
        "name": config["name"],
        "read_only": config["read_only"],
        "sensitive": config["is_sensitive"],
    }
    if defaults:
        fact["default"] = defaults[-1]
    elif config.get("is_default") or config.get("config_source") == _DEFAULT:
        fact["default"] = config["value"]
    elif "synonyms" in config:  # it was set, and has no default
        fact["default"] = None
    if "synonyms" in config:
        fact["synonyms"] = [each["name"] for each in synonyms if each["source"] == _DEFAULT]
    if "config_type" in config:
        fact |= {"type": config["config_type"], "documentation": config["documentation"]}
    return fact


def _print(facts: Facts) -> None:
    kinds = [
        f"{json.dumps(kind)}: [\n" + ",\n".join(json.dumps(each) for each in configs) + "\n]"
        for kind, configs in facts.items()
    ]
    print("{\n" + ",\n".join(kinds) + "\n}")  # noqa: T201


def _exactly(broker: socket.socket, size: int) -> bytes:
    data = bytearray()
    while len(data) < size:
        if not (more := broker.recv(size - len(data))):
            raise SystemExit("the broker closed the connection")
        data += more
    return bytes(data)


if __name__ == "__main__":
    main()
