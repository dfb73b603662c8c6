"""In docs/deployment.md, files can be parsed, commands are accepted, and ports and paths are consistent."""

from __future__ import annotations

import argparse
import configparser
import re
import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from kproxy import cli
from kproxy.cli import listeners, relay
from kproxy.cli.rewrite_options import rewriting_of
from kproxy.proxy.address import TcpAddress

PAGE = (Path(__file__).parents[1] / "docs/deployment.md").read_text()


def blocks(language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL)


def documents() -> list[Any]:
    return [document for block in blocks("yaml") for document in yaml.safe_load_all(block)]


def compose() -> dict[str, Any]:
    return next(document for document in documents() if "services" in document)


def sidecar() -> dict[str, Any]:
    pod = next(document for document in documents() if document.get("kind") == "Deployment")["spec"]["template"]["spec"]
    return next(container for container in pod["initContainers"] if container["name"] == "kproxy")


def unit() -> configparser.ConfigParser:
    parser = configparser.ConfigParser(interpolation=None)
    parser.optionxform = str  # type: ignore[assignment]
    parser.read_string(blocks("ini")[0])
    return parser


def parse_options(arguments: list[str]) -> argparse.Namespace:
    """Parse and check the options as far as possible without listening."""
    args = cli._parse(arguments)
    rewriting_of(args, listeners.upstream_listeners(args))
    relay._parse_tcp_address(args.http, "--http")
    return args


def command_lines() -> Iterator[list[str]]:
    yield compose()["services"]["kproxy"]["command"]
    yield sidecar()["args"]
    for line in re.findall(r"^    (kproxy .*)$", PAGE, re.MULTILINE):
        yield shlex.split(line)[1:]


@pytest.mark.parametrize("arguments", list(command_lines()), ids=lambda words: " ".join(words)[:40])
def test_command_line_is_accepted(arguments: list[str]) -> None:
    args = parse_options(arguments)
    assert args.listen
    assert args.http is not None


def test_commands_in_sentences_have_valid_options() -> None:
    commands = re.findall(r"`[^`\n]*?(kproxy tui[^`\n]*)`", PAGE)
    assert len(commands) == 2
    for command in commands:
        cli._parse(shlex.split(command)[1:])


def test_systemd_unit_is_consistent_with_its_configuration(tmp_path: Path) -> None:
    service = unit()["Service"]
    program, *arguments = shlex.split(service["ExecStart"])
    assert program.endswith("/kproxy")
    [path] = [word for word in arguments if word.endswith(".toml")]
    [toml] = [block for block in blocks("toml") if block.startswith(f"# {path}\n")]
    file = tmp_path / "kproxy.toml"
    file.write_text(toml)
    args = parse_options([str(file) if word == path else word for word in arguments])
    assert args.advertise == "kproxy.example.com"
    assert args.trace.startswith(f"/var/lib/{service['StateDirectory']}/")
    assert args.control.startswith(f"/run/{service['RuntimeDirectory']}/")
    assert service["Type"] == "notify"


def test_probes_use_the_http_port_of_kproxy() -> None:
    container = sidecar()
    http = relay._parse_tcp_address(cli._parse(container["args"]).http, "--http")
    assert http is not None
    [port] = container["ports"]
    assert port["containerPort"] == http.port
    for probe_name in ("startupProbe", "readinessProbe", "livenessProbe"):
        probe = container[probe_name]["httpGet"]
        assert probe["port"] == port["name"]
        assert probe["path"] == ("/healthz" if probe_name == "readinessProbe" else "/livez")
    annotations = next(document for document in documents() if document.get("kind") == "Deployment")["spec"][
        "template"
    ]["metadata"]
    assert annotations["annotations"]["prometheus.io/port"] == str(http.port)


def test_compose_publishes_every_advertised_port() -> None:
    services = compose()["services"]
    args = cli._parse(services["kproxy"]["command"])
    [listener] = listeners.upstream_listeners(args)
    assert isinstance(listener.listen, TcpAddress)
    advertise = rewriting_of(args, [listener]).advertise
    assert advertise is not None
    assert advertise.base is not None
    published: set[int] = set()
    for port in services["kproxy"]["ports"]:
        first_port, _, last_port = port.rpartition(":")[2].partition("-")
        published |= set(range(int(first_port), int(last_port or first_port) + 1))
    other_brokers = [name for name in services if name not in ("kproxy", "broker-1")]  # broker-1 is the upstream
    ids = [services[name]["environment"]["KAFKA_NODE_ID"] for name in other_brokers]
    http = relay._parse_tcp_address(args.http, "--http")
    assert http is not None
    assert published == {listener.listen.port, http.port, *(advertise.base + node_id for node_id in ids)}
    assert args.upstream == ["broker-1:9092"]


def test_every_metric_is_documented_and_exists() -> None:
    sources = "".join(
        (Path(cli.__file__).parents[1] / "live" / f"{name}_metrics.py").read_text() for name in ("relay", "inspector")
    )
    defined = set(re.findall(r'"(kproxy_\w+)"', sources))
    rows = re.findall(r"^\| (`kproxy_\w+`.*?) \|", PAGE, re.MULTILINE)
    documented = {name for row in rows for name in re.findall(r"kproxy_\w+", row)}
    assert {re.sub(r"_(total|info)$", "", name) for name in documented} == defined
    undocumented = set(re.findall(r"kproxy_[a-z_]+", PAGE)) - documented
    assert undocumented == {"kproxy_request_duration_seconds_bucket"}
