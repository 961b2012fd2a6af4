"""The status page of a collection server."""

from __future__ import annotations

import calendar
import time
from html import escape
from typing import TYPE_CHECKING, Any

from sfumato.web._pages import page, table

if TYPE_CHECKING:
    from sfumato.collect._schema import Schema

_SECONDS = 15
_TIME = "%Y-%m-%dT%H:%M:%SZ"
_WIDTH, _HEIGHT, _LEFT, _BOTTOM, _TOP = 600, 220, 80, 26, 14
_MOST_BARS = 72


def status_page(schema: Schema, counts: dict[str, Any]) -> str:
    """Render the status page, which loads itself again while the collection takes reports."""
    status, budget = counts["status"], counts["budget"]
    figures = (
        ("Reports", f"{counts['reports']:,}"),
        ("Users enrolled", f"{counts['users']:,}"),
        ("Reports a second", f"{counts['reports_a_second']:.3g}"),
        ("Epsilon of a report", f"{budget['epsilon']:.4g}"),
    )
    listed = "".join(f"<div><dt>{name}</dt><dd>{value}</dd></div>" for name, value in figures)
    statement = "".join(f"<p>{escape(line)}</p>" for line in budget["statement"].splitlines())
    body = f"""<h1>{escape(schema.collection)}</h1>
<p>{escape(schema.purpose)}</p>
<p><strong>{_state(status)}</strong> <span class="soft">Schema {status["schema"]}</span></p>
<dl class="figures">{listed}</dl>
<h2>Reports an hour</h2>
{_chart(counts["hours"])}
<h2>What users were told</h2>
{statement}
{_spent_again(budget)}
<h2>Alerts</h2>
{_alerts(counts["alerts"])}"""
    again = "" if status["state"] == "closed" else f'<meta http-equiv="refresh" content="{_SECONDS}">'
    return page(f"Collection {schema.collection}", body, again)


def _state(status: dict[str, Any]) -> str:
    if status["state"] == "waiting":
        return f"Opens at {status['opens']}."
    if status["state"] == "open":
        return f"Open until {status['closes']}."
    if status["sha256"] is None:
        return f"Took the last report at {status['closes']}; not closed for training yet."
    return f"Closed as {status['sha256']}."


def _spent_again(budget: dict[str, Any]) -> str:
    users = budget["users_who_spent_again"]
    if not users:
        return "<p>No user has sent a second report.</p>"
    who = "1 user has" if users == 1 else f"{users:,} users have"
    return (
        f'<p class="warn">{who} sent another report than the stored one. It was dropped, but this server has seen it: each is '
        f"another spend, up to epsilon {budget['most_epsilon']:.4g} for one user.</p>"
    )


def _alerts(alerts: list[dict[str, Any]]) -> str:
    if not alerts:
        return "<p>None.</p>"
    what = {"report": "another report", "key": "another key", "token": "another token"}
    rows = [(one["user"], what[one["kind"]], f"{one['count']:,}", one["last"]) for one in alerts]
    return table(("user", "refused", "times", "last"), rows)


def _chart(hours: list[dict[str, Any]]) -> str:
    """Bars of reports by hour, the latest ones; hours without a report have a gap."""
    if not hours:
        return "<p>No report yet.</p>"
    last = _hour(hours[-1]["hour"])
    recent = [one for one in hours if _hour(one["hour"]) > last - _MOST_BARS]
    shown = {_hour(one["hour"]): one["reports"] for one in recent}
    first, most = min(shown), max(shown.values())
    step = (_WIDTH - _LEFT) / max(12, last - first + 1)
    scale = (_HEIGHT - _BOTTOM - _TOP) / most
    floor = _HEIGHT - _BOTTOM
    bars = "".join(
        f'<rect class="bar" x="{_LEFT + (hour - first) * step:.1f}" y="{floor - number * scale:.1f}" '
        f'width="{step * 0.85:.1f}" height="{number * scale:.1f}"/>'
        for hour, number in shown.items()
    )
    start, end = _short(first), _short(last)
    total = sum(shown.values())
    said = (
        f"{total:,} report{'s' * (total != 1)} from {start} to {_short(last + 1)} (UTC), at most {most:,} in one hour."
    )
    marks = f'<text x="{_LEFT}" y="{_HEIGHT - 6}">{start}</text>'
    if last > first:
        marks += f'<text x="{_WIDTH}" y="{_HEIGHT - 6}" text-anchor="end">{end}</text>'
    return f"""<svg class="plot" viewBox="0 0 {_WIDTH} {_HEIGHT}" role="img" aria-label="{said}">
{_line(_TOP, f"{most:,}")}{_line(floor, "0")}{bars}{marks}</svg>
<p class="soft">{said}</p>"""


def _line(y: int, name: str) -> str:
    line = f'<line class="grid" x1="{_LEFT}" y1="{y}" x2="{_WIDTH}" y2="{y}"/>'
    return f'{line}<text x="{_LEFT - 6}" y="{y + 5}" text-anchor="end">{name}</text>'


def _hour(text: str) -> int:
    return calendar.timegm(time.strptime(text, _TIME)) // 3600


def _short(hour: int) -> str:
    return time.strftime("%d %b %H:%M", time.gmtime(3600 * hour))
