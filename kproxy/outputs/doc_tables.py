"""Replaces generated tables in documents, between two marks."""

from __future__ import annotations


def replace_table(text: str, mark: str, table: str) -> str:
    """Return the document with `table` between ``<!-- mark -->`` and ``<!-- end of mark -->``.

    Raises:
        ValueError: The document lacks these marks.
    """
    start_mark, end_mark = f"<!-- {mark} -->", f"<!-- end of {mark} -->"
    before, found_start, rest = text.partition(start_mark)
    _, found_end, after = rest.partition(end_mark)
    if not found_start or not found_end:
        raise ValueError(f"no {start_mark} and {end_mark} in it")
    return f"{before}{start_mark}\n\n{table}\n{end_mark}{after}"
