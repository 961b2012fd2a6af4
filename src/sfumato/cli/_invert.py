"""`sfumato invert`: what the weights of a run show of each class."""

from __future__ import annotations

import json
from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from sfumato._files import write_json
from sfumato._optional import TRAIN, check_installed
from sfumato._validate import check_choice, fail
from sfumato.cli import _data as data
from sfumato.cli._attack import settings_in
from sfumato.cli._completing import complete_run
from sfumato.cli._options import of
from sfumato.cli._output import stage_bars
from sfumato.cli._table import JSON
from sfumato.errors import InputError
from sfumato.evaluation._kept import write_page

if TYPE_CHECKING:
    from sfumato.attacks._inversion import Inversion
    from sfumato.evaluation._source import Source

ATTACKS = ("enhanced", "original")


def invert(
    context: typer.Context,
    run: Path = typer.Argument(
        ..., help="The folder of a run that was trained on images.", autocompletion=complete_run
    ),
    dataset: str | None = typer.Option(
        None, "--dataset", help="The images that the run was trained on (default: where the run found them)."
    ),
    data_dir: Path | None = of("data_dir"),
    graph: Path | None = of("graph"),
    image_size: str | None = of("image_size"),
    attack: str = typer.Option(
        "enhanced", "--attack", help=f"The attack: {' or '.join(ATTACKS)} (gradient descent without a regularizer)."
    ),
    regularizer: str | None = typer.Option(
        None, "--regularizer", help="With --attack enhanced: l1 (default), bilateral (for faces), or none."
    ),
    target: str | None = typer.Option(
        None, "--target", help="What is made large: the score of the class (default), or its probability (original)."
    ),
    steps: int | None = typer.Option(None, "--steps", help="How many steps (default: 5000, or 100 with bilateral)."),
    rate: float | None = typer.Option(
        None, "--rate", help="The learning rate of the attack (default: 0.1, or 0.05 with bilateral)."
    ),
    weight: float | None = typer.Option(
        None, "--weight", help="The weight of the regularizer (default: 0.05, or 0.001 with bilateral)."
    ),
    given: list[str] | None = typer.Option(
        None,
        "--set",
        metavar="NAME=VALUE",
        help="Another setting of the attack: window and decay of bilateral, box=false (pixels in place of their arctanh), "
        "optimizer (adam or sgd), beta1, beta2, tau, or start (noise at the start). May be repeated.",
    ),
    distance: str = typer.Option(
        "euclidean",
        "--distance",
        help="How far two images are: euclidean, or ssim (1 - SSIM, windows of 7 x 7 pixels).",
    ),
    classes: str | None = typer.Option(
        None, "--classes", help="The classes to reconstruct, such as 0,1,7 (default: all)."
    ),
    beside: list[Path] | None = typer.Option(
        None, "--beside", help="The folder of another run on the same images, to show beside this one. May be repeated."
    ),
    out: Path | None = typer.Option(
        None, "--out", help="The folder to write to (default: evaluation/inversion in the run folder)."
    ),
    as_json: bool = JSON,
) -> None:
    """Search an image of each class in the weights of a run, and measure how near it comes to training images.

    Beside each distance stands the distance to held-out images of the same class: if both are alike, the model shows the
    class and remembers no image. Nothing is spent. The page shows training images: it is outside the guarantee.
    """
    out = out or run / "evaluation" / "inversion"
    if (run / "release").resolve() in (out.resolve(), *out.resolve().parents):
        raise fail("out", str(out), "to be outside release/", "Only certified files belong there.")
    check_installed(*TRAIN, "jinja2", "matplotlib")
    from sfumato.attacks._distances import DISTANCES
    from sfumato.attacks._reconstruction import reconstruct
    from sfumato.catalog import load
    from sfumato.report._inversion import Attacked, inversion_figure, inversion_page
    from sfumato.report._run import read_run

    check_choice(tuple(DISTANCES), distance=distance)
    chosen = _attack(attack, regularizer, given or [], target=target, steps=steps, rate=rate, weight=weight)
    names = [name.strip() for name in classes.split(",")] if classes is not None else []
    paths = {name: path and str(path) for name, path in (("data_dir", data_dir), ("graph", graph))}
    named = {"dataset": dataset, "image_size": image_size, **paths}
    source = _source(run, named, context)
    models = {folder: load(folder) for folder in (run, *(beside or ()))}
    images = source.with_roles_of(source.load(), models[run])
    attacked = []
    with stage_bars(as_json) as report:
        for folder, fitted in models.items():
            stage = None if report is None else _named(report, f"inversion of {folder.resolve().name}")
            found = reconstruct(fitted, images, chosen, distance, names, stage)
            metrics = read_run(folder).metrics or {}
            accuracy = (metrics.get("test_accuracy") or {}).get("mean")
            attacked.append(Attacked(folder.resolve().name, fitted.certificate.values, found, accuracy))
    told = [_told(folder, one) for folder, one in zip(models, attacked, strict=True)]
    result = {**told[0], "distance": distance, "attack": asdict(chosen), "beside": told[1:], "out": str(out)}
    write_page(out / "index.html", inversion_page(attacked, images.name, asdict(chosen), distance))
    write_page(out / "inversion.svg", inversion_figure(attacked).alone())
    write_json(out / "distances.json", result)
    if as_json:
        typer.echo(json.dumps(result))
        return
    for one in told:
        typer.echo(
            f"{one['run']}: mean {distance} distance {one['mia_distance']:.3f} to the nearest training image; among equally many "
            f"images {one['matched_distance']:.3f} to training and {one['heldout_distance']:.3f} to held-out images. Of a blank "
            f"image: {one['blank_distance']:.3f}. Mean confidence of the model in its reconstructions: {one['confidence']:.3f}."
        )
    typer.echo(f"Wrote {out / 'index.html'}. It shows training images: it is not for release.")


def _attack(name: str, regularizer: str | None, given: list[str], **asked: Any) -> Inversion:
    from sfumato.attacks._inversion import Inversion

    check_choice(ATTACKS, attack=name)
    if name == "original" and (regularizer is not None or asked["weight"] is not None):
        raise InputError("Expected no --regularizer or --weight with --attack original, which has none. Drop them.")
    kind = "original" if name == "original" else "faces" if regularizer == "bilateral" else "digits"
    asked["regularizer"] = regularizer
    base: Inversion = getattr(Inversion, kind)()
    known = {setting: value for setting, value in vars(base).items() if setting not in asked}
    asked |= settings_in("invert", known, given)
    return replace(base, **{setting: value for setting, value in asked.items() if value is not None})


def _source(run: Path, named: dict[str, Any], context: typer.Context) -> Source:
    """Where the images are: as the run kept it, save for what is given."""
    from sfumato.evaluation._source import Source

    try:
        kept = Source.of_run(run)
    except InputError:
        if named["dataset"] is None and named["graph"] is None:
            raise
        from sfumato.datasets._loading import default_split

        kept = Source(split=default_split(named["dataset"] or ""))
    if named["graph"] is not None:
        kept = Source(split=kept.split)
    elif named["dataset"] is not None:
        kept = replace(kept, graph=None)
    return data.in_place_of(kept, named, context).check()


def _named(report: Any, stage: str) -> Any:
    return lambda done, total: report(stage, done, total)


def _told(folder: Path, one: Any) -> dict[str, Any]:
    claim = one.certificate["claim"]
    return {
        "run": str(folder),
        "method": one.certificate["method"],
        "unit": one.certificate["unit"]["name"],
        "epsilon": claim["epsilon"],
        "delta": claim["delta"],
        "test_accuracy": one.accuracy,
        **one.found.to_dict(),
    }
