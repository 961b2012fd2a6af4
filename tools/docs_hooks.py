"""What the documentation site needs beside its pages: stars in the navigation, and links that leave docs/."""

from __future__ import annotations

import html
import posixpath
import re
from pathlib import Path
from typing import Any

_FENCE = re.compile(r"(^```.*?^```\n?)", re.MULTILINE | re.DOTALL)
_LINK = re.compile(r"\[([^\]]*)\]\(([^)\s]+)\)")


def on_config(config: Any) -> Any:
    """Write out the stars of the navigation."""
    config["nav"] = written_out(config["nav"], Path(config["docs_dir"]))
    return config


def on_page_markdown(markdown: str, *, page: Any, **_: Any) -> str:
    """Show links to other files of the repository as plain code: on disk they work, the site holds no such pages."""
    folder = posixpath.dirname(page.file.src_uri)
    parts = _FENCE.split(markdown)
    return "".join(part if part.startswith("```") else without_outside_links(part, folder) for part in parts)


def written_out(nav: list[Any], docs: Path) -> list[Any]:
    """Replace names with a star by the pages that they fit: an index, then the others in order of their names."""
    items: list[Any] = []
    for item in nav:
        title, value = next(iter(item.items())) if isinstance(item, dict) else (None, item)
        if isinstance(value, list):
            value = written_out(value, docs)
        elif "*" in value:
            paths = sorted(docs.glob(value), key=lambda path: (path.stem != "index", path))
            value = [path.relative_to(docs).as_posix() for path in paths]
        if title is not None:
            items += [{title: value}] if value else []
        else:
            items += value if isinstance(value, list) else [value]
    return items


def without_outside_links(markdown: str, folder: str) -> str:
    """Turn each link that leaves docs/ into its text; the path in the repository is the tooltip."""

    def plain(match: re.Match[str]) -> str:
        text, target = match.groups()
        path = posixpath.normpath(posixpath.join(folder, target.partition("#")[0]))
        if re.match(r"[a-z]+:|#", target) or not path.startswith("../"):
            return match[0]
        return f'<code title="{html.escape(path[3:])}">{html.escape(text.strip("`"), quote=False)}</code>'

    return _LINK.sub(plain, markdown)
