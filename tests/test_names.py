"""Names say one thing: each public class has a name of its own, and one module defines the largest frame."""

from __future__ import annotations

import ast
import re
from collections import Counter
from pathlib import Path

ROOT = Path(__file__).parents[1]


def test_public_classes_have_names_of_their_own() -> None:
    files = [*(ROOT / "kproxy").rglob("*.py"), *(ROOT / "dissectors").rglob("*.py")]
    defined = Counter(
        node.name
        for file in files
        for node in ast.parse(file.read_text()).body
        if isinstance(node, ast.ClassDef) and not node.name.startswith("_")
    )
    assert len(defined) > 500
    assert [name for name, count in defined.items() if count > 1] == []


def test_one_module_defines_the_largest_frame() -> None:
    files = [*(ROOT / "kproxy").rglob("*.py"), *(ROOT / "dissectors").rglob("*.py")]
    limit = re.compile(r"^_?MAX_FRAME\w*\b.*=", re.M)
    owners = [file.relative_to(ROOT).as_posix() for file in files if limit.search(file.read_text())]
    assert owners == ["dissectors/wire/limits.py"]
