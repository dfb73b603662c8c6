"""Names say one thing: no two modules define a public class with the same name."""

from __future__ import annotations

import ast
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
