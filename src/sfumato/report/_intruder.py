"""The record of a motivated intruder: which attacks were run on a release, sorted by what regulators ask, and what they found."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from sfumato.privacy.units import unit_from_dict
from sfumato.report._everyday import everyday
from sfumato.report._evidence import limits
from sfumato.report._page import Blank, Items, Part, Section
from sfumato.report._person import NOT_PROTECTED, person_of

if TYPE_CHECKING:
    from sfumato.report._run import Run


@dataclass(frozen=True)
class Risk:
    """One of the three questions; ``attacks`` are those that test it, and ``secret`` the parts of the data that it is about."""

    key: str
    title: str
    asked: str
    attackers: str
    attacks: tuple[str, ...]
    secret: tuple[str, ...]
    beyond: str = ""


RISKS = (
    Risk(
        "singling-out",
        "Singling out",
        "Can somebody tell one person apart from all others?",
        "who know a person and want to know whether this person's data were used",
        ("membership-lira", "membership-rmia", "membership", "membership-confidence"),
        ("node_ids", "roles"),
    ),
    Risk(
        "linkability",
        "Linkability",
        "Can somebody find out which data belong together, such as those of two people who are linked?",
        "who want to know who is linked to whom",
        ("links", "links-influence", "graph"),
        ("arcs",),
        "No attack here joins the release with other tables about the same people.",
    ),
    Risk(
        "inference",
        "Inference",
        "Can somebody conclude something about a person that was not told?",
        "who want to know a hidden property of a person, or how many links a person has",
        ("attributes", "degree"),
        ("features", "labels"),
    ),
)
"""The three questions of the Article 29 Working Party, which are also the indicators of the Information Commissioner's Office."""
_WHO = (
    "A motivated intruder is somebody without special rights who wants to learn something about a person. The attackers in this "
    "record are stronger: each line says what they know. They are scored against the real data, so this record is not covered by "
    "the limit: it is for those who supervise, and not for publication. A 95 % interval says how far chance may have moved a "
    "number: about 95 of 100 such intervals hold the true one."
)
_WEAK = (
    "An attack that fails proves little: a better one may come. What holds against every attack is the limit (answer 5), and it "
    "holds for what is protected alone (answer 1). An attack can succeed within the limit: people who are linked are often "
    "alike, and what counts as public tells a lot."
)


def helped(one: Mapping[str, Any]) -> bool:
    """Return whether an attacker did better with what was published, beyond chance, from the JSON values of one attack."""
    return bool(one["auc_low"] > max(one["baseline_high"], 0.5))


def tested(run: Run) -> tuple[str, ...]:
    """Return in a sentence or two how a run was tested; a blank if it was not."""
    said = _audited(run.audit) if run.audit else ()
    if not run.attacks:
        private = RISKS[2] if _links_are_public(run) else RISKS[1]
        risk = RISKS[0] if _without_links(run) else private
        command = f"attack {risk.attacks[0]}" if _readable(run) else "audit"
        if said and _readable(run):
            return (*said, "Not tried: any attack on the release itself.")
        return said or (Blank(f"Not tested yet. The owner runs: sfumato {command} {run.folder}"),)
    number, found = len(run.attacks), sum(map(helped, run.attacks))
    if number == 1:
        result = "better than without it" if found else "no better than without it, but for chance"
        told = f"1 attack was run on the release: with the release the attacker guessed {result}."
    else:
        who = f"{found or 'none'} of the attackers"
        told = f"{number} attacks were run on the release: with it {who} guessed better than without it, by more than chance."
    noun = person_of(run.certificate).noun
    allowed = (
        f" That can happen within the limit, which is about one {noun} at a time; what counts as public tells a lot."
    )
    return (f"{told}{allowed * bool(found)} The record of the motivated intruder tells each.", *_aimed(run), *said)


_AIMS = {"degree": ("arcs",)}
"""The parts of the data that single attacks want to know; others want those of their question."""


def _aimed(run: Run) -> tuple[str, ...]:
    """Say which attackers wanted to know something protected, which did not, and which questions no attack tried."""
    public = unit_from_dict(dict(run.certificate["unit"])).public
    known = {one.key: one for one in RISKS}
    wanted: dict[bool, list[str]] = {True: [], False: []}
    for one in run.attacks:
        aims = _AIMS.get(one["attack"], known[risk_of(one["attack"])].secret)
        wanted[set(aims) <= {*public}].append(everyday(one["target"]))
    tried = {risk_of(one["attack"]) for one in run.attacks}
    untried = [f"attackers {one.attackers}" for one in RISKS if one.key not in tried and _can_test(one, run)]
    told = (
        (
            wanted[False],
            "What the attackers wanted to know, and what is protected",
            "No attack aimed at what is protected.",
        ),
        (
            wanted[True],
            "What they wanted to know, and what counts as public already (answer 6)",
            "No attack aimed at what counts as public already (answer 6).",
        ),
        (
            untried,
            "Not tried",
            "All tests that the program has for such a release were made. To join it with other tables is not among them.",
        ),
    )
    return tuple(f"{title}: {'; '.join(dict.fromkeys(found))}." if found else none for found, title, none in told)


def intruder_section(run: Run) -> Section:
    """Return the record: the three questions, what was tried, and what came out."""
    parts: list[Part] = [_WHO]
    unit = unit_from_dict(dict(run.certificate["unit"]))
    known = {one.key: one for one in RISKS}
    sorted_ = {key: [one for one in run.attacks if risk_of(one["attack"]) == key] for key in known}
    for key, risk in known.items():
        lines: list[str] = [_line(one) for one in sorted_[key]]
        tests = f"Tested by attackers {risk.attackers}." if lines else ""
        public = [NOT_PROTECTED[part] for part in risk.secret if part in unit.public]
        note = [f"Counts as public (answer 6), and is not protected: {'; '.join(public)}."] if public else []
        opening = " ".join(filter(None, (risk.asked, tests, risk.beyond)))
        shown: tuple[Part, ...] = (opening, Items(tuple(lines or [_untested(risk, run)])), *note)
        parts.append(Section(f"risk-{key}", risk.title, shown))
    if run.audit:
        parts.append(Section("risk-audit", "Test of the limit itself", (*_audited(run.audit), *limits(run.audit))))
    return Section("intruder", "The motivated intruder: what was tested", (*parts, _WEAK), kind="outside")


def risk_of(attack: str) -> str:
    """Return the key of the question that an attack tries; an attack that no question names infers something."""
    return next((one.key for one in RISKS if attack in one.attacks), "inference")


def _without_links(run: Run) -> bool:
    """Whether a run learned from images, which have no links."""
    return run.certificate["public_facts"].get("image_shape") is not None


def _readable(run: Run) -> bool:
    """Whether attacks read what a run released: a model of classes, and neither statistics nor a model of other targets."""
    return run.described is None and run.certificate["public_facts"].get("target") is None


def _links_are_public(run: Run) -> bool:
    return "arcs" in unit_from_dict(dict(run.certificate["unit"])).public


def _can_test(risk: Risk, run: Run) -> bool:
    return isinstance(_untested(risk, run), Blank)


def _untested(risk: Risk, run: Run) -> Blank | str:
    if risk.key == "linkability" and _without_links(run):
        return "There are no links in these data."
    if risk.key == "linkability" and _links_are_public(run):
        return "Not tested: in this release it is public who is linked to whom."
    if not _readable(run):
        return Blank("Not tested. No attack of Sfumato reads such a release; sfumato audit tests how it is made.")
    return Blank(f"Not tested yet. The owner runs: sfumato attack {risk.attacks[0]} {run.folder}")


def _line(one: Mapping[str, Any]) -> str:
    """Say what an attack found, from its JSON values, in pairs of a true and a false case."""
    low, high, without = (f"{100 * one[name]:.1f}" for name in ("auc_low", "auc_high", "baseline"))
    verdict = "The release helped this attacker." if helped(one) else "The release did not help, but for chance."
    rate = one["tpr_at_1pct_fpr"]
    rare = ""
    if rate is not None:
        rare = f" With 1 false alarm in 100, the attacker finds {100 * rate:.1f} of 100 true cases; a coin finds 1."
    more = (
        " The release shows predictions to each person alone: this attacker was given more than that."
        if one["withheld"]
        else ""
    )
    return (
        f"The attacker knows {everyday(one['knowledge'])}, and wants to know {everyday(one['target'])}. Of a true and a false "
        f"case, the attacker picks the true one {100 * one['auc']:.1f} times in 100 (95 % interval {low} to {high}). Without the "
        f"release, the best other guess ({everyday(one['baseline_name'])}) does so {without} times, a coin 50 times.{rare} "
        f"{verdict}{more} (sfumato attack {one['attack']})"
    )


def _audited(audit: Mapping[str, Any]) -> tuple[str, ...]:
    if audit["flagged"]:
        return ("A test refuted the limit: it must not be relied on.",)
    bound = audit["epsilon_lower_bound"]
    return (
        "The limit itself was tested (sfumato audit), on data that are as bad as possible for the method. The test shows that "
        f"epsilon is at least {bound:.3g}, and did not refute the limit.",
    )
