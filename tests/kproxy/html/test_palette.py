"""The application's colours have enough contrast (WCAG 2.2) and stay distinct with colour vision deficiencies."""

from __future__ import annotations

import re
from importlib import resources
from itertools import combinations

import pytest

Rgb = tuple[float, float, float]

#: Simulation matrices for severity 1 in linear RGB, from Machado, Oliveira and Fernandes (2009).
_DEFICIENCIES = {
    "none": ((1, 0, 0), (0, 1, 0), (0, 0, 1)),
    "protanopia": ((0.152286, 1.052583, -0.204868), (0.114503, 0.786281, 0.099216), (-0.003882, -0.048116, 1.051998)),
    "deuteranopia": ((0.367322, 0.860646, -0.227968), (0.280085, 0.672501, 0.047413), (-0.011820, 0.042940, 0.968881)),
    "tritanopia": ((1.255528, -0.076749, -0.178779), (-0.078411, 0.930809, 0.147602), (0.004733, 0.691367, 0.303900)),
}
#: Colours that are next to each other in charts and lists. Error and warning also differ in shape and words.
_MARKS = ("accent", "error", "warning", "topic", "text", "dim")
#: The minimum CIE76 colour difference; 2.3 is just noticeable.
_MIN_DISTANCE = 10


def palette(theme: str) -> dict[str, Rgb]:
    style = resources.files("kproxy.html.app").joinpath("page.css").read_text(encoding="utf-8")
    colours: dict[str, Rgb] = {}
    for selector in (":root", *(() if theme == "light" else (":root[data-theme=dark]",))):
        block = re.search(rf"^ *{re.escape(selector)} {{\n(.*?)}}", style, re.MULTILINE | re.DOTALL)
        assert block
        for name, value in re.findall(r"--([\w-]+): #(\w{6});", block[1]):
            colours[name] = linear(value)
    return colours


def linear(value: str) -> Rgb:
    channels = [int(value[start : start + 2], 16) / 255 for start in (0, 2, 4)]
    red, green, blue = (
        channel / 12.92 if channel <= 0.04045 else ((channel + 0.055) / 1.055) ** 2.4 for channel in channels
    )
    return red, green, blue


def luminance(colour: Rgb) -> float:
    red, green, blue = colour
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


def contrast(colour: Rgb, background: Rgb) -> float:
    darker, lighter = sorted((luminance(colour), luminance(background)))
    return (lighter + 0.05) / (darker + 0.05)


def simulate(colour: Rgb, deficiency: str) -> Rgb:
    red, green, blue = (
        min(1.0, max(0.0, sum(factor * channel for factor, channel in zip(row, colour, strict=True))))
        for row in _DEFICIENCIES[deficiency]
    )
    return red, green, blue


def lab(colour: Rgb) -> Rgb:
    red, green, blue = colour
    x = (0.4124 * red + 0.3576 * green + 0.1805 * blue) / 0.9505
    z = (0.0193 * red + 0.1192 * green + 0.9505 * blue) / 1.089
    fx, fy, fz = (part ** (1 / 3) if part > 0.008856 else 7.787 * part + 16 / 116 for part in (x, luminance(colour), z))
    return 116 * fy - 16, 500 * (fx - fy), 200 * (fy - fz)


def distance(first: Rgb, second: Rgb) -> float:
    return sum((a - b) ** 2 for a, b in zip(lab(first), lab(second), strict=True)) ** 0.5


def test_contrast_and_distance_are_measured_correctly() -> None:
    black, white, grey = linear("000000"), linear("ffffff"), linear("767676")
    assert contrast(black, white) == pytest.approx(21)
    assert contrast(grey, white) == pytest.approx(4.54, abs=0.01)
    assert distance(black, white) == pytest.approx(100, abs=0.1)
    red, green = linear("c00000"), linear("6a6a00")  # people with deuteranopia confuse these
    assert distance(simulate(red, "deuteranopia"), simulate(green, "deuteranopia")) < distance(red, green) / 3


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_text_contrasts_with_its_backgrounds(theme: str) -> None:
    colours = palette(theme)
    for text in ("text", "dim", "accent", "error", "warning", "info", "topic"):
        for background in ("back", "panel"):
            assert contrast(colours[text], colours[background]) >= 4.5, (text, background)
    for level in ("error", "warning", "info"):
        assert contrast(colours[level], colours[f"{level}-back"]) >= 4.5, level
        assert contrast(colours["text"], colours[f"{level}-back"]) >= 4.5, level
        assert contrast(colours["dim"], colours[f"{level}-back"]) >= 4.5, level
        assert contrast(colours["dim" if level == "info" else level], colours["chosen"]) >= 4.5, level
    for background in ("chosen", "near"):
        assert contrast(colours["text"], colours[background]) >= 4.5, background
    assert contrast(colours["mark-text"], colours["mark"]) >= 4.5


@pytest.mark.parametrize("deficiency", _DEFICIENCIES)
@pytest.mark.parametrize("theme", ["light", "dark"])
def test_marks_differ_from_the_background_and_from_each_other(theme: str, deficiency: str) -> None:
    colours = {name: simulate(colour, deficiency) for name, colour in palette(theme).items()}
    for mark in _MARKS:
        assert contrast(colours[mark], colours["back"]) >= 3, mark
    similar_pairs = {
        pair: round(distance(colours[pair[0]], colours[pair[1]]), 1)
        for pair in combinations(_MARKS, 2)
        if distance(colours[pair[0]], colours[pair[1]]) < _MIN_DISTANCE
    }
    assert similar_pairs == {}


def test_style_sheets_share_their_colours() -> None:
    themes = []
    for package, name in (
        ("kproxy.html.app", "page.css"),
        ("kproxy.html", "static_page.css"),
        ("kproxy.spark.report", "page.css"),
    ):
        style = resources.files(package).joinpath(name).read_text(encoding="utf-8").partition("@media print")[0]
        blocks = re.findall(r"^ *:root[^{]* {\n(.*?)}", style, re.MULTILINE | re.DOTALL)
        palettes = [dict(re.findall(r"--([\w-]+): (#\w{6});", block)) for block in blocks]
        themes.append((palettes[0], palettes[1]))
    for light_and_dark in zip(*themes, strict=True):
        for first, second in combinations(light_and_dark, 2):
            shared = first.keys() & second.keys()
            assert len(shared) > 5
            assert {name: first[name] for name in shared} == {name: second[name] for name in shared}
