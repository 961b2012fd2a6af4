"""The scores of a run beside its controls, for its page. They read true labels: outside the guarantee."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from sfumato.catalog import METHODS
from sfumato.evaluation._controls import titles
from sfumato.evaluation._verdict import floor_words, kept_words, verdict_words
from sfumato.report._detail_figures import MODELS
from sfumato.report._page import Facts, Part, Section, Table
from sfumato.report._run_figures import THIS_RUN, price_figure
from sfumato.report._words import capital, interval, percent
from sfumato.scoring._scores import ERRORS, TITLES, Summary

PAIRED = (
    "Differences are taken node by node, between models that answer the same test nodes. The test is McNemar's (mid-p) for "
    "accuracy if there is one split, and the paired t-test for log-loss and for the areas of AUC (DeLong), with degrees of "
    "freedom by class (Welch). Brackets around differences are intervals that hold together at 95 % (Bonferroni), and the "
    "verdict is what they say; those around shares are 95 % intervals, each for itself (Fieller). The ceiling is the one with "
    "the least log-loss on validation nodes (of numbers: squared error)."
)
"""How a verdict was reached, for readers of a page."""


def price_sections(metrics: Mapping[str, Any] | None, method: str) -> tuple[Section, ...]:
    """Return the section with floor, run and ceiling as bars, which is what a reader wants to know first."""
    found = [] if metrics is None else _scores(metrics, method)
    if metrics is None or len(found) < 2:
        return ()
    parts: list[Part] = ["What this run reaches beside its controls.", *(metrics.get("unused") or [])]
    parts += [price_figure(found, _score(metrics)), *_ranking(metrics, method), *_judged(metrics)]
    return (Section("price", "The price of privacy", tuple(parts), kind="outside"),)


def _ranking(metrics: Mapping[str, Any], method: str) -> list[Part]:
    """The areas under the ROC curve, which see classes that accuracy hardly sees; none of what has no classes."""
    controls = metrics.get("control_scores") or {}
    if "average_precision" not in metrics.get("test_scores", {}) or not controls:
        return []
    areas = {name: controls[name]["roc_auc"] for name in controls}
    found = _scores({**metrics, **areas, "score": "roc_auc"}, method)
    return [price_figure(found, "Test ROC-AUC", "figure-price-ranking")]


def _judged(metrics: Mapping[str, Any]) -> list[Part]:
    """What paired comparisons say; of runs from before they were made, and of links, the means alone."""
    said, gain = metrics.get("verdict"), metrics.get("graph_gain_recovered")
    if said is not None:
        words = (verdict_words(said), kept_words(said), *floor_words(metrics), PAIRED)
        return [text for text in words if text]
    if gain is None:
        return []
    if gain < 0:
        return ["The mean is below that of the floor. Nothing here says whether that is chance."]
    if not _apart(metrics):
        return ["The intervals of floor and ceiling do not lie apart, so no share of their difference is told."]
    on_links = metrics.get("task") == "link" and "epsilon_x" in metrics["privacy"]
    added = "features add" if on_links else "the graph adds"  # links are public there, and features are not
    return [f"By the means, {100 * gain:.0f} % of what {added} without privacy is kept."]


def _apart(metrics: Mapping[str, Any]) -> bool:
    """Whether the interval of the ceiling lies above that of the floor: else a share of their difference is one of noise."""
    high, low = (metrics[name][end] for name, end in (("floor", "high"), ("ceiling", "low")))
    return high is not None and low is not None and low > high


def scores_section(metrics: Mapping[str, Any], method: str) -> Section:
    """Return the table of scores, and what the run took."""
    found = _scores(metrics, method)
    score = "AUC" if metrics.get("task") == "link" else TITLES[metrics.get("score", "accuracy")]
    rows = tuple((title, percent(one.mean), interval(one.low, one.high), str(one.seeds)) for title, one in found)
    columns = (f"{score[:1].upper()}{score[1:]} of", "Percent", "95 % interval", "Seeds")
    table = Table("metrics", f"{_score(metrics)} beside its controls; only the fit of seed 0 is saved", columns, rows)
    table = table.without_empty()
    facts: list[tuple[str, str]] = []
    parts: list[Part] = [table]
    if metrics.get("control_scores") and metrics.get("without_information"):
        parts.append(_all_scores(metrics))
    else:
        others = metrics.get("test_scores") or {"macro_f1": metrics.get("test_macro_f1")}
        facts += [
            (f"{TITLES[name]} of this run", _shown(name, one["mean"]))
            for name, one in others.items()
            if one and name != metrics.get("score")
        ]
    if metrics.get("graph_gain_recovered") is not None and not metrics.get("verdict") and _apart(metrics):
        gain = f"{100 * metrics['graph_gain_recovered']:.0f} % = (this run - floor) / (ceiling - floor)"
        facts.append(("Gain kept" if metrics.get("task") == "link" else "Graph gain kept", gain))
    seconds = metrics.get("seconds") or {}
    facts += [(f"Seconds, {name}", f"{value:.2f}") for name, value in seconds.items() if value is not None]
    if metrics.get("peak_mb"):
        facts.append(("Peak memory", f"{metrics['peak_mb']:,.0f} MiB"))
    return Section("scores", "Scores and cost", (*parts, Facts(tuple(facts))))


def _all_scores(metrics: Mapping[str, Any]) -> Table:
    """Every score of one answer for all, of the controls and of the run."""
    found: dict[str, Mapping[str, Any]] = {"One answer for all": metrics["without_information"]}
    models = {**metrics["control_scores"], "run": metrics["test_scores"]}
    for name, title in MODELS.items():
        if name in models:
            found[capital(title)] = {score: one["mean"] for score, one in models[name].items()}
    rows = tuple(
        (capital(TITLES[score]), *(_shown(score, one[score]) for one in found.values()))
        for score in metrics["test_scores"]
    )
    return Table("all-scores", "All scores, means over seeds", ("Score", *found), rows)


def _shown(name: str, value: float) -> str:
    return f"{value:.4g}" if name in ERRORS else f"{percent(value)} %"


def _score(metrics: Mapping[str, Any]) -> str:
    if metrics.get("task") == "link":
        day = metrics.get("held_out")
        return f"AUC of new links from {day} on" if isinstance(day, str) else "AUC of held-out links"
    return f"Test {TITLES[metrics.get('score', 'accuracy')]}"


def _of_pairs(metrics: Mapping[str, Any], name: str) -> str:
    title = next((title for title in metrics.get("controls") or () if title.startswith(name)), name)
    return title[:1].upper() + title[1:]


def _scores(metrics: Mapping[str, Any], method: str) -> list[tuple[str, Summary]]:
    """The test scores (of links: the AUC) of controls and run, by which they are compared; the run is second to last."""
    if metrics.get("task") == "link":
        found = (
            (_of_pairs(metrics, "floor"), "floor"),
            (THIS_RUN, "test_auc"),
            (_of_pairs(metrics, "ceiling"), "ceiling"),
        )
        return [(title, Summary(**metrics[key])) for title, key in found if metrics.get(key)]
    beside = titles(method, metrics).items() if method in METHODS else ()
    names = [(key, title[:1].upper() + title[1:]) for key, title in beside]
    names.insert(-1 if names else 0, ("test", THIS_RUN))
    own = metrics["test_scores"][metrics["score"]] if "test_scores" in metrics else metrics.get("test_accuracy")
    values = {**metrics, "test": own}
    return [(title, Summary(**values[key])) for key, title in names if values.get(key)]
