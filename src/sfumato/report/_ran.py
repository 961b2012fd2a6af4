"""What an experiment ran: what is compared and under which unit, what was skipped, and the command that runs it again."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from typing import TYPE_CHECKING

from sfumato.datasets._loading import default_min_class_size
from sfumato.experiments._spec import SPECS, Spec
from sfumato.report._page import Code, Facts, Section, Table
from sfumato.report._words import AXES, IMAGE_ROLES, ROLES, clean, plain, unit_words

if TYPE_CHECKING:
    from sfumato.experiments._measured import Measured, Skipped
    from sfumato.experiments._results import Line
    from sfumato.experiments._runs import Run


def compared_section(spec: Spec, measured: Measured) -> Section:
    """Return the section that says what was run on which data, and what each run protects."""
    stands_in = (
        f" (stands in for {spec.stands_in_for}, on which the numbers were published)" if spec.stands_in_for else ""
    )
    roles, skipped = IMAGE_ROLES if spec.images else ROLES, sum(one.fits for one in measured.skipped)
    least = default_min_class_size(spec.dataset) if spec.min_class_size is None else spec.min_class_size
    facts = [
        ("Data set", spec.dataset + stands_in),
        *(
            [("Classes", f"those of at least {least:,} nodes; the others are left out before, outside any claim")]
            if least
            else []
        ),
        (
            "Split",
            f"{spec.split}, train/validation/test percent{' of links' * spec.links}"
            if "/" in spec.split
            else spec.split,
        ),
        (
            "Seeds",
            f"{max((line.seeds for line in measured.lines if line.score), default=0)}, each {_drawn(spec)} and initialization",
        ),
        *[(f"First seed of {run.label}", str(run.first_seed)) for run in spec.runs if run.first_seed],
        ("Fits", f"{measured.done} done, {skipped} skipped"),
        *([("Date", measured.date)] if measured.date else []),
    ]
    table = Table(
        "runs",
        "What is compared, under which privacy unit",
        ("Run", "Method", "Protects", "Epsilon", "Delta", "Varied", "Role"),
        tuple(
            (
                run.label,
                run.method,
                _protects(run, measured.lines),
                ", ".join(map(plain, run.epsilons)) or "-",
                plain(run.delta),
                f"{AXES.get(run.vary, run.vary)}: {', '.join(map(plain, run.values))}" if run.vary else "-",
                roles.get(run.role, run.role),
            )
            for run in spec.runs
        ),
        text=("Method", "Protects", "Epsilon", "Delta", "Varied", "Role"),
    )
    return Section("compared", "What is compared", (Facts(tuple(facts)), table.without_empty()))


def skipped_section(skipped: Sequence[Skipped]) -> Section | None:
    """Return the section of the fits that were not run, with their reasons; None if there are none."""
    if not skipped:
        return None
    table = Table(
        "skipped-cells",
        "Fits that were not run",
        ("Run", "Epsilon", "At", "Fits", "Reason"),
        tuple((one.label, plain(one.epsilon), plain(one.at), str(one.fits), one.reason) for one in skipped),
        text=("Reason",),
    )
    return Section("skipped", "Skipped", (table.without_empty(),))


def reproduce_section(spec: Spec, measured: Measured) -> Section:
    """Return the section with the command that runs ``spec`` again, and the versions that it was run with."""
    words = [
        "sfumato experiment run",
        spec.name if (SPECS / f"{spec.name}.toml").exists() else f"{spec.name}.toml",
        *(["--quick"] if measured.quick else []),
        "--dataset",
        shlex.quote(clean(spec.dataset)),
    ]
    data = [] if spec.dataset == "campus" else ["--data-dir DATA"]
    command = " ".join([*words, f"--seeds {max(1, measured.seeds)}", *data])
    facts = tuple((name, ", ".join(values)) for name, values in sorted(measured.versions.items()))
    return Section("reproduce", "Reproduce", (Code(command), Facts(facts)))


def _drawn(spec: Spec) -> str:
    """What is new in every seed, beside the initialization."""
    if spec.images:
        taught = any(not {"votes", "labels"} & dict(run.settings).keys() for run in spec.runs)
        return "its own teachers, queries" if taught else "its own noise"
    return "its own reports" if spec.split == "public" else "a fresh split"


def _protects(run: Run, lines: Sequence[Line]) -> str:
    """What the certificates of a run protect; what its unit does, if nothing was run or nothing is private."""
    certificates = [line.certificate for line in lines if line.label == run.label and line.score]
    words = unit_words(run.unit)
    if dict(run.settings).get("accounting") == "as-published":
        return "nothing: no guarantee"
    if not certificates or words.startswith("nothing"):
        return words
    found = dict.fromkeys(one["protects"] if one else "nothing: no guarantee" for one in certificates)
    return "; ".join(found)
