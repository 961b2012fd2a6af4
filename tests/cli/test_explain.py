"""`sfumato explain`: the chart of guesses before any data, in the terminal and as a page."""

import json

import pytest

from sfumato.report._scale import right_guesses


def test_the_chart_stands_in_the_terminal_and_on_the_page(sfumato, tmp_path):
    out = tmp_path / "explain.html"
    done = sfumato("explain", "--epsilon", "1", "--delta", "1e-6", "--out", out)
    assert done.code == 0
    marked = [line for line in done.out.splitlines() if line.startswith(">")]
    assert len(marked) == 1
    assert marked[0].split()[-1] == right_guesses(1.0, 1e-6) == "73.2"
    assert "whether you two are linked" in done.out
    assert "one in a million" in " ".join(done.out.split())
    page = out.read_text(encoding="utf-8")
    for words in ("a model, epsilon 1: at most 73.2 of 100", "What would be protected", "It holds no data", "<svg"):
        assert words in page
    assert "this model" not in page
    assert [path.name for path in tmp_path.iterdir()] == ["explain.html"]


@pytest.mark.parametrize(
    ("unit", "words"),
    [
        (("node",), "your whole entry in the data"),
        (("node", "--arcs", "incident"), "every link to you or from you"),
        (("arc",), "one half of a link"),
        (("local",), "your properties and your group"),
        (("class",), "one group"),
    ],
)
def test_every_unit_is_explained(sfumato, unit, words):
    done = sfumato("explain", "--epsilon", "8", "--unit", *unit)
    assert (done.code, words in " ".join(done.out.split())) == (0, True)
    told = json.loads(sfumato("explain", "--epsilon", "8", "--unit", *unit, "--json").out)
    assert (told["right_guesses_of_100"], told["odds_grow"]) == (100.0, "2,981")


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (("--epsilon", "-1"), "epsilon"),
        (("--epsilon", "1e9"), "epsilon"),
        (("--epsilon", "1e-320"), "or from 1e-09 to 1000"),
        (("--epsilon", "1", "--delta", "1"), "delta"),
        (("--epsilon", "1", "--unit", "none"), "protects nothing"),
        (("--epsilon", "1", "--out", "page.pdf"), ".html"),
    ],
)
def test_what_cannot_be_explained_is_refused(sfumato, options, said):
    done = sfumato("explain", *options)
    assert (done.code, said in done.err) == (2, True)
