"""The commands of docs/proxy.md and docs/broker.md are accepted, up to listening and connecting."""

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


def commands(page: str) -> list[str]:
    text = (DOCS / page).read_text().replace("\\\n", "")
    return re.findall(r"^    (kproxy --.*)$", text, re.MULTILINE)


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The certificates that the pages name."""
    directory = tmp_path_factory.mktemp("files")
    for name in (".", "my-ca"):
        store.save(directory / name, certificates.create(["localhost"], 1))
    (directory / "clients.pem").write_bytes((directory / "ca.pem").read_bytes())
    (directory / "kproxy.pem").write_bytes((directory / "cert.pem").read_bytes())
    (directory / "kproxy-key.pem").write_bytes((directory / "key.pem").read_bytes())
    return directory


def accepted(words: list[str]) -> None:
    args = cli._parse(words)
    broker = broker_options.options_of(args)
    bound = listeners.of_upstreams(args) if broker is None else listeners.of_broker(args, broker)
    assert bound
    rewriting_of(args, bound)


@pytest.mark.parametrize(("page", "least"), [("proxy.md", 5), ("broker.md", 8)])
def test_the_commands_of_a_page_are_accepted(
    page: str, least: int, files: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(files)
    found = commands(page)
    assert len(found) >= least
    for command in found:
        accepted(shlex.split(command, comments=True)[1:])


def test_the_configuration_file_of_the_page_is_accepted(tmp_path: Path) -> None:
    [block] = re.findall(r"^    listen = \[.*?(?=\n\n)", (DOCS / "proxy.md").read_text(), re.MULTILINE | re.DOTALL)
    text = re.sub(r"^    ", "", block, flags=re.MULTILINE)
    assert tomllib.loads(text)
    (tmp_path / "kproxy.toml").write_text(text)
    accepted(["--config-file", str(tmp_path / "kproxy.toml")])
