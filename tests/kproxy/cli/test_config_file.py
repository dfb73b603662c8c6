"""--config-file: a TOML file stands in front of the command line, which has the last word."""

from __future__ import annotations

from pathlib import Path

import pytest

from kproxy.cli import COMMANDS, config_file, relay
from kproxy.errors import UserError


def expanded(file: Path, text: str, *words: str) -> list[str]:
    file.write_text(text)
    return config_file.expanded([f"--config-file={file}", *words], relay.declare, COMMANDS)[: -1 - len(words)]


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "kproxy.toml"


def test_every_kind_of_value(file: Path) -> None:
    text = """
        listen = ["9092", 9093]
        upstream = ["b1:9092", "b2:9092"]
        advertise = true
        quiet = true
        verbose = false
        detail = "full"
        brokers = 3
    """
    assert expanded(file, text) == [
        "--listen=9092", "--listen=9093", "--upstream=b1:9092", "--upstream=b2:9092", "--advertise", "--quiet",
        "--detail=full", "--brokers=3",
    ]  # fmt: skip


def test_an_option_with_an_optional_value_takes_one(file: Path) -> None:
    assert expanded(file, 'advertise = "proxy:9100"\nupstream = true') == ["--advertise=proxy:9100", "--upstream"]


def test_the_command_line_replaces_what_the_file_has(file: Path) -> None:
    text = 'listen = "9092"\nupstream = "b:9092"\nquiet = true\nfilter = "error"'
    found = expanded(file, text, "--listen", "1234", "-q", "--filter=api=Fetch")
    assert found == ["--upstream=b:9092"]


def test_without_the_option_nothing_changes() -> None:
    words = ["--listen", "9092", "--upstream"]
    assert config_file.expanded(words, relay.declare, COMMANDS) == words
    assert config_file.expanded(["--config-file"], relay.declare, COMMANDS) == ["--config-file"]


def test_the_option_of_a_command_is_not_that_of_the_relay() -> None:
    words = ["dissect", "--config-file=none.toml"]
    assert config_file.expanded(words, relay.declare, COMMANDS) == words


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('lisen = "9092"', "{}: unknown option 'lisen'; did you mean listen?"),
        ("detail = true", "{}: detail takes a value, not True"),
        ('quiet = "yes"', "{}: quiet takes true or false, not 'yes'"),
        ('detail = ["full", "raw"]', "{}: detail takes one value, not a list"),
        ("listen = [[9092]]", "{}: listen takes a value, not [9092]"),
        ('config-file = "other.toml"', "{}: unknown option 'config-file'"),
        ("listen = ", "{} is not TOML: "),
    ],
)
def test_what_it_cannot_read_is_one_sentence(file: Path, text: str, message: str) -> None:
    with pytest.raises(UserError) as caught:
        expanded(file, text)
    assert str(caught.value).startswith(message.format(file))


def test_a_file_that_cannot_be_read_is_one_sentence(tmp_path: Path) -> None:
    for path, why in ((tmp_path / "none.toml", "no such file or directory"), (tmp_path, "is a directory")):
        with pytest.raises(UserError, match=why):
            config_file.expanded(["--config-file", str(path)], relay.declare, COMMANDS)
