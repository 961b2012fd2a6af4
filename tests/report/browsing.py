"""Headless Chromium: what pages say in its console, what they load, what is wider than the screen or too small to read."""

import os
from contextlib import contextmanager
from pathlib import Path

import pytest

CHROMIUM = Path(os.environ.get("SFUMATO_CHROMIUM", "/usr/bin/chromium"))
WIDE = """() => [...document.querySelectorAll("body *")]
  .filter(one => !one.closest(".scroll, .skip") && one.getBoundingClientRect().right > innerWidth + 0.5)
  .map(one => one.tagName + " " + one.textContent.slice(0, 40))"""
SMALL = """() => [...document.querySelectorAll("svg text")]
  .map(one => [one.textContent.length, one.getBoundingClientRect()]).filter(([, box]) => Math.max(box.width, box.height) > 0)
  .map(([length, box]) => (length > 3 ? Math.min : Math.max)(box.width, box.height))"""
RERUN = pytest.mark.flaky(reruns=2, only_rerun="TargetClosedError")
"""A browser that dies says nothing about the page: such a test, and no other, runs again in a fresh browser."""


@contextmanager
def opened(folder):
    """Give a function that opens HTML from a file in the folder; ``page.noise`` is what a page complains about or loads."""
    if not CHROMIUM.exists():
        pytest.skip(f"Chromium not found at {CHROMIUM}; set SFUMATO_CHROMIUM")
    playwright = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
    with playwright.sync_playwright() as started:
        alive = []

        def show(html, width=1280, scheme="light"):
            if not alive or not alive[-1].is_connected():
                browser = started.chromium.launch(executable_path=str(CHROMIUM), args=["--no-sandbox", "--disable-gpu"])
                alive.append(browser)
            path = folder / "page.html"
            path.write_text(html, encoding="utf-8")
            for context in alive[-1].contexts:
                context.close()
            page = alive[-1].new_context(viewport={"width": width, "height": 900}, color_scheme=scheme).new_page()
            page.noise = []
            page.on("console", lambda message: page.noise.append(message.text))
            page.on("pageerror", lambda error: page.noise.append(str(error)))
            page.on("request", lambda request: page.noise.append(request.url) if request.url != path.as_uri() else None)
            page.goto(path.as_uri())
            return page

        yield show
        for browser in alive:
            browser.close()


def check(page, width):
    """A page is quiet, fits the screen, and no text of a figure is too small."""
    assert page.noise == []
    assert page.evaluate(WIDE) == []
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    assert min(page.evaluate(SMALL), default=9) > 8
