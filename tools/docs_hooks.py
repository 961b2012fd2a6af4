"""What the documentation site needs beside its pages: stars in the navigation, and links that leave docs/."""

from __future__ import annotations

import html
import itertools
import posixpath
import re
import sys
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent))
from docs_reference import REFERENCE, reference_page
from docs_results import DATA, experiments, made, read_recorded

WORKER = "js/iframe-worker.js"  # its name tells the offline plugin that none has to be fetched
_FENCE = re.compile(r"(^```.*?^```\n?)", re.MULTILINE | re.DOTALL)
_LINK = re.compile(r"\[([^\]]*)\]\(([^)\s]+)\)")
_TABLE = re.compile(r"<table>.*?</table>", re.DOTALL)
_CELL = re.compile(r"<(t[hd])([^>]*)>(.*?)</\1>", re.DOTALL)
_CODE = re.compile(r"(<code[^>]*>)(.*?)(</code>)", re.DOTALL)
_OPTION = re.compile(r"(?<![\w-])--[a-z][\w-]*")
_WORDY, _LONG = 40, 24  # characters of a cell, and of code in it, above which a phone shows one cell below the other
_BEHIND = ("decisions/", "results/")  # what a reader who searches wants less often than a guide


def on_config(config: Any) -> Any:
    """Write out the stars of the navigation."""
    config["nav"] = written_out(config["nav"], Path(config["docs_dir"]))
    return config


def on_files(files: Any, *, config: Any) -> Any:
    """Add the pages and pictures that are made of data and of the code."""
    from mkdocs.structure.files import File

    for path, text in generated().items():
        if files.get_file_from_path(path) is None:
            files.append(File.generated(config, path, content=text))
    return files


def generated() -> dict[str, str]:
    """The texts of the files that the site holds and the repository does not, by their path under docs/."""
    reference = {_reference(page): reference_page(*what) for page, what in REFERENCE.items()}
    results = {f"results/{name}": text for found in experiments() for name, text in made(*found).items()}
    return {**reference, **results, WORKER: Path(__file__).with_name("docs_worker.js").read_text()}


def generated_pages() -> list[str]:
    """The paths of the pages among them."""
    return [*map(_reference, REFERENCE), *(f"results/{name}.md" for name in read_recorded(DATA))]


def _reference(page: str) -> str:
    return f"reference/{page}.md"


def on_page_markdown(markdown: str, *, page: Any, **_: Any) -> str:
    """Show links to other files of the repository as plain code: on disk they work, the site holds no such pages."""
    if page.file.src_uri.startswith(_BEHIND):
        page.meta["search"] = {"boost": 0.3}
    folder = posixpath.dirname(page.file.src_uri)
    parts = _FENCE.split(markdown)
    return "".join(part if part.startswith("```") else without_outside_links(part, folder) for part in parts)


def on_page_content(html: str, **_: Any) -> str:
    """Mark what the style sheet needs to know: options, and the tables of words, whose cells a phone shows in one column."""
    html = _CODE.sub(lambda match: with_whole_options(*match.groups()), html)
    return _TABLE.sub(lambda match: with_labels(match[0]), html)


def with_whole_options(start: str, text: str, end: str) -> str:
    """Mark the options in code, which no line may break after their hyphens, and long commands, which may break at spaces."""
    bare = re.sub(r"&\w+;", "&", re.sub(r"<[^>]*>", "", text))
    if start == "<code>" and len(bare) > _LONG and " " in bare:
        start = '<code class="long">'
    return start + _OPTION.sub(r'<span class="option">\g<0></span>', text) + end


def with_labels(table: str) -> str:
    """Write the heading of its column into each cell of a table of words; a table of numbers stays as it is."""
    cells = [(kind, re.sub(r"<[^>]*>", "", text).strip()) for kind, _, text in _CELL.findall(table)]
    heads = [text for kind, text in cells if kind == "th"]
    code = [re.sub(r"<[^>]*>|&\w+(?=;)", "", one) for _, one, _ in _CODE.findall(table)]
    if max(map(len, code), default=0) <= _LONG and (len(heads) < 3 or max(len(text) for _, text in cells) <= _WORDY):
        return table
    numbers = itertools.count()

    def labeled(match: re.Match[str]) -> str:
        kind, attributes, text = match.groups()
        if kind == "th":
            return match[0]
        return f'<td{attributes} data-label="{heads[next(numbers) % len(heads)]}">{text.strip()}</td>'

    return _CELL.sub(labeled, table).replace("<table>", "<table data-words>", 1)


def written_out(nav: list[Any], docs: Path) -> list[Any]:
    """Replace names with a star by the pages that they fit: an index, then the others in order of their names."""
    items: list[Any] = []
    for item in nav:
        title, value = next(iter(item.items())) if isinstance(item, dict) else (None, item)
        if isinstance(value, list):
            value = written_out(value, docs)
        elif "*" in value:
            found = {path.relative_to(docs) for path in docs.glob(value)}
            found |= {Path(path) for path in generated_pages() if Path(path).match(value)}
            value = [path.as_posix() for path in sorted(found, key=lambda path: (path.stem != "index", path))]
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
