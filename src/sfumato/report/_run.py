"""The page about one training run: its certificate in words, what it released, and, marked as outside, its scores."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from numpy.typing import NDArray

from sfumato.catalog import NOT_ON_A_GRAPH
from sfumato.errors import DataError, InputError
from sfumato.experiments._results import FILE
from sfumato.record import _collected as collected
from sfumato.record._certificate import note_words, price_words, promise_words
from sfumato.record._release_folder import read_release
from sfumato.record._shown import NO_PRIVACY, NO_RELEASE, origin_words
from sfumato.report._evidence import attacks_section, audit_section
from sfumato.report._html import to_html
from sfumato.report._page import Code, Facts, Items, Page, Part, Section, Table
from sfumato.report._run_detail import detail_sections
from sfumato.report._run_figures import curves_figure, projections, quantity
from sfumato.report._run_scores import price_sections, scores_section
from sfumato.report._statistics import statistics_sections
from sfumato.report._words import ACCOUNTING, claim_words, event_words, interval, percent, plain, settings_words

if TYPE_CHECKING:
    import numpy as np

    from sfumato.statistics._answers import Described

_FROM_TRUTH = (
    "What follows reads true labels or other protected data. It helps whoever holds the data to judge the run; it is outside the "
    "guarantee and must not leave with the release."
)
_CLOSING = "This page holds scores that read true labels: it is evaluation, and no part of release/."
_OF_RELEASE = "All numbers on this page follow from release/ alone."
_FROM_REPORTS = (
    "This run learned from a collection. What follows is computed from reports and public facts alone, so it costs users nothing "
    "more."
)

_HELD_OUT = (
    " It is of cells that were held out: how often the class of a user is the one predicted for a random user of the cell. The "
    "interval is of the noise of both servers."
)


@dataclass(frozen=True)
class Run:
    """A run folder as read, and what could be derived from its graph.

    ``metrics``, ``curves``, ``validation`` (of a run on a collection the accuracy that reports alone tell) and ``audit`` are
    those in ``evaluation/``. ``predicted``, a class number for every node, and ``detail``, of a run whose metrics have none,
    are None if the graph cannot be read. ``described`` are the answers of a run of statistics.
    """

    folder: str
    certificate: Mapping[str, Any]
    graph: str
    classes: tuple[str, ...]
    released: Mapping[str, NDArray[Any]]
    signed: bool
    metrics: Mapping[str, Any] | None = None
    curves: Mapping[str, Any] | None = None
    validation: Mapping[str, Any] | None = None
    predicted: NDArray[np.int64] | None = None
    detail: Mapping[str, Any] | None = None
    missing: str = ""
    audit: Mapping[str, Any] | None = None
    attacks: tuple[Mapping[str, Any], ...] = ()
    described: Described | None = None

    @property
    def private(self) -> bool:
        return self.certificate["claim"]["epsilon"] is not None

    def claimed(self) -> Mapping[str, Any]:
        """Return the certificate of a run that claims something."""
        if not self.private:
            raise InputError(
                f"Expected a run with a privacy unit, got {self.folder!r} of unit none: without a guarantee nothing of it may be "
                "published. Train with --unit."
            )
        return self.certificate

    @property
    def predictions_are_public(self) -> bool:
        """Whether the certificate shows the predictions of all nodes to anyone."""
        return any(one.startswith("predictions") for one in self.certificate["who_may_see"].get("anyone", ()))


def read_run(folder: str | Path) -> Run:
    """Read a run folder without its graph. The folder ``evaluation/`` may be absent.

    Raises:
        DataError: the folder is not a finished run, was altered, or its evaluation is not JSON.
    """
    folder = Path(folder)
    if (folder / FILE).exists() or folder.name == FILE:
        raise DataError(
            f"Expected {str(folder)!r} to be a run folder, got results of an experiment. Write their page with "
            "`sfumato experiment report`."
        )
    if not any((one / "manifest.json").is_file() for one in (folder, folder / "release")):
        raise DataError(
            f"Expected {str(folder)!r} to be a finished run folder, but it has no release/manifest.json. Train again, or "
            "check the path."
        )
    stored = read_release(folder, others=NOT_ON_A_GRAPH)
    graph = stored.spec["graph"]
    return Run(
        str(folder),
        stored.certificate,
        graph["name"],
        tuple(graph["classes"]),
        stored.released,
        (folder / "release" / "signature.json").exists(),
        _evaluated(folder / "evaluation" / "metrics.json"),
        _evaluated(folder / "evaluation" / "curves.json"),
        _evaluated(folder / "evaluation" / "validation.json"),
        audit=_evaluated(folder / "evaluation" / "audit.json"),
        attacks=tuple(
            found for path in sorted(folder.glob("evaluation/attacks/*.json")) if (found := _evaluated(path))
        ),
    )


def _evaluated(path: Path) -> dict[str, Any] | None:
    if not path.exists():
        return None
    try:
        values = json.loads(path.read_text(encoding="utf-8"))
    except ValueError as error:
        raise DataError(
            f"Expected {str(path)!r} to be JSON, got {error}. Remove evaluation/ to report without it."
        ) from error
    if not isinstance(values, dict):
        raise DataError(f"Expected {str(path)!r} to be a JSON object. Remove evaluation/ to report without it.")
    return values


def run_page(run: Run) -> str:
    """Return an HTML page about a run in a single file. Scores are under a separate heading, outside the guarantee."""
    values = run.certificate
    lead = f"Protects {values['protects']}: {claim_words(values['claim'])}." if run.private else NO_PRIVACY
    tried = [audit_section(run.audit)] if run.audit else []
    tried += [attacks_section(run.attacks)] if run.attacks else []
    if run.described is not None:
        sections = (guarantee_section(run), *statistics_sections(run.described), released_section(run), *tried)
        closing = _OF_RELEASE if run.private else _CLOSING
        return to_html(Page(f"{values['method']} of {run.graph}", lead, sections, closing))
    sections = (
        *price_sections(run.metrics, values["method"]),
        guarantee_section(run),
        released_section(run),
        *_pictures(run),
        _evaluation(run),
        *tried,
    )
    closing = _CLOSING if run.validation is None else "This page is evaluation, and no part of release/."
    return to_html(Page(f"{values['method']} on {run.graph}", lead, sections, closing))


def guarantee_section(run: Run) -> Section:
    """Return the section with the claim, its assumptions and its limits, in the words of the certificate."""
    values = run.certificate
    if not run.private:
        about = (
            ("Method", values["method"]),
            ("Settings", settings_words(values["settings"])),
            ("Version", values["version"]),
        )
        return Section("guarantee", "The guarantee", (NO_PRIVACY, Facts(about)), kind="warning")
    unit = values["unit"]
    facts = (
        ("Protects", values["protects"]),
        ("Claim", claim_words(values["claim"])),
        ("Unit", f"{unit['name']}, relation {unit['relation']}"),
        ("Trust model", values["trust_model"]),
        ("Method", f"{values['method']} ({settings_words(values['settings'])})"),
        *(("Promise", text) for text in promise_words(values)),
        *(("With arcs of others", text.partition(": ")[2]) for text in price_words(values)),
        *(
            (("Collection", collected.words(values["collection"]).partition(": ")[2]),)
            if "collection" in values
            else ()
        ),
        *(_costs(values["accounting"]) if values["releases"] else ()),
        ("Signed", "yes" if run.signed else "no: checked for consistency, not for origin"),
        ("Ledger", f"closed at {values['ledger_head']}"),
    )
    sentence = f"Protects {values['protects']}. Whoever sees the release learns at most {claim_words(values['claim'])} about it."
    known = (("Assumptions", "assumptions"), ("Limits of this run", "caveats"), ("Side channels", "side_channels"))
    lists = tuple(
        Section(key, title, (Items(tuple(values[key])),), kind="plain") for title, key in known if values.get(key)
    )
    texts = [values.get(key) for key in ("adversary", "randomness", "data_collection")]
    texts.append(values.get("composition", {}).get("covers"))
    more = Section("scope", "Scope", (Items((*(text for text in texts if text), *_builds_on(values))),))
    check = Section("check", "Check it", (Code(f"sfumato verify {run.folder}"),))
    return Section(
        "guarantee", "The guarantee", (sentence, Facts(facts), _who(values), *lists, more, check), kind="guarantee"
    )


def _costs(accounting: Mapping[str, Any]) -> tuple[tuple[str, str], ...]:
    return (
        ("Accounting", ACCOUNTING.get(accounting["method"], accounting["method"])),
        ("Sampler", f"its inexactness costs {accounting['delta_sampler']:.2g} of delta, which is included"),
    )


def _builds_on(values: Mapping[str, Any]) -> list[str]:
    runs = values.get("composition", {}).get("builds_on", ())
    found = [*map(origin_words, runs)]
    found += [
        f"Chosen among: {one['method']} with {settings_words(one['settings'])}." for one in values.get("candidates", ())
    ]
    return [*found, *note_words(values)]


def _who(values: Mapping[str, Any]) -> Table:
    shown = values["who_may_see"]
    order = [who for who in ("anyone", "the node itself", "never") if who in shown]
    rows = tuple(
        (who.capitalize(), "; ".join(shown[who])) for who in [*order, *sorted(set(shown) - set(order))] if shown[who]
    )
    return Table("who", "Who may see what", ("Who", "What"), rows, text=("What",))


def released_section(run: Run) -> Section:
    """Return the section with the releases and the public facts of a run."""
    values = run.certificate
    if not run.private:
        return Section("released", "What was released", ("Nothing: without a guarantee nothing may leave.",))
    known = {name: value for name, value in values["public_facts"].items() if value is not None}
    facts = tuple((name.replace("_", " "), plain(value)) for name, value in known.items())
    assumed = values["assumed_public"]
    public = Section(
        "public",
        "What counts as public",
        (
            Facts(facts),
            "Assumed public, and read from the data: " + "; ".join(assumed) + "."
            if assumed
            else "Nothing outside the public facts of this unit was read from the data to plan the run.",
        ),
    )
    if not values["releases"]:
        return Section("released", "What was released", (NO_RELEASE, public), kind="guarantee")
    table = Table(
        "releases",
        "Every release, in the order in which it was charged",
        ("Release", "Shape", "Visible to", "Noise"),
        tuple(
            (one["name"], _size(one["shape"]), one["visible_to"], event_words(one["event"]))
            for one in values["releases"]
        ),
        text=("Shape", "Visible to", "Noise"),
    )
    return Section("released", "What was released", (table, public), kind="guarantee")


def _size(shape: list[int | None]) -> str:
    return " x ".join("any number" if size is None else f"{size:,}" for size in shape)


def _pictures(run: Run) -> tuple[Section, ...]:
    found = quantity(run.released) if run.private else None
    if found is None:
        return ()
    name, rows = found
    colored = run.predicted if run.predictions_are_public else None
    text = f"Rows of {name}, scaled to norm 1 as the classifier reads them."
    if colored is not None:
        text += " Colours and marks are predicted classes, which anyone may see under this guarantee."
    elif run.predictions_are_public:
        text += f" Predicted classes are not shown: {run.missing or 'the graph was not read'}."
    else:
        text += " Predictions read a node's own features and are for that node alone: no classes are shown."
    return (
        Section(
            "quantities",
            "Released quantities",
            (text, *projections(name, rows, colored, run.classes)),
            kind="guarantee",
        ),
    )


def _evaluation(run: Run) -> Section:
    parts: list[Part] = [_FROM_REPORTS if run.validation else _FROM_TRUTH]
    if run.validation is not None and "validation_auc" in run.validation:
        parts.append(
            f"Validation AUC: {percent(run.validation['validation_auc'])} %, of public links that decided when to stop, against "
            "pairs without a link."
        )
    elif run.validation is not None:
        found = run.validation["validation_accuracy"]
        noise = " The noise of reports is taken out on average, so it may lie outside 0 to 100 %; the interval is cut there."
        noise += _HELD_OUT * (run.validation.get("labels") == "opened")
        parts.append(
            f"Validation accuracy: {percent(found['mean'])} % [{interval(found['low'], found['high'])}]."
            + noise * (run.validation.get("labels") != "public")
        )
    if run.metrics is not None:
        parts.append(scores_section(run.metrics, run.certificate["method"]))
    curves = curves_figure(run.curves or {})
    parts += [Section("curves", "Learning curves", (curves,))] if curves else []
    detail = (run.metrics or {}).get("detail") or run.detail
    if detail is not None:
        parts += detail_sections(detail)
    elif run.missing and (run.metrics or {}).get("task") != "link":
        parts.append(f"Confusion matrix and accuracy by degree are not shown: {run.missing}")
    if len(parts) == 1:
        parts.append("The folder holds no evaluation.")
    return Section("evaluation", "Evaluation: outside the guarantee", tuple(parts), kind="outside")
