"""Imports between modules have no cycles, and modules of dissectors import only at the top."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from graphlib import TopologicalSorter
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PATHS = {
    ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__"): path
    for package in ("dissectors", "kproxy")
    for path in sorted((ROOT / package).rglob("*.py"))
}
IMPORTS = (ast.Import, ast.ImportFrom)


@pytest.fixture(scope="module")
def modules() -> dict[str, ast.Module]:
    """Parse the modules here rather than at import, because all test processes import this file."""
    return {name: ast.parse(path.read_text()) for name, path in PATHS.items()}


def imported_modules(node: ast.AST) -> set[str]:
    """Return the modules that a statement imports; what is imported from a package may be a module or a name."""
    if isinstance(node, ast.Import):
        return {name.name for name in node.names} & PATHS.keys()
    if isinstance(node, ast.ImportFrom) and node.module in PATHS:
        imported = {f"{node.module}.{name.name}" for name in node.names} & PATHS.keys()
        return imported if len(imported) == len(node.names) else {*imported, node.module}
    return set()


def executed_nodes(node: ast.AST) -> Iterator[ast.AST]:
    """Yield the nodes below this node, except those that only type checkers see."""
    for child in ast.iter_child_nodes(node):
        if not (isinstance(child, ast.If) and ast.unparse(child.test) == "TYPE_CHECKING"):
            yield child
            yield from executed_nodes(child)


@pytest.mark.slow
def test_imports_of_dissectors_are_at_the_top_of_their_modules(modules: dict[str, ast.Module]) -> None:
    deferred = {
        f"{name}:{node.lineno}"
        for name, tree in modules.items()
        if name.startswith("dissectors")
        for node in executed_nodes(tree)
        if isinstance(node, IMPORTS) and node not in tree.body
    }
    assert deferred == set()


@pytest.mark.slow
@pytest.mark.parametrize(("package", "minimum"), [("dissectors", 3), ("kproxy", 15)])
def test_no_two_modules_import_each_other(modules: dict[str, ast.Module], package: str, minimum: int) -> None:
    """Imports inside functions count. Two classes of kproxy may import each other for annotations only."""
    graph = {
        name: set().union(*map(imported_modules, executed_nodes(tree))) - {name}
        for name, tree in modules.items()
        if name.startswith(package)
    }
    assert max(map(len, graph.values())) > minimum
    tuple(TopologicalSorter(graph).static_order())  # raises CycleError if there is a cycle
