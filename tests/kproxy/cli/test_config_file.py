"""--config-file: options from a TOML file, which the command line overrides."""

from __future__ import annotations

from pathlib import Path

import pytest

from kproxy.cli import COMMANDS, config_file, relay
from kproxy.errors import UserError


def expand(file: Path, config: str, *words: str) -> list[str]:
    file.write_text(config)
    return config_file.expand([f"--config-file={file}", *words], relay.declare, COMMANDS)[: -1 - len(words)]


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "kproxy.toml"


def test_converts_every_type_of_value(file: Path) -> None:
    text = """
        listen = ["9092", 9093]
        upstream = ["b1:9092", "b2:9092"]
        advertise = true
        quiet = true
        verbose = false
        detail = "full"
        brokers = 3
    """
    assert expand(file, text) == [
        "--listen=9092", "--listen=9093", "--upstream=b1:9092", "--upstream=b2:9092", "--advertise", "--quiet",
        "--detail=full", "--brokers=3",
    ]  # fmt: skip


def test_option_with_an_optional_value_accepts_one(file: Path) -> None:
    assert expand(file, 'advertise = "proxy:9100"\nupstream = true') == ["--advertise=proxy:9100", "--upstream"]


def test_command_line_overrides_the_file(file: Path) -> None:
    text = 'listen = "9092"\nupstream = "b:9092"\nquiet = true\nfilter = "error"'
    arguments = expand(file, text, "--listen", "1234", "-q", "--filter=api=Fetch")
    assert arguments == ["--upstream=b:9092"]


def test_arguments_without_config_file_are_unchanged() -> None:
    words = ["--listen", "9092", "--upstream"]
    assert config_file.expand(words, relay.declare, COMMANDS) == words
    assert config_file.expand(["--config-file"], relay.declare, COMMANDS) == ["--config-file"]


def test_config_file_after_a_command_is_not_expanded() -> None:
    words = ["dissect", "--config-file=none.toml"]
    assert config_file.expand(words, relay.declare, COMMANDS) == words


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
def test_invalid_file_is_reported_in_one_sentence(file: Path, text: str, message: str) -> None:
    with pytest.raises(UserError) as raised:
        expand(file, text)
    assert str(raised.value).startswith(message.format(file))


def test_unreadable_file_is_reported_in_one_sentence(tmp_path: Path) -> None:
    for path, reason in ((tmp_path / "none.toml", "no such file or directory"), (tmp_path, "is a directory")):
        with pytest.raises(UserError, match=reason):
            config_file.expand(["--config-file", str(path)], relay.declare, COMMANDS)
