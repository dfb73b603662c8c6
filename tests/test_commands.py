"""The commands in docs/proxy.md and docs/broker.md are accepted, up to the point of listening and connecting."""

from __future__ import annotations

import re
import shlex
import tomllib
from pathlib import Path

import pytest

from kproxy import cli
from kproxy.cli import broker_options, listeners
from kproxy.cli.rewrite_options import rewriting_of
from kproxy.development_ca import certificates, store

DOCS = Path(__file__).parents[1] / "docs"


def page_commands(page: str) -> list[str]:
    text = (DOCS / page).read_text().replace("\\\n", "")
    return re.findall(r"^    (kproxy --.*)$", text, re.MULTILINE)


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Create the certificate files that are named on the pages."""
    directory = tmp_path_factory.mktemp("files")
    for name in (".", "my-ca"):
        store.save(directory / name, certificates.create(["localhost"], 1))
    (directory / "clients.pem").write_bytes((directory / "ca.pem").read_bytes())
    (directory / "kproxy.pem").write_bytes((directory / "cert.pem").read_bytes())
    (directory / "kproxy-key.pem").write_bytes((directory / "key.pem").read_bytes())
    return directory


def check_options(arguments: list[str]) -> None:
    args = cli._parse(arguments)
    broker = broker_options.options_of(args)
    listener_list = listeners.upstream_listeners(args) if broker is None else listeners.built_in_listeners(args, broker)
    assert listener_list
    rewriting_of(args, listener_list)


@pytest.mark.parametrize(("page", "min_count"), [("proxy.md", 5), ("broker.md", 8)])
def test_documented_commands_are_accepted(
    page: str, min_count: int, files: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(files)
    commands = page_commands(page)
    assert len(commands) >= min_count
    for command in commands:
        check_options(shlex.split(command, comments=True)[1:])


def test_documented_configuration_file_is_accepted(tmp_path: Path) -> None:
    [block] = re.findall(r"^    listen = \[.*?(?=\n\n)", (DOCS / "proxy.md").read_text(), re.MULTILINE | re.DOTALL)
    text = re.sub(r"^    ", "", block, flags=re.MULTILINE)
    assert tomllib.loads(text)
    (tmp_path / "kproxy.toml").write_text(text)
    check_options(["--config-file", str(tmp_path / "kproxy.toml")])
