"""``--config-file``: the options of the relay as a TOML file, such as kproxy.toml.

A key is the long name of an option, without the two hyphens. A value is text, a number, true for an option without a
value, or a list for an option that may be repeated. Options on the command line replace the same options in the file,
and those that they exclude: ``--no-trace`` replaces ``trace``. A table ``[rules.CODE]`` sets limits of a rule;
``--rule`` replaces individual limits.
"""

from __future__ import annotations

import argparse
import tomllib
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from kproxy.cli.command_line import DeclaredOptions
from kproxy.cli.options import OptionGroup
from kproxy.errors import UserError

OPTION: Final = "--config-file"
#: The key of the tables with limits of rules, which are named by code or name.
_RULES: Final = "rules"
#: Option -> the options that have no effect with it or cannot be combined with it.
_EXCLUDED: Final = {
    "no-trace": ("trace", "strict-trace", "compress"),
    "no-control": ("control",),
    "json": ("verbose", "quiet"),
    "replay": ("upstream", "advertise", "cap-versions", "no-check"),
}


def expand(words: Sequence[str], configure: Callable[[OptionGroup], object], commands: Sequence[str]) -> list[str]:
    """Insert the options of the configuration file, if the command line names one, before the other words.

    Args:
        words: The command line without the program's name.
        configure: Declares the options that the file may contain.
        commands: The names of commands; options after a command are not the relay's.

    Raises:
        UserError: The file cannot be read, or has an invalid option.
    """
    relay_words = list(words[: next((index for index, word in enumerate(words) if word in commands), len(words))])
    path = _find_path(relay_words)
    if path is None:
        return list(words)
    declared_options = DeclaredOptions()
    configure(declared_options)
    by_name = {
        action.option_strings[-1].removeprefix("--"): action
        for action in declared_options.actions
        if action.option_strings
    }
    by_name.pop(OPTION.removeprefix("--"), None)
    given_options = {word.partition("=")[0] for word in relay_words if word.startswith("-")}
    replaced_options = {name for option in given_options for name in _excluded_options(option, by_name)}
    inserted: list[str] = []
    for key, value in _read_toml(path).items():
        if key == _RULES:
            inserted += _limit_options(path, value)
            continue
        action = by_name.get(key)
        if action is None:
            raise UserError(f"{path}: {_unknown_key_message(key, list(by_name))}")
        if key not in replaced_options and given_options.isdisjoint(action.option_strings):
            inserted += _option_words(path, key, value, action, repeats=f"--{key}" in declared_options.repeated)
    return [*inserted, *words]


def _excluded_options(option: str, by_name: Mapping[str, argparse.Action]) -> Iterator[str]:
    """Yield the options that a command-line option excludes."""
    name = next((name for name, action in by_name.items() if option in action.option_strings), None)
    yield from _EXCLUDED.get(name or "", ())
    yield from (option for option, excluded_names in _EXCLUDED.items() if name in excluded_names)


def _find_path(words: Sequence[str]) -> Path | None:
    if sum(word.partition("=")[0] == OPTION for word in words) > 1:
        raise UserError(f"{OPTION} is given twice: pass one file")
    for index, word in enumerate(words):
        option, equals, value = word.partition("=")
        if option == OPTION:
            if not equals and index + 1 == len(words):
                return None  # argparse reports the missing value
            return Path(value if equals else words[index + 1])
    return None


def _read_toml(path: Path) -> dict[str, Any]:
    try:
        with path.open("rb") as file:
            return tomllib.load(file)
    except OSError as error:
        raise UserError(f"{OPTION} {path}: {(error.strerror or 'cannot be read').lower()}") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise UserError(f"{path} is not TOML: {error}") from None


def _unknown_key_message(key: str, known_keys: list[str]) -> str:
    from kproxy.filters.errors import nearest

    suggestion = nearest(key, known_keys)
    return f"unknown option {key!r}" + (f"; did you mean {suggestion}?" if suggestion else "; see kproxy help relay")


def _limit_options(path: Path, tables: Any) -> Iterator[str]:
    """Yield the options that set the limits of rules."""
    for rule, table in tables.items() if isinstance(tables, dict) else [("", tables)]:
        if not isinstance(table, dict):
            raise UserError(f"{path}: {_RULES} takes a table for each rule, e.g. [{_RULES}.C020]")
        for name, value in table.items():
            if not isinstance(value, str | int | float) or isinstance(value, bool):
                raise UserError(f"{path}: [{_RULES}.{rule}] {name} takes a number or text with a unit, not {value!r}")
            yield f"--rule={rule}:{name}={value}"


def _option_words(path: Path, key: str, value: Any, action: argparse.Action, *, repeats: bool) -> Iterator[str]:
    option = action.option_strings[-1]
    takes_no_value, takes_value = action.nargs in (0, "?"), action.nargs != 0
    if isinstance(value, list) and not repeats:
        raise UserError(f"{path}: {key} takes one value, not a list")
    for element in value if isinstance(value, list) else [value]:
        if element is False and takes_no_value:
            continue
        if element is True and takes_no_value:
            yield option
        elif isinstance(element, str | int | float) and not isinstance(element, bool) and takes_value:
            yield f"{option}={element}"
        else:
            raise UserError(f"{path}: {key} takes {'a value' if takes_value else 'true or false'}, not {element!r}")
