"""Rewrites a module for mypyc, whose classes are fast if they are plain ones.

Of `dataclass(slots=True)`, mypyc 2.4 makes classes that crash, and other dataclasses keep an interpreted `__init__`.
"""

from __future__ import annotations

import ast


def is_dataclass(decorator: ast.expr) -> bool:
    called = decorator.func if isinstance(decorator, ast.Call) else decorator
    return isinstance(called, ast.Name) and called.id == "dataclass"


def written_out(decorator: ast.expr, name: str, fields: list[ast.AnnAssign]) -> str:
    """The fields and methods of a dataclass as `mypyc` compiles them best: as if written by hand."""
    lines, parameters, values, compared, initial = [], ["self"], [], [], []
    for field in fields:
        assert isinstance(field.target, ast.Name)
        of, kind = field.target.id, ast.unparse(field.annotation)
        options = {}
        default = None if field.value is None else ast.unparse(field.value)
        if isinstance(field.value, ast.Call) and ast.unparse(field.value.func) == "field":
            options = {str(each.arg): ast.unparse(each.value) for each in field.value.keywords}
            default = options.get("default")
        lines.append(f"{of}: {kind}")
        factory = options.get("default_factory")
        made = f"({factory})()" if factory else default
        if options.get("compare") != "False":
            compared.append(of)
        if options.get("init") == "False":
            if made is not None:
                values.append(f"self.{of} = {made}")
            continue
        initial.append(of)
        if factory:
            parameters.append(f"{of}: {kind} | None = None")
            values.append(f"self.{of} = {made} if {of} is None else {of}")
        else:
            parameters.append(f"{of}: {kind}" + ("" if default is None else f" = {default}"))
            values.append(f"self.{of} = {of}")
    lines += [f"def __init__({', '.join(parameters)}) -> None:", *(f"    {each}" for each in values)]
    lines += ["    if hasattr(self, '__post_init__'): self.__post_init__()"]
    options = {} if not isinstance(decorator, ast.Call) else {str(each.arg): True for each in decorator.keywords}
    if "eq" not in options:
        same = " and ".join(f"self.{each} == other.{each}" for each in compared) or "True"
        lines += ["def __eq__(self, other: object) -> bool:", f"    return isinstance(other, {name}) and {same}"]
        if "frozen" in options:
            parts = "".join(f"self.{each}, " for each in compared)
            lines += ["def __hash__(self) -> int:", f"    return hash(({parts}))"]
    fields_of = f"getattr(make_dataclass({name!r}, {initial!r}), '__dataclass_fields__')"  # for `replace`
    lines.append(f"__dataclass_fields__: ClassVar[Any] = {fields_of}")
    return "\n".join(f"    {each}" for each in lines)


def native(source: str) -> str:
    """A module whose dataclasses are plain classes. Other decorators of classes become calls: mypyc has no others."""
    lines = source.split("\n")
    edits: list[tuple[int, int, str | None]] = []  # first line, last line, text
    tree = ast.parse(source)
    for node in tree.body:
        if not isinstance(node, ast.ClassDef):
            continue
        for decorator in node.decorator_list:
            edits.append((decorator.lineno, decorator.end_lineno or 0, None))
            if not is_dataclass(decorator):
                call = f"({ast.unparse(decorator)})({node.name})"
                edits.append(((node.end_lineno or 0) + 1, node.end_lineno or 0, call))
                continue
            fields = [each for each in node.body if isinstance(each, ast.AnnAssign)]
            edits += [(each.lineno, each.end_lineno or 0, None) for each in fields]
            text = written_out(decorator, node.name, fields)
            edits.append((fields[0].lineno, fields[0].lineno - 1, text))
    if not edits:
        return source
    last_future = max(
        each.lineno for each in tree.body if isinstance(each, ast.ImportFrom) and each.module == "__future__"
    )
    imports = "from dataclasses import make_dataclass\nfrom typing import Any, ClassVar"
    edits.append((last_future + 1, last_future, imports))
    for first, last, text in sorted(edits, key=lambda edit: (-edit[0], edit[2] is not None)):
        lines[first - 1 : last] = [] if text is None else [text]
    return "\n".join(lines)
