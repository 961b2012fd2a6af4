"""The look of figures: colours that read on light and dark, ink from the page, names that never collide."""

import re
from xml.etree import ElementTree

import pytest

from sfumato.report import _drawing as drawing
from sfumato.report._drawing import PALETTE, canvas, finish, legend, style, wrapped

SVG = "{http://www.w3.org/2000/svg}"


def luminance(color):
    """Relative luminance of #rrggbb."""
    parts = [int(color[i : i + 2], 16) / 255 for i in (1, 3, 5)]
    linear = [part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def contrast(one, other):
    """Contrast ratio of two colours."""
    dark, light = sorted((luminance(one), luminance(other)))
    return (light + 0.05) / (dark + 0.05)


def draw(name="figure", label="curve"):
    with style():
        figure, axes = canvas(3.0)
        (line,) = axes.plot([1, 2], [3, 4], color=PALETTE[0], marker="o")
        legend(figure, [line], [label])
        return finish(figure, name, "A title", "From 3 to 4.")


@pytest.mark.parametrize("ground", ["#ffffff", "#14181b"])
def test_palette_reads_on_both_grounds(ground):
    assert min(contrast(color, ground) for color in PALETTE) >= 3
    assert contrast("#f0e442", "#ffffff") < 3  # a yellow would fail


def test_ink_comes_from_the_page():
    svg = draw().svg
    assert drawing.ink() not in svg
    assert "#000000" not in svg
    assert svg.count("currentColor") > 10


def test_same_figure_gives_same_bytes():
    assert draw().svg == draw().svg != draw(label="other").svg
    assert "date" not in draw().svg.lower()


def test_figure_says_what_it_shows():
    root = ElementTree.fromstring(draw("pic").inline())
    assert root.get("role") == "img"
    assert root.get("aria-labelledby").split() == [root[0].get("id"), root[1].get("id")]
    assert [(child.tag, child.text) for child in root[:2]] == [
        (SVG + "title", "A title"),
        (SVG + "desc", "From 3 to 4."),
    ]


def test_names_of_two_figures_never_collide():
    first, second = (re.findall(r'\bid="([^"]+)"', draw(name).svg) for name in ("one", "two"))
    assert len(first) == len(set(first)) > 10
    assert not set(first) & set(second)
    svg = draw("one").svg
    used = set(re.findall(r"url\(#([^)]+)\)", svg)) | set(re.findall(r'href="#([^"]+)"', svg))
    assert used
    assert used <= set(first)


def test_text_stays_text_and_formulas_stay_letters():
    svg = draw(label="price $x$ \x00 <b> and 漢字").svg
    assert "price $x$  &lt;b&gt; and 漢字" in " ".join(svg.split("\n")).replace("   ", "  ")


def test_a_leading_underscore_is_shown():
    assert "_hidden" in draw(label="_hidden").svg


def test_file_of_its_own_brings_ink_and_ground():
    alone = draw().alone()
    assert "prefers-color-scheme:dark" in alone
    assert ElementTree.fromstring(alone).get("width")
    assert ElementTree.fromstring(draw().inline()).get("width") is None


def test_long_labels_wrap():
    assert max(map(len, wrapped("word " * 30).split("\n"))) <= 42
    assert wrapped("") == "-"
