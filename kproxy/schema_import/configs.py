"""Makes ``kproxy/broker/configs/facts.json``: what a real broker says of its configs.

``python -m kproxy.schema_import.configs HOST:PORT TOPIC > kproxy/broker/configs/facts.json``, with any topic that it
has. The values are the defaults, so that it does not matter how that broker was set up.
"""

from __future__ import annotations

import json
import socket
import sys
from collections.abc import Mapping
from typing import Any, Final

from dissectors import schemas
from dissectors.decode import decode
from dissectors.encode import encode
from dissectors.layout import layout

_VERSION: Final = 4  # with types, synonyms and documentation
_DEFAULT: Final = 5  # the source of a default


def main() -> None:
    """Print what the broker says, a config a line."""
    address, topic = sys.argv[1:]
    host, _, port = address.rpartition(":")
    kinds = {"topic": (2, topic), "broker": (4, "1"), "client_metrics": (16, "any"), "group": (32, "any")}
    with socket.create_connection((host, int(port)), timeout=30) as broker:
        found = {kind: _describe(broker, code, name) for kind, (code, name) in kinds.items()}
    lines = [
        f"{json.dumps(kind)}: [\n" + ",\n".join(json.dumps(each) for each in configs) + "\n]"
        for kind, configs in found.items()
    ]
    print("{\n" + ",\n".join(lines) + "\n}")  # noqa: T201


def _describe(broker: socket.socket, kind: int, name: str) -> list[Mapping[str, Any]]:
    api = schemas.api_by_name("DescribeConfigs")
    assert api is not None
    header = {"request_api_key": api.key, "request_api_version": _VERSION, "correlation_id": 1, "client_id": "kproxy"}
    body = {
        "resources": [{"resource_type": kind, "resource_name": name, "configuration_keys": None}],
        "include_synonyms": True,
        "include_documentation": True,
    }
    request = encode(layout("RequestHeader", 2), header) + encode(layout("DescribeConfigsRequest", _VERSION), body)
    broker.sendall(len(request).to_bytes(4, "big") + request)
    frame = _exactly(broker, int.from_bytes(_exactly(broker, 4), "big"))
    start = decode(layout("ResponseHeader", 1), frame).end
    [result] = decode(layout("DescribeConfigsResponse", _VERSION), frame, start).values["results"]
    if result["error_code"]:
        raise SystemExit(f"{name}: {result['error_message']}")
    return [_fact(each) for each in sorted(result["configs"], key=lambda each: str(each["name"]))]


def _fact(config: Mapping[str, Any]) -> Mapping[str, Any]:
    defaults = [each["value"] for each in config["synonyms"] if each["source"] == _DEFAULT]
    default = config["value"] if config["config_source"] == _DEFAULT else None
    return {
        "name": config["name"],
        "type": config["config_type"],
        "default": defaults[-1] if defaults else default,
        "read_only": config["read_only"],
        "sensitive": config["is_sensitive"],
        "synonyms": [each["name"] for each in config["synonyms"] if each["source"] == _DEFAULT],
        "documentation": config["documentation"],
    }


def _exactly(broker: socket.socket, size: int) -> bytes:
    data = bytearray()
    while len(data) < size:
        if not (more := broker.recv(size - len(data))):
            raise SystemExit("the broker closed the connection")
        data += more
    return bytes(data)


if __name__ == "__main__":
    main()
