"""The modules of dissectors import each other in one direction only, at their top."""

from __future__ import annotations

import ast
from graphlib import TopologicalSorter
from pathlib import Path

import dissectors

ROOT = Path(dissectors.__file__).parent
MODULES = {
    ".".join(path.relative_to(ROOT.parent).with_suffix("").parts).removesuffix(".__init__"): path
    for path in sorted(ROOT.rglob("*.py"))
}
IMPORTS = (ast.Import, ast.ImportFrom)


def imported(node: ast.AST) -> set[str]:
    """The modules of dissectors that an import statement names; from a package it may take a module or a name."""
    if isinstance(node, ast.Import):
        return {each.name for each in node.names} & MODULES.keys()
    if isinstance(node, ast.ImportFrom) and node.module in MODULES:
        inner = {f"{node.module}.{each.name}" for each in node.names} & MODULES.keys()
        return inner if len(inner) == len(node.names) else {*inner, node.module}
    return set()


def test_every_import_stands_at_the_top_of_its_module() -> None:
    trees = {name: ast.parse(path.read_text()) for name, path in MODULES.items()}
    deferred = {
        f"{name}:{node.lineno}"
        for name, tree in trees.items()
        for node in ast.walk(tree)
        if isinstance(node, IMPORTS) and node not in tree.body
    }
    assert deferred == set()


def test_no_two_modules_import_each_other() -> None:
    graph = {
        name: set().union(*(imported(node) for node in ast.walk(ast.parse(path.read_text())))) - {name}
        for name, path in MODULES.items()
    }
    assert len(graph["dissectors.trackers.state"]) > 3
    tuple(TopologicalSorter(graph).static_order())  # raises CycleError
