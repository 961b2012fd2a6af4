"""A small experiment and a small run."""

from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest
from report_samples import ACCURACY, HOSTILE, certificate, make_rows, make_run

from sfumato.privacy.events import GaussianEvent, PoissonGaussianEvent
from sfumato.report import experiment_figures, experiment_page, run_page
from sfumato.report._run import Run


@pytest.fixture(scope="session")
def spec():
    """Two methods over epsilon, two floors and a ceiling, one published number that was not run."""
    published = SimpleNamespace(label="GAP edge", epsilon=4.0, at=None, value=76.3, half_width=0.21, source="Table 9")
    missing = SimpleNamespace(label="GAP edge", epsilon=8.0, at=None, value=79.0, half_width=None, source="Table 9")
    return SimpleNamespace(
        name="toy",
        images=False,
        links=False,
        measure="accuracy",
        title="A toy experiment",
        source="Somebody (2023), table 9",
        comments=("The paper leaves out its seeds.",),
        dataset="facebook100/Toy1",
        stands_in_for="facebook100/Other2",
        min_class_size=1234,
        split="75/10/15",
        axis="epsilon",
        runs=(
            make_run("GAP edge", "edge", epsilons=(1.0, 4.0)),
            make_run("GAP node", "node", epsilons=(4.0,)),
            make_run("MLP edge", "edge", role="floor"),
            make_run("MLP node", "node", role="floor", epsilons=(4.0,)),
            make_run("SAGE", "none", role="ceiling"),
        ),
        published=(published, missing),
    )


@pytest.fixture(scope="session")
def rows(spec):
    """Finished rows, and one that was skipped."""
    made = make_rows(spec, lambda run, epsilon, at: ACCURACY[run.label])
    skipped = {**made[-1], "status": "skipped", "reason": "The files of Toy1 are not there.", "seed": 3}
    return [*made, {**skipped, "metrics": {"accuracy": None, "macro_f1": None}}]


@pytest.fixture(scope="session")
def toy_page(spec, rows):
    return experiment_page(spec, rows)


@pytest.fixture(scope="session")
def toy_figures(spec, rows):
    return experiment_figures(spec, rows)


@pytest.fixture(scope="session")
def hostile(spec):
    """The experiment with markup in every text, and its rows."""
    runs = (make_run(HOSTILE, "edge", epsilons=(1.0, 2.0)), make_run("_floor", "edge", role="floor"))
    texts = dict.fromkeys(("title", "source", "dataset", "stands_in_for"), HOSTILE)
    spec = SimpleNamespace(**{**vars(spec), **texts, "comments": (HOSTILE,), "runs": runs, "published": ()})
    rows = make_rows(spec, lambda run, epsilon, at: 0.5)
    return spec, [*rows, {**rows[0], "status": "skipped", "reason": HOSTILE, "seed": 9}]


def parts(classes, models=("run", "floor", "ceiling")):
    """The detail of metrics.json: three classes, two degrees, two groups; each model is a little better than the one before."""
    scores = ("recall", "precision", "f1", "roc_auc", "average_precision")
    of_class = {name: dict.fromkeys(scores, 0.6 + 0.1 * at) for at, name in enumerate(models)}
    of_part = {name: {"accuracy": 0.25 + 0.1 * at, "log_loss": 1.5 - 0.25 * at} for at, name in enumerate(models)}
    sizes = {"a": 16, "<b>": 30}
    ten = [{"nodes": 2, "told": 0.05 + 0.1 * at, "true": 0.1 + 0.08 * at} for at in range(10)]
    top = [{"precision": 0.5, "recall": 0.25 + 0.1 * at, "lift": 2.5} for at in range(3)]
    part = {"nodes": 8, "scores": of_part}
    return {
        "nodes": 20,
        "classes": [{"name": name, "nodes": sizes.get(name, 14), "share": 0.2, "scores": of_class} for name in classes],
        "confusion": [[5, 1, 0], [2, 7, 1], [0, 0, 4]],
        "reliability": {"of": None, **dict.fromkeys(models, ten)},
        "lift": {
            "class": classes[2],
            "share": 0.2,
            "top": [0.1, 0.2, 0.5],
            "nodes": [2, 4, 10],
            **dict.fromkeys(models, top),
        },
        "degrees": [{"name": "0", **part}, {"name": "1 to 2", **part}],
        "groups": {"column": "<side>", "rows": [{"name": "left", **part}, {"name": "<right>", **part}]},
        "warnings": ["Class '<b>' is below its floor: by a lot."],
    }


@pytest.fixture(scope="session")
def edge_run():
    """A run at edge level with everything there is to show."""
    generator = np.random.default_rng(3)
    metrics = {
        "test_accuracy": {"mean": 0.612345, "low": 0.6, "high": 0.63, "seeds": 3},
        "test_macro_f1": {"mean": 0.523456, "low": None, "high": None, "seeds": 3},
        "floor": {"mean": 0.434567, "low": 0.42, "high": 0.45, "seeds": 3},
        "ceiling": {"mean": 0.845678, "low": 0.84, "high": 0.85, "seeds": 3},
        "label_control": None,
        "graph_gain_recovered": 0.4321,
        "seconds": {"train": 1.25},
        "peak_mb": 321.0,
    }
    return Run(
        folder="runs/first",
        certificate=certificate(events=(GaussianEvent(5.5), PoissonGaussianEvent(0.01, 2.25, 100))),
        graph="campus",
        classes=("a", "<b>", "c"),
        released={"aggregate/1": generator.normal(size=(60, 4)), "encoder": np.zeros(7)},
        signed=False,
        metrics=metrics,
        curves={"encoder": [1.5, 1.25, 1.0], "broken": [float("nan")]},
        predicted=generator.integers(0, 3, 60),
        detail=parts(("a", "<b>", "c")),
    )


@pytest.fixture(scope="session")
def edge_page(edge_run):
    return run_page(edge_run)


@pytest.fixture(scope="session")
def node_run(edge_run):
    """The same at node level: predictions are for the node alone."""
    own = ("predictions that read the node's own features (joint DP)",)
    return replace(edge_run, certificate=certificate("node", own=own))


@pytest.fixture(scope="session")
def bare_run(edge_run):
    """A run without privacy."""
    return replace(edge_run, certificate=certificate("none", None, ()), released={})
