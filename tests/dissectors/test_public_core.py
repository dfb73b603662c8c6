"""The public core: what `dissectors` exports, and that it costs nothing until it is used."""

from __future__ import annotations

import ast
import inspect
import subprocess
import sys
from pathlib import Path

import pytest

import dissectors


def typed_names(package: Path) -> dict[str, str]:
    """Return the names that a type checker sees in a package, with their modules."""
    tree = ast.parse(package.read_text())
    [block] = [node for node in tree.body if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING"]
    return {
        alias.name: f"{node.module}.{alias.name}" if node.module == "dissectors" else str(node.module)
        for node in block.body
        if isinstance(node, ast.ImportFrom)
        for alias in node.names
    }


def test_type_checkers_see_the_exported_names() -> None:
    typed = typed_names(Path(dissectors.__file__))
    assert sorted(typed) == dissectors.__all__
    for name, module in typed.items():
        value = getattr(dissectors, name)
        assert value is (sys.modules[module] if inspect.ismodule(value) else vars(sys.modules[module])[name])


def test_exported_names_are_documented() -> None:
    values = {name: getattr(dissectors, name) for name in dissectors.__all__ if name != "Event"}  # a union
    assert [name for name, value in values.items() if not inspect.getdoc(value)] == []
    assert set(dissectors.__all__) <= set(dir(dissectors))


def test_unknown_name_raises_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="module 'dissectors' has no attribute 'conection'"):
        dissectors.conection  # type: ignore[attr-defined]  # noqa: B018


def test_importing_the_package_imports_none_of_its_modules() -> None:
    script = "import sys, dissectors; print([name for name in sys.modules if name.startswith('dissectors.')])"
    completed = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert completed.stdout == "[]\n"


def test_response_is_read_by_the_name_of_its_api_or_its_key() -> None:
    frame = dissectors.encode_response("Heartbeat", 0, {"error_code": 27}, correlation_id=1)
    assert dissectors.read_response(frame, "Heartbeat", 0) == dissectors.read_response(frame, 12, 0)
    with pytest.raises(ValueError, match="unknown API 'Heartbeet'"):
        dissectors.read_response(frame, "Heartbeet", 0)
    with pytest.raises(ValueError, match="Heartbeat has no version 99: use 0 to 4"):
        dissectors.read_response(frame, "Heartbeat", 99)
    assert dissectors.read_response(frame, 12, 99).opaque == "Heartbeat v99 is not in the schemas, which end at v4"
