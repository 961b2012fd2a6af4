"""Pictures inside a page: the bytes of PNG, their places in the grid, and the page about model inversion."""

import base64
import re
import struct
import zlib
from xml.etree import ElementTree

import numpy as np
import pytest
from report_samples import HOSTILE, INLINE, assert_sound, certificate

from sfumato.attacks._distances import Nearest
from sfumato.attacks._reconstruction import Reconstructions
from sfumato.errors import InputError
from sfumato.report._inversion import Attacked, inversion_figure, inversion_page
from sfumato.report._pictures import picture_grid, png

SVG = "{http://www.w3.org/2000/svg}"


def decoded(data):
    """Read a PNG of 8 bits whose rows are as they are: [height, width, channels]; every checksum must be right."""
    assert data[:8] == b"\x89PNG\r\n\x1a\n"
    chunks, at = {}, 8
    while at < len(data):
        (length,), kind = struct.unpack(">I", data[at : at + 4]), data[at + 4 : at + 8]
        body = data[at + 8 : at + 8 + length]
        assert struct.unpack(">I", data[at + 8 + length : at + 12 + length])[0] == zlib.crc32(kind + body)
        chunks[kind], at = body, at + 12 + length
    assert list(chunks) == [b"IHDR", b"IDAT", b"IEND"]
    width, height, bits, color, *rest = struct.unpack(">2I5B", chunks[b"IHDR"])
    assert (bits, rest) == (8, [0, 0, 0])
    rows = np.frombuffer(zlib.decompress(chunks[b"IDAT"]), np.uint8).reshape(height, -1)
    assert not rows[:, 0].any()
    return rows[:, 1:].reshape(height, width, {0: 1, 2: 3}[color])


@pytest.mark.parametrize("channels", [1, 3])
def test_png_holds_the_pixels(channels):
    image = np.random.default_rng(0).random((channels, 4, 7), dtype=np.float32)
    np.testing.assert_array_equal(decoded(png(image)), np.rint(255 * image).transpose(1, 2, 0))
    assert png(image) == png(image.copy())


def test_png_is_that_of_another_reader(tmp_path):
    matplotlib = pytest.importorskip("matplotlib.image")
    image = np.random.default_rng(0).random((3, 4, 7), dtype=np.float32)
    (tmp_path / "image.png").write_bytes(png(image))
    read = matplotlib.imread(tmp_path / "image.png")
    np.testing.assert_allclose(read[..., :3], image.transpose(1, 2, 0), atol=1 / 500)


def test_two_channels_are_refused():
    with pytest.raises(InputError, match="channels to be 1 or 3, got 2"):
        png(np.zeros((2, 4, 4)))


def boxes(figure):
    """Left, top, width and height of every picture, and what it holds."""
    found = ElementTree.fromstring(figure.svg).iter(f"{SVG}image")
    keys = ("x", "y", "width", "height")
    return [([float(one.get(key)) for key in keys], one.get("href").removeprefix(INLINE)) for one in found]


def test_every_picture_is_in_its_row_and_column():
    shades = np.linspace(0, 1, 24).reshape(2, 12, 1, 1, 1) * np.ones((1, 1, 1, 6, 3))
    figure = picture_grid("grid", "Shades", "24 shades.", [("a", shades[0]), ("b", shades[1])], [*map(str, range(12))])
    found = boxes(figure)
    assert len(found) == 24
    order = [*shades[0, :10], *shades[1, :10], *shades[0, 10:], *shades[1, 10:]]  # at most ten stand beside each other
    for ((x, _, width, height), data), shade in zip(found, order, strict=True):
        np.testing.assert_array_equal(decoded(base64.b64decode(data))[..., 0], np.rint(255 * shade[0]))
        assert x + width <= 310.01
        assert height == pytest.approx(2 * width, rel=1e-4)
    lefts, tops = [box[0] for box, _ in found], [box[1] for box, _ in found]
    assert lefts[:10] == lefts[10:20] == sorted(lefts[:10])
    assert lefts[20:22] == lefts[22:24] == lefts[:2]
    assert sorted(set(tops)) == [tops[0], tops[10], tops[20], tops[22]]
    assert min(b - a for a, b in zip(sorted(set(tops)), sorted(set(tops))[1:], strict=False)) > found[0][0][3]


def attacked(title="first", unit="edge", epsilon=1.0, classes=("0", "1", "2"), seed=0):
    """A run whose reconstructions are noise."""
    images = np.random.default_rng(seed).random((2, len(classes), 1, 8, 8), dtype=np.float32)
    nearest = {name: Nearest(1.0 + i, 2.0 + i, 3.0 + i, 4.0 + i) for i, name in enumerate(classes)}
    found = Reconstructions(images[0], nearest, np.full(len(classes), 0.5, np.float32), images[1])
    return Attacked(title, certificate(unit, epsilon), found, accuracy=None if epsilon is None else 0.93)


def test_page_is_sound_and_says_how_to_read_it():
    page = inversion_page([attacked(), attacked("second", "none", None)], "mnist", {"steps": 5000}, "euclidean")
    text = " ".join(" ".join(assert_sound(page).itertext()).split())
    for words in (
        "first: one edge, epsilon = 1, delta = 1e-06, 93.0 % of test images right",
        "second: no guarantee",
        "a training distance smaller than the held-out distance is a sign of memorisation".capitalize(),
        "A poor picture proves nothing",
        "must not leave with the release",
        "Not covered by the guarantee",
        "all classes, mean 2.000 3.000 4.000 5.000 0.500",
        "steps 5000",
        "Fredrikson, Jha and Ristenpart (2015)",
    ):
        assert words in text, words
    assert page.count(INLINE) == 9
    assert not re.search(r"<img|https?://(?!www\.w3\.org)", page)


def test_figure_stands_alone_and_states_its_numbers():
    figure = inversion_figure([attacked()])
    assert "mean distance 3.000 to training and 4.000 to held-out images" in figure.description
    alone = ElementTree.fromstring(figure.alone())
    assert alone.tag == f"{SVG}svg"
    assert "prefers-color-scheme" in alone.find(f"{SVG}style").text
    assert "ns0:" not in figure.alone() + figure.inline()


def test_hostile_names_become_no_markup():
    run = attacked(HOSTILE, classes=(HOSTILE, "1", "2"))
    root = assert_sound(inversion_page([run], HOSTILE, {"regularizer": HOSTILE}, "ssim"))
    assert not list(root.iter("script"))
