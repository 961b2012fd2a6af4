"""Pages in headless Chromium: no error, every plot drawn, nothing wider than a phone, readable in dark and light."""

import pytest
from browsing import RERUN, WIDE, check, opened
from report_samples import RECORD, claimed_run

from sfumato.privacy.units import NodeLevel
from sfumato.report import experiment_figures, experiment_page, public_page, regulator_page, reviewer_page, run_page

pytestmark = RERUN
BOXES = "elements => elements.map(one => { const box = one.getBoundingClientRect(); return [box.width, box.height]; })"


@pytest.fixture(scope="module")
def open_page(tmp_path_factory):
    with opened(tmp_path_factory.mktemp("pages")) as show:
        yield show


@pytest.fixture(scope="module", params=["experiment", "hostile", "edge", "none", "public", "reviewer", "regulator"])
def html(request, spec, rows, hostile, edge_run, bare_run):
    """One page of each kind."""
    made = {
        "experiment": lambda: experiment_page(spec, rows),
        "hostile": lambda: experiment_page(*hostile),
        "edge": lambda: run_page(edge_run),
        "none": lambda: run_page(bare_run),
        "public": lambda: public_page(claimed_run(NodeLevel(max_out_degree=3), record=RECORD)),
        "reviewer": lambda: reviewer_page(claimed_run(NodeLevel(max_out_degree=3), record=RECORD), "VALID: runs/first"),
        "regulator": lambda: regulator_page(claimed_run(NodeLevel(max_out_degree=3)), "VALID: runs/first"),
    }
    return made[request.param]()


@pytest.mark.parametrize("width", [1280, 390])
def test_page_is_quiet_drawn_and_fits(open_page, html, width):
    page = open_page(html, width)
    check(page, width)
    boxes = page.eval_on_selector_all("svg.plot", BOXES)
    assert boxes
    assert all(wide > 250 and high > 150 for wide, high in boxes), boxes
    assert page.eval_on_selector_all("svg.plot", "elements => elements.every(one => one.querySelector('path'))")


def test_dark_and_light_reach_the_plots(open_page, spec, rows):
    html = experiment_page(spec, rows)
    ink = "() => getComputedStyle(document.querySelector('svg.plot text')).fill"
    seen = {scheme: open_page(html, scheme=scheme).evaluate(ink) for scheme in ("light", "dark")}
    assert seen == {"light": "rgb(28, 34, 39)", "dark": "rgb(228, 232, 234)"}


def test_keyboard_reaches_content_and_tables(open_page, spec, rows):
    page = open_page(experiment_page(spec, rows), 390)
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.className") == "skip"
    page.keyboard.press("Enter")
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.className") == "scroll"
    page.keyboard.press("ArrowRight")
    moved = any(page.wait_for_timeout(100) or page.evaluate("document.activeElement.scrollLeft > 0") for _ in range(20))
    assert moved  # the page forbids what wait_for_function does


def test_figures_stand_alone(open_page, spec, rows):
    for svg in experiment_figures(spec, rows).values():
        page = open_page(f"<!DOCTYPE html><html><body>{svg}</body></html>")
        assert page.noise == []
        assert page.eval_on_selector_all("svg", BOXES)[0][0] > 250


def test_planted_faults_are_found(open_page, spec, rows):
    html = experiment_page(spec, rows)
    wide = html.replace("<footer>", '<div style="width:500px">wide</div><footer>')
    assert open_page(wide, 390).evaluate(WIDE) == ["DIV wide"]
    loud = html.replace("<footer>", '<img src="https://example.invalid/x.png"/><script>alert(1)</script><footer>')
    assert open_page(loud).noise
