"""Elements of pages without a script; text from the wire is always escaped, never interpreted as markup."""

from __future__ import annotations

from xml.etree.ElementTree import Element, SubElement  # written, not read

from kproxy.trace.formatting import safe


def add_section(main: Element, title: str, about: str) -> Element:
    """Add a section with a heading; return it."""
    element = SubElement(main, "section")
    add(element, "h2", title)
    add(element, "p", about, **{"class": "about"})
    return element


def add_table(parent: Element, *headings: str) -> Element:
    """Add a table with these headings; return its body."""
    element = SubElement(SubElement(parent, "div", {"class": "scroll"}), "table")
    heading = SubElement(SubElement(element, "thead"), "tr")
    for name in headings:
        add(heading, "th", name, scope="col")
    return SubElement(element, "tbody")


def add(parent: Element, tag: str, text: str, **attributes: str) -> Element:
    """Add an element with text that is made safe to show; return it."""
    element = SubElement(parent, tag, {name: safe(value) for name, value in attributes.items()})
    element.text = "\n".join(map(safe, text.split("\n")))
    return element
