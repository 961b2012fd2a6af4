"""The status page: what it says, and how it looks in headless Chromium on a desk and on a phone."""

import re

import pytest
from browsing import RERUN, check, opened
from devices import OPEN, FakeDevice, app_of, label_schema

from sfumato.collect._answers import counted
from sfumato.collect._page import status_page
from sfumato.collect._schema import Schema
from sfumato.collect._store import Store
from sfumato.collect._stored import Alert, Counts
from sfumato.web._pages import docs_page

pytestmark = RERUN
SCHEMA = label_schema()
NINE = 1796115600  # 2026-12-01T09:00:00Z
HOUR = int(OPEN) // 3600 * 3600


def page(schema=SCHEMA, state="open", sha256=None, **changes):
    hours = tuple((HOUR + 3600 * place, 1 + 37 * place % 900) for place in range(100) if place % 7)
    alerts = (Alert("report", "user-<b>&", 2, OPEN, OPEN + 50), Alert("key", "m" * 64, 11_000, OPEN, OPEN + 500))
    counts = {"users": 1_234_567, "reports": 1_034_321, "hours": hours, "last_minute": 132} | changes
    given = Counts(**{"second_reports": 2, "most_second": 3, "alerts": alerts} | counts)
    status = {"schema": schema.sha256, "state": state, "opens": schema.opens, "closes": schema.closes, "sha256": sha256}
    return status_page(schema, counted(schema, status, given))


def empty(**changes):
    return page(users=0, reports=0, hours=(), last_minute=0, second_reports=0, most_second=0, alerts=(), **changes)


def test_page_says_what_the_counts_say():
    text = page()
    for words in ("1,034,321", "1,234,567", "2.2", "2 users have sent another report", "up to epsilon 4", "11,000"):
        assert words in text
    for line in SCHEMA.statement().splitlines():
        assert line in text
    assert "user-&lt;b&gt;&amp;" in text
    assert "<b>" not in text


def test_chart_shows_the_latest_hours_to_scale():
    text = page(hours=((HOUR, 50), (HOUR + 3600, 100), (HOUR + 3 * 3600, 25)))
    bars = [
        tuple(map(float, one))
        for one in re.findall(r'class="bar" x="([\d.]+)" y="[\d.]+" width="[\d.]+" height="([\d.]+)"', text)
    ]
    (left, half), (_, whole), (right, quarter) = bars
    assert (half / whole, quarter / whole) == pytest.approx((0.5, 0.25), abs=0.01)
    assert (right - left) / (bars[1][0] - left) == pytest.approx(3, abs=0.01)
    assert page().count('class="bar"') < 80


def test_hours_are_said_with_their_end():
    assert "1 report from 01 Dec 09:00 to 01 Dec 10:00 (UTC), at most 1 in one hour." in page(hours=((NINE, 1),))
    text = page(hours=((NINE, 2), (NINE + 3 * 3600, 5)))
    assert "7 reports from 01 Dec 09:00 to 01 Dec 13:00 (UTC), at most 5 in one hour." in text


@pytest.mark.parametrize(
    ("state", "sha256", "words"),
    [
        ("waiting", None, "Opens at 2026-11-01"),
        ("open", None, "Open until 2027-01-01"),
        ("closed", None, "not closed for training yet"),
        ("closed", "ab" * 32, f"Closed as {'ab' * 32}."),
    ],
)
def test_page_says_the_state_and_loads_again_while_it_may_change(state, sha256, words):
    text = empty(state=state, sha256=sha256)
    assert words in text
    assert f"Schema {SCHEMA.sha256}<" in text
    assert ("http-equiv" in text) == (state != "closed")


def test_empty_collection_has_a_page():
    text = empty()
    for words in ("No report yet.", "No user has sent a second report.", "None."):
        assert words in text


@pytest.fixture(scope="module")
def open_page(tmp_path_factory):
    with opened(tmp_path_factory.mktemp("pages")) as show:
        yield show


def long_schema():
    """Names and purpose without a place to break."""
    values = SCHEMA.to_dict()
    for name in ("randomizers", "totals"):
        del values[name]
    return Schema.from_dict({**values, "collection": "c" * 64, "purpose": "p" * 300})


@pytest.fixture(scope="module")
def pages(tmp_path_factory):
    store = Store.create(str(tmp_path_factory.mktemp("store") / "reports.sqlite"), SCHEMA)
    store.enrol([FakeDevice("ada", SCHEMA).enrolment])
    described = app_of(store).openapi()
    store.dispose()
    return {"status": page(), "long": page(long_schema()), "empty": empty(), "docs": docs_page(described)}


def test_calls_say_what_a_first_and_a_repeated_upload_are_answered(pages):
    for path in ("/reports", "/users"):
        (part,) = (one for one in pages["docs"].split("<h2>") if one.startswith(f"POST {path} "))
        assert "<td>200</td><td>It was stored before, and nothing changed." in part
        assert "<td>201</td><td>It is stored.</td>" in part


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [1280, 390])
@pytest.mark.parametrize("kind", ["status", "long", "empty", "docs"])
def test_page_is_quiet_and_fits(open_page, pages, kind, width, scheme):
    check(open_page(pages[kind], width, scheme), width)
