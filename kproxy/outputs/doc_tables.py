"""Replaces generated tables in documents, between two marks."""

from __future__ import annotations


def with_table(text: str, mark: str, table: str) -> str:
    """The document with `table` between ``<!-- mark -->`` and ``<!-- end of mark -->``.

    Raises:
        ValueError: The document lacks these marks.
    """
    begin, end = f"<!-- {mark} -->", f"<!-- end of {mark} -->"
    before, begun, rest = text.partition(begin)
    _, ended, after = rest.partition(end)
    if not begun or not ended:
        raise ValueError(f"no {begin} and {end} in it")
    return f"{before}{begin}\n\n{table}\n{end}{after}"
