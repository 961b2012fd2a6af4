"""Sections about audits and attacks: a claim beside lower bounds on one axis, and what an attacker gains, knowing what."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from sfumato._optional import require
from sfumato.report._drawing import PALETTE, Figure, canvas, finish, ink, legend, style, wrapped
from sfumato.report._html import to_html
from sfumato.report._page import Items, Page, Part, Section, Table
from sfumato.report._words import percent

_GRID = tuple(10 ** (-3 + place / 10) for place in range(31))
"""False positive rates of a curve, from 0.001 to 1."""
_AUDITED = (
    "Each bound says: at the stated confidence, no smaller epsilon is true of this code, whatever its documents say. A bound "
    "below the claim does not prove the claim; it shows how much of it this attack could use up.",
    "The auditor trains the method again, on data with canaries that are as bad as the unit allows. It reads what leaves, and "
    "knows all but the canary: no real attacker knows more. Weights in a run folder itself are not tested.",
)
_ATTACKED = (
    "The area under the curve (AUC) is the chance that the attack puts a random true case above a random other one: 0.5 is a "
    "guess. An average says nothing about the worst case, so the share found at 1 % false alarms stands beside it.",
    "Compare with what is known without the model, as the baseline says. Only what is above that is learned from the model.",
    "A weak attack proves nothing: a better one may come. What holds against every attack is the claim, for its unit alone. A "
    "claim for edges does not hide which nodes are alike, nor what a node's own features say.",
)


def rates(scores: Any) -> dict[str, list[float]]:
    """Return true positive rates of an attack at false positive rates from 0.001 to 1, as JSON values."""
    return {"fpr": list(_GRID), "tpr": [scores.tpr_at(min(rate, 1.0)).value for rate in _GRID]}


def audit_section(audit: Mapping[str, Any]) -> Section:
    """Return the section about an ``audit``, from its JSON values: verdict, broken promises, figure and all bounds."""
    claimed, bound = audit["claimed"], audit["epsilon_lower_bound"]
    stated = "no epsilon" if claimed is None else f"epsilon {claimed:g} at delta {audit['delta']:g}"
    if audit["flagged"]:
        verdict = "The claim is refuted."
    elif bound > 0:
        verdict = f"The claim is not refuted: the true epsilon is at least {bound:.3g}."
    else:
        verdict = "The claim is not refuted, and nothing was proved: no attack found a bound above 0."
    verdict += "".join(f" {sentence}" for sentence in limits(audit))
    parts: list[Part] = [
        f"{audit['method']} claims {stated} for {audit['unit']}. {verdict} All bounds hold together at a confidence of "
        f"{100 * audit['confidence']:g} %."
    ]
    if audit["broken"]:
        parts.append(Section("broken", "Broken promises", (Items(tuple(audit["broken"])),), kind="warning"))
    if audit["evidence"]:
        parts += [_axis(audit), _bounds(audit["evidence"])]
    return Section(
        "audit", "Audit of the claim", (*parts, Items(_AUDITED)), "warning" if audit["flagged"] else "outside"
    )


def limits(audit: Mapping[str, Any]) -> list[str]:
    """Say what an audit could not have found, from its JSON values."""
    found, reach = [], audit["reach"]
    if audit["evidence"] and reach is not None and reach < (audit["claimed"] or 0.0):
        found.append(f"With so many scores no attack can refute a claim above {reach:.3g}.")
    if audit["untested"]:
        found.append(f"No attack reads these releases: {', '.join(audit['untested'])}.")
    return found


def _bounds(evidence: Sequence[Mapping[str, Any]]) -> Table:
    rows = tuple(
        (one["name"], f"{one['epsilon_lower_bound']:.4g}", f"{one['trials']:,}", one["estimator"], one["knowledge"])
        for one in evidence
    )
    columns = ("Attack", "Lower bound on epsilon", "Scores", "Estimator", "The attacker knows")
    return Table(
        "bounds", "What each attack of the auditor proved", columns, rows, text=("Estimator", "The attacker knows")
    )


def _axis(audit: Mapping[str, Any]) -> Figure:
    """Draw every bound as a bar from 0, and the claim as a line across."""
    evidence, claimed = audit["evidence"][::-1], audit["claimed"]
    with style():
        figure, axes = canvas(1.2 + 0.55 * len(evidence))
        places = range(len(evidence))
        axes.barh(places, [one["epsilon_lower_bound"] for one in evidence], 0.5, color=PALETTE[0])
        axes.set_yticks(list(places), [wrapped(one["name"]) for one in evidence])
        axes.set_xlabel("epsilon")
        axes.set_xlim(0, 1.1 * max(claimed or 0.0, audit["epsilon_lower_bound"], 1e-3))
        if claimed is not None:
            line = axes.axvline(claimed, color=ink(), linestyle="--")
            legend(figure, [line], [f"claimed: {claimed:g}"])
        words = "; ".join(f"{one['name']}: {one['epsilon_lower_bound']:.3g}" for one in audit["evidence"])
        stated = "none" if claimed is None else f"{claimed:g}"
        return finish(figure, "audit-axis", "Certified lower bounds beside the claim", f"Claim: {stated}. {words}.")


def attacks_section(attacks: Sequence[Mapping[str, Any]]) -> Section:
    """Return the section about attacks, from their JSON values with the curve of :func:`rates`."""
    rows = tuple(
        (
            one["attack"],
            f"{one['auc']:.3f} ({one['auc_low']:.3f} to {one['auc_high']:.3f})",
            f"{one['baseline']:.3f}",
            percent(one["tpr_at_1pct_fpr"]),
            percent(one["tpr_at_0.1pct_fpr"]),
        )
        for one in attacks
    )
    columns = ("Attack", "AUC (95 %)", "AUC without the model", "Found at 1 % FPR, %", "At 0.1 % FPR, %")
    table = Table("attacked", "What each attack found", columns, rows)
    parts: list[Part] = [Items(tuple(map(gain, attacks))), curves_figure(attacks, "attack-curves"), table]
    also = tuple(
        (one["attack"], name.replace("_", " "), f"{value:.4g}")
        for one in attacks
        for name, value in one["measures"].items()
    )
    if also:
        parts.append(Table("measures", "What was measured as well", ("Attack", "Measure", "Value"), also, ("Measure",)))
    return Section("attacks", "Attacks on the model", (*parts, Items(_ATTACKED)), kind="outside")


def gain(one: Mapping[str, Any]) -> str:
    """Say in a sentence what the attacker gains, from the JSON values of one attack."""
    who = f"An attacker who knows {one['knowledge']} infers {one['target']}"
    figures = f"(AUC {one['auc']:.3f} against {one['baseline']:.3f} of {one['baseline_name']})"
    more = " This certificate shows predictions to each node alone: this attacker has more." if one["withheld"] else ""
    if one["auc_low"] > max(one["baseline_high"], 0.5):
        return f"{who}: better than without the model {figures}.{more}"
    if one["auc_high"] < one["baseline_low"]:
        return f"{who}: worse than without the model {figures}.{more}"
    return f"{who}: about as well as without the model {figures}.{more}"


def curves_figure(attacks: Sequence[Mapping[str, Any]], name: str) -> Figure:
    """Draw true against false positive rates on logarithmic axes, from JSON values with curves; ``name`` is its id."""
    with style():
        figure, axes = canvas(3.4 + 0.25 * len(attacks))
        handles = [axes.plot(_GRID, _GRID, color=ink(), linestyle=":")[0]]
        for place, one in enumerate(attacks):
            points = [(f, t) for f, t in zip(one["curve"]["fpr"], one["curve"]["tpr"], strict=True) if t > 0]
            dashes = ("-", "--", "-.")[place // len(PALETTE) % 3]
            drawn = axes.plot(*zip(*points, strict=True), color=PALETTE[place % len(PALETTE)], linestyle=dashes)
            handles += drawn
        axes.set(xscale="log", yscale="log", xlabel="false positive rate", ylabel="true positive rate")
        axes.set(xlim=(_GRID[0], 1.0), ylim=(_GRID[0], 1.05))
        axes.minorticks_off()
        axes.xaxis.set_major_formatter(require("matplotlib.ticker").FormatStrFormatter("%g"))
        axes.yaxis.set_major_formatter(require("matplotlib.ticker").FormatStrFormatter("%g"))
        legend(figure, handles, ["guessing", *(one["attack"] for one in attacks)])
        words = "; ".join(f"{one['attack']}: AUC {one['auc']:.3f}" for one in attacks)
        return finish(figure, name, "True against false positives of each attack", f"{words}.")


def audit_page(audit: Mapping[str, Any], title: str) -> str:
    lead = f"Lower bounds on epsilon that attacks prove, beside the claim for {audit['unit']}."
    return to_html(Page(f"Audit of {title}", lead, (audit_section(audit),)))
