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
    from sfumato.experiments._cells import Row
    from sfumato.experiments._runs import Run


def compared_section(spec: Spec, rows: Sequence[Row], date: str | None) -> Section:
    """Return the section that says what was run on which data, and what each run protects."""
    stands_in = (
        f" (stands in for {spec.stands_in_for}, on which the numbers were published)" if spec.stands_in_for else ""
    )
    done, roles = [row for row in rows if row["status"] == "done"], IMAGE_ROLES if spec.images else ROLES
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
            f"{_seeds(done)}, each {_drawn(spec)} and initialization",
        ),
        *[(f"First seed of {run.label}", str(run.first_seed)) for run in spec.runs if run.first_seed],
        ("Fits", f"{len(done)} done, {len(rows) - len(done)} skipped"),
        *([("Date", date)] if date else []),
    ]
    table = Table(
        "runs",
        "What is compared, under which privacy unit",
        ("Run", "Method", "Protects", "Epsilon", "Delta", "Varied", "Role"),
        tuple(
            (
                run.label,
                run.method,
                _protects(run, done),
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


def skipped_section(rows: Sequence[Row]) -> Section | None:
    """Return the section of the fits that were not run, with their reasons; None if there are none."""
    groups: dict[tuple[str, ...], int] = {}
    for row in rows:
        if row["status"] == "skipped":
            key = row["label"], plain(row["epsilon"]), plain(row["at"]), str(row["reason"])
            groups[key] = groups.get(key, 0) + 1
    if not groups:
        return None
    table = Table(
        "skipped-cells",
        "Fits that were not run",
        ("Run", "Epsilon", "At", "Fits", "Reason"),
        tuple((label, epsilon, at, str(count), reason) for (label, epsilon, at, reason), count in groups.items()),
        text=("Reason",),
    )
    return Section("skipped", "Skipped", (table.without_empty(),))


def reproduce_section(spec: Spec, rows: Sequence[Row]) -> Section:
    """Return the section with the command that runs ``spec`` again, and the versions that ``rows`` were run with."""
    quick = rows and all(row["profile"] == "quick" for row in rows)
    words = [
        "sfumato experiment run",
        spec.name if (SPECS / f"{spec.name}.toml").exists() else f"{spec.name}.toml",
        *(["--quick"] if quick else []),
        "--dataset",
        shlex.quote(clean(spec.dataset)),
    ]
    data = [] if spec.dataset == "campus" else ["--data-dir DATA"]
    command = " ".join([*words, f"--seeds {max(1, _seeds(rows))}", *data])
    versions = {
        "Sfumato": {row["version"] for row in rows},
        **{
            name.capitalize(): {str(row["versions"].get(name)) for row in rows}
            for name in sorted({name for row in rows for name in row["versions"]})
        },
        "Device": {row["device"] for row in rows},
        "Specification": {row["spec_hash"][:16] for row in rows},
    }
    facts = tuple((name, ", ".join(sorted(values))) for name, values in versions.items() if values)
    return Section("reproduce", "Reproduce", (Code(command), Facts(facts)))


def _drawn(spec: Spec) -> str:
    """What is new in every seed, beside the initialization."""
    if spec.images:
        taught = any(not {"votes", "labels"} & dict(run.settings).keys() for run in spec.runs)
        return "its own teachers, queries" if taught else "its own noise"
    return "its own reports" if spec.split == "public" else "a fresh split"


def _protects(run: Run, done: Sequence[Row]) -> str:
    """What the certificates of a run protect; what its unit does, if nothing was run or nothing is private."""
    certificates = [row["certificate"] for row in done if row["label"] == run.label]
    words = unit_words(run.unit)
    if dict(run.settings).get("accounting") == "as-published":
        return "nothing: no guarantee"
    if not certificates or words.startswith("nothing"):
        return words
    found = dict.fromkeys(one["protects"] if one else "nothing: no guarantee" for one in certificates)
    return "; ".join(found)


def _seeds(rows: Sequence[Row]) -> int:
    """Seeds of the run that has the most."""
    seeds: dict[str, set[int]] = {}
    for row in rows:
        seeds.setdefault(row["label"], set()).add(row["seed"])
    return max(map(len, seeds.values()), default=0)
