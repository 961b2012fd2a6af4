"""Certificates, runs of a specification and rows of results, made of plain objects."""

import re
from html.parser import HTMLParser
from types import SimpleNamespace
from xml.etree import ElementTree

from sfumato.privacy.events import GaussianEvent
from sfumato.record._certificate import Statement, certify
from sfumato.record._deployment import ASKED
from sfumato.record.ledger import Ledger, Release
from sfumato.report._run import Run

ACCURACY = {"GAP edge": 0.7, "GAP node": 0.6, "MLP edge": 0.5, "MLP node": 0.4, "SAGE": 0.9}
ROW = {
    "status": "done",
    "reason": None,
    "profile": "quick",
    "spec_hash": "c0ffee" * 8,
    "version": "0.1.0",
    "versions": {"python": "3.11"},
    "device": "cpu",
    "seconds": {"train": 2.0, "total": 3.0},
    "peak_mb": 500.0,
}
INLINE = "data:image/png;base64,"  # a picture inside the page
GAUSSIAN = (GaussianEvent(5.5),)
HOSTILE = "</title><script>alert(1)</script> & $x_1$ | `a` \x00 \"q\" <img src='http://example.org/x'>"


def certificate(unit="edge", epsilon=1.0, events=GAUSSIAN, own=()):
    """The fields of a certificate that pages read."""
    return {
        "method": "gap",
        "version": "0.1.0",
        "settings": {"num_hops": None, "width": 16},
        "unit": {"name": unit, "relation": "add-remove"},
        "protects": f"any one {unit}",
        "trust_model": "trusted curator",
        "claim": {"epsilon": epsilon, "delta": None if epsilon is None else 1e-6},
        "releases": [
            {"name": f"aggregate/{i}", "event": event.to_dict(), "shape": [60, 4], "visible_to": "anyone"}
            for i, event in enumerate(events, 1)
        ],
        "accounting": {"method": "gaussian" if epsilon else "none", "delta_sampler": 1e-28},
        "public_facts": {"num_nodes": 60, "max_degree": None},
        "assumed_public": ["num_features"],
        "who_may_see": {
            "anyone": ["noisy aggregates", *([] if own else ["predictions for all nodes"])],
            "never": ["sums before noise"],
            "the node itself": list(own),
        },
        "assumptions": ["The key stays secret."],
        "caveats": [],
        "ledger_head": "ab" * 32,
    }


def make_run(label, unit, **more):
    """One run of a specification."""
    usual = {"role": "method", "epsilons": (), "vary": None, "values": (), "first_seed": 0, "settings": ()}
    return SimpleNamespace(label=label, method="gap", unit=unit, delta=1e-6, **usual | more)


def make_rows(spec, accuracy, seeds=3):
    """A finished row for each run, budget, value and seed; ``accuracy(run, epsilon, at)`` is its mean."""
    rows = []
    for run in spec.runs:
        for at in run.values or (None,):
            for epsilon in run.epsilons or (None,):
                for seed in range(run.first_seed, run.first_seed + seeds):
                    cert = None if run.unit == "none" else certificate(run.unit, epsilon or 0.0)
                    scores = {
                        "accuracy": accuracy(run, epsilon, at) + 0.01 * (seed - run.first_seed - 1),
                        "macro_f1": 0.4,
                    }
                    where = {"label": run.label, "epsilon": epsilon, "at": at, "seed": seed}
                    rows.append({**ROW, **where, "certificate": cert, "metrics": scores})
    return rows


class Outline(HTMLParser):
    """What a page is made of: its landmarks, heading levels, ids, and everything it could load."""

    def __init__(self, page):
        super().__init__()
        self.tags, self.levels, self.ids, self.links, self.loads = [], [], [], [], []
        self.feed(page)

    def handle_starttag(self, tag, attrs):
        """Note a tag and its attributes."""
        values = dict(attrs)
        self.tags.append(tag)
        self.levels += [int(tag[1])] if tag in ("h1", "h2", "h3", "h4") else []
        self.ids += [values["id"]] if "id" in values else []
        self.links += [values["href"]] if "href" in values and tag != "image" else []
        self.loads += [values[name] for name in ("src", "srcset", "data", "action", "poster") if name in values]
        self.loads += [values.get("href", "")] * (tag == "image" and not values.get("href", "").startswith(INLINE))


def assert_sound(page):
    """Well-formed, self-contained, with landmarks, headings in order, and every figure and table named."""
    root = ElementTree.fromstring(page)
    outline = Outline(page)
    assert not outline.loads
    assert not {"script", "iframe", "object", "embed", "link", "img"} & set(outline.tags)
    assert all(link.startswith("#") and link[1:] in outline.ids for link in outline.links), outline.links
    assert not re.search(r"url\((?!#)|@import", page)
    assert len(outline.ids) == len(set(outline.ids))
    assert all(outline.tags.count(tag) == 1 for tag in ("header", "main", "nav", "footer", "h1"))
    steps = zip([0, *outline.levels], outline.levels, strict=False)
    assert all(later - earlier <= 1 for earlier, later in steps), outline.levels
    for table in root.iter("table"):
        assert "".join(table.find("caption").itertext())
        assert all(cell.get("scope") for cell in table.iter("th"))
        widths = {len(row) for row in table.iter("tr")}
        assert len(widths) == 1, widths
    for region in root.iter("div"):
        assert region.get("class") != "scroll" or (region.get("tabindex"), region.get("role")) == ("0", "region")
    svg = "{http://www.w3.org/2000/svg}"
    for figure in root.iter(f"{svg}svg"):
        assert figure.get("role") == "img"
        assert figure.find(f"{svg}title").text
        assert re.search(r"\d", figure.find(f"{svg}desc").text)
    return root


def claimed_run(unit, events=GAUSSIAN, *, record=None, signed=False, **stated):
    """A run with the whole certificate that the library writes for a unit."""
    releases = [Release(f"aggregate/{i}", event, (60, 4), 8) for i, event in enumerate(events, 1)]
    delta = 0.0 if unit.trust == "link" else 1e-6
    plan = {"method": "gap", "claim": {"epsilon": 1.0, "delta": delta}, "delta_sampler": 1e-28}
    facts = {"num_nodes": 60, "num_train": 45, "num_features": 4, "num_classes": 3, "directed": False,
             "max_degree": None, "mean_degree": None}  # fmt: skip
    shown = unit.audience(["noisy aggregates", "weights"], never=["sums before noise"])
    settings = {"num_hops": None, "width": 16}
    statement = Statement(
        Ledger(plan, releases).charge_all(), "0.1.0", settings, unit, {"epsilon": 1.0, "delta": delta}, "gaussian", facts,
        ("num_features",), shown, deployment=record, **stated,
    )  # fmt: skip
    return Run("runs/first", certify(statement).values, "campus", ("a", "b"), {}, signed)


RECORD = {
    **dict.fromkeys(ASKED, "in words"),
    "curator_type": "Nonprofit",
    "sector": "Education",
    "product": "Dorm groups",
    "curator": "A University",
    "contact": "privacy@university.example",
    "publication_date": "2026-12-01",
    "flavor": "Approximate DP",
}
