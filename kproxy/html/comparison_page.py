"""The differences of two traces as an HTML page without scripts."""

from __future__ import annotations

from itertools import groupby
from pathlib import Path
from xml.etree.ElementTree import Element, SubElement  # written, not read

from kproxy.comparison.differences import TrafficComparison, TrafficDifference
from kproxy.html.assemble import static_page
from kproxy.html.elements import add, add_section, add_table
from kproxy.outputs.comparison_report import occurrences_text, summary, title, traffic_size, value_texts
from kproxy.trace.formatting import safe


def comparison_page(comparison: TrafficComparison) -> str:
    """Return the page: a table per aspect, then the notes. It loads nothing, and hides the files' directories."""
    names = [Path(traffic.name).name for traffic in (comparison.a, comparison.b)]
    body = Element("body")
    header = SubElement(body, "header")
    add(header, "p", "kproxy diff", id="brand")
    add(header, "h1", " and ".join(names))
    for letter, name, side in zip("AB", names, (comparison.a, comparison.b), strict=True):
        add(header, "p", f"{letter} is {name}: {traffic_size(side)}.", **{"class": "about"})
    main = SubElement(body, "main")
    section = add_section(main, "Summary", summary(comparison))
    notes = SubElement(section, "ul", {"class": "about"})
    for note in comparison.notes:
        add(notes, "li", note)
    for aspect, group in groupby(comparison.differences, lambda difference: difference.aspect):
        section = SubElement(main, "section")
        add(section, "h2", aspect.capitalize())
        rows = add_table(section, "Where", "A", "B", "First at")
        for difference in group:
            _add_row(rows, difference)
    return static_page(f"kproxy diff: {safe(' and '.join(names))}", body)


def _add_row(rows: Element, difference: TrafficDifference) -> None:
    row = SubElement(rows, "tr")
    for text in (title(difference), *value_texts(difference), occurrences_text(difference).removeprefix("first at ")):
        add(SubElement(row, "td"), "code", text)
