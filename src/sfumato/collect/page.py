"""The pages of a server: the status of its collection, and its calls. Each is one HTML file that loads and runs nothing."""

from __future__ import annotations

import calendar
import time
from collections.abc import Sequence
from html import escape
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from sfumato.collect.schema import Schema

PAGE_HEADERS = {
    "content-security-policy": "default-src 'none'; style-src 'unsafe-inline'; frame-ancestors 'none'",
    "cache-control": "no-store",
    "x-content-type-options": "nosniff",
}
_SECONDS = 15
_TIME = "%Y-%m-%dT%H:%M:%SZ"
_WIDTH, _HEIGHT, _LEFT, _BOTTOM, _TOP = 600, 220, 80, 26, 14
_MOST_BARS = 72
_CSS = """
:root { color-scheme: light dark;
  --ink: #1c2227; --soft: #5b666d; --ground: #fff; --line: #d8dee2; --bar: #0077bb; --warn: #b3470a }
@media (prefers-color-scheme: dark) {
  :root { --ink: #e4e8ea; --soft: #9aa7ae; --ground: #14181b; --line: #333c42; --bar: #4aa8e0; --warn: #ffa366 }
}
* { box-sizing: border-box }
body { margin: 0 auto; max-width: 60rem; padding: 1.5rem 1rem 3rem; background: var(--ground); color: var(--ink);
  font: 16px/1.5 system-ui, "DejaVu Sans", sans-serif; overflow-wrap: anywhere }
h1 { font-size: 1.5rem; line-height: 1.25; margin: 0 } h2 { font-size: 1.1rem; margin: 2.2rem 0 .6rem }
p { margin: .4rem 0; max-width: 44rem } .soft { color: var(--soft) } .warn { color: var(--warn); font-weight: 600 }
dl.figures { display: grid; grid-template-columns: repeat(auto-fit, minmax(8rem, 1fr)); gap: 1rem; margin: 1.5rem 0 0 }
dl.figures div { border-top: 2px solid var(--line); padding-top: .4rem }
dl.figures dt { color: var(--soft); font-size: .875rem }
dl.figures dd { margin: 0; font-size: 1.6rem; font-variant-numeric: tabular-nums }
svg { display: block; width: 100%; height: auto; max-width: 44rem } svg text { fill: var(--soft); font-size: 13px }
svg .bar { fill: var(--bar) } svg .grid { stroke: var(--line) }
.scroll { overflow-x: auto; overflow-wrap: normal } table { border-collapse: collapse; font-variant-numeric: tabular-nums }
th, td { text-align: left; padding: .3rem 1.2rem .3rem 0; border-bottom: 1px solid var(--line); vertical-align: top }
th { color: var(--soft); font-weight: 500 } td.number, th.number { text-align: right }
@media (max-width: 30rem) { svg text { font-size: 20px } }
"""


def status_page(schema: Schema, counts: dict[str, Any]) -> str:
    """Render the status page, which loads itself again while the collection takes reports.

    Args:
        schema: the schema of the collection.
        counts: what ``/counts`` answers.
    """
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
    return _page(f"Collection {schema.collection}", body, again)


def docs_page(described: dict[str, Any]) -> str:
    """Render the calls of a server from its OpenAPI description."""
    parts = [f"<h1>{escape(described['info']['title'])}</h1>"]
    parts += [f"<p>{escape(line)}</p>" for line in described["info"]["description"].splitlines()]
    parts.append('<p class="soft">The same for programs: openapi.json</p>')
    for path, calls in described["paths"].items():
        for method, call in calls.items():
            parts.append(
                f"<h2>{method.upper()} {escape(path)} <span class='soft'>{escape(call['tags'][0])}</span></h2>"
            )
            parts += [f"<p>{escape(text)}</p>" for text in call["description"].split("\n\n")]
            if "requestBody" in call:
                parts.append(f"<p class='soft'>Body: {escape(', '.join(call['requestBody']['content']))}</p>")
            rows = [(status, answer["description"]) for status, answer in call["responses"].items()]
            parts.append(_table(("status", "meaning"), rows))
    return _page(described["info"]["title"], "\n".join(parts))


def _page(title: str, body: str, head: str = "") -> str:
    return f"""<!doctype html>
<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width, initial-scale=1">{head}
<title>{escape(title)}</title><style>{_CSS}</style></head>
<body><main>
{body}
</main></body></html>
"""


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
    what = {"report": "another report", "key": "another key"}
    rows = [(one["user"], what[one["kind"]], f"{one['count']:,}", one["last"]) for one in alerts]
    return _table(("user", "refused", "times", "last"), rows)


def _table(columns: tuple[str, ...], rows: Sequence[tuple[str, ...]]) -> str:
    head = "".join(f"<th>{escape(name)}</th>" for name in columns)
    body = "".join("<tr>" + "".join(f"<td>{escape(cell)}</td>" for cell in row) + "</tr>" for row in rows)
    return f'<div class="scroll"><table><tr>{head}</tr>{body}</table></div>'


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
