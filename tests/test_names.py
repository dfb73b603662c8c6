"""Names of public classes, of the frame limit and of kproxy's flags each have one meaning and one owner."""

from __future__ import annotations

import argparse
import ast
import re
from collections import Counter
from pathlib import Path

import pytest

from kproxy.cli import COMMANDS, _parser

ROOT = Path(__file__).parents[1]
FLAG = re.compile(r"--[a-z][a-z-]+")


@pytest.mark.slow
def test_public_classes_have_unique_names() -> None:
    files = [*(ROOT / "kproxy").rglob("*.py"), *(ROOT / "dissectors").rglob("*.py")]
    defined = Counter(
        node.name
        for file in files
        for node in ast.parse(file.read_text()).body
        if isinstance(node, ast.ClassDef) and not node.name.startswith("_")
    )
    assert len(defined) > 500
    assert [name for name, count in defined.items() if count > 1] == []


def test_only_one_module_defines_the_frame_limit() -> None:
    files = [*(ROOT / "kproxy").rglob("*.py"), *(ROOT / "dissectors").rglob("*.py")]
    limit = re.compile(r"^_?MAX_FRAME\w*\b.*=", re.M)
    owners = [file.relative_to(ROOT).as_posix() for file in files if limit.search(file.read_text())]
    assert owners == ["dissectors/wire/limits.py"]


def test_dissectors_does_not_mention_flags_of_kproxy() -> None:
    """Only kproxy gives advice about flags, except for rules, whose pages and hints are for users of kproxy."""
    flags = _flags(_parser(COMMANDS))
    assert {"--tls-cert", "--upstream-tls", "--follow"} <= flags
    files = [file for file in (ROOT / "dissectors").rglob("*.py") if "rules" not in file.parts]
    mentioned = {(file.relative_to(ROOT).as_posix(), flag) for file in files for flag in FLAG.findall(file.read_text())}
    assert [(file, flag) for file, flag in mentioned if flag in flags] == []


def _flags(parser: argparse.ArgumentParser) -> set[str]:
    flags = {name for action in parser._actions for name in action.option_strings}
    children = [action.choices for action in parser._actions if isinstance(action, argparse._SubParsersAction)]
    return flags.union(*(_flags(child) for choices in children for child in choices.values()))
