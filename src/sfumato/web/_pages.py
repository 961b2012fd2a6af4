"""Pages of a server: each is one HTML file that loads and runs nothing."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape
from typing import Any

ONLY_OURS: dict[str, Any] = {
    "docs_url": None,
    "redoc_url": None,
    "redirect_slashes": False,
    "telemetry": {"tracing": False, "metrics": False, "logs": False},
}
"""Settings of an application that answers nothing but its own calls, and sends nothing of its requests elsewhere."""
PAGE_HEADERS = {
    "content-security-policy": "default-src 'none'; style-src 'unsafe-inline'; frame-ancestors 'none'",
    "cache-control": "no-store",
    "x-content-type-options": "nosniff",
}
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


def docs_page(described: dict[str, Any]) -> str:
    parts = [f"<h1>{escape(described['info']['title'])}</h1>"]
    parts += [f"<p>{escape(line)}</p>" for line in described["info"]["description"].splitlines()]
    parts.append('<p class="soft">The same for programs: openapi.json</p>')
    for path, calls in described["paths"].items():
        for method, call in calls.items():
            parts.append(
                f"<h2>{method.upper()} {escape(path)} <span class='soft'>{escape(', '.join(call.get('tags', ())))}</span></h2>"
            )
            parts += [f"<p>{escape(text)}</p>" for text in call["description"].split("\n\n")]
            if "requestBody" in call:
                parts.append(f"<p class='soft'>Body: {escape(', '.join(call['requestBody']['content']))}</p>")
            rows = [(status, answer["description"]) for status, answer in call["responses"].items()]
            parts.append(table(("status", "meaning"), rows))
    return page(described["info"]["title"], "\n".join(parts))


def page(title: str, body: str, head: str = "") -> str:
    """Render a page of a ``title`` and a ``body`` of HTML; ``head`` is added to its head."""
    return f"""<!doctype html>
<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width, initial-scale=1">{head}
<title>{escape(title)}</title><style>{_CSS}</style></head>
<body><main>
{body}
</main></body></html>
"""


def table(columns: tuple[str, ...], rows: Sequence[tuple[str, ...]]) -> str:
    """Render a table of texts, ``rows`` under names of ``columns``, which scrolls where the screen is narrow."""
    head = "".join(f"<th>{escape(name)}</th>" for name in columns)
    body = "".join("<tr>" + "".join(f"<td>{escape(cell)}</td>" for cell in row) + "</tr>" for row in rows)
    return f'<div class="scroll"><table><tr>{head}</tr>{body}</table></div>'
