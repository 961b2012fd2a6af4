"""A fit ends with finite weights and a certificate that verifies, or it is refused before anything is charged.

This holds for every method of the catalog, for those that choose settings, and for graphs at the limits of what a graph may be.
"""

from collections.abc import Callable
from dataclasses import fields

import numpy as np
import pytest
import scipy.sparse as sp
from contracts_quick import quick

import sfumato as sf
from sfumato import verify
from sfumato.catalog import CARDS, METHODS, PAIR_METHODS, method_named
from sfumato.central._lapgraph import LapGraph
from sfumato.central._link_messages import LinkMessages
from sfumato.central._tuned import Tuned
from sfumato.errors import DataError, InputError, SfumatoError
from sfumato.graph import Graph
from sfumato.graph._checks import MOST_FEATURE
from sfumato.graph._targets import Targets
from sfumato.local._method import AskingMethod
from sfumato.method import _plan as plans
from sfumato.method._checks import check_converged
from sfumato.method.contract import Outcome
from sfumato.privacy.units import UNITS as EVERY_UNIT

NAMES = [*METHODS, *PAIR_METHODS]
BUDGET = sf.Budget(epsilon=4.0, delta=1e-5)
SIZE = 24
ROLES = np.array([0, 0, 0, 1, 0, 2] * 4)
CLASSES = np.arange(SIZE) % 3
RNG = np.random.default_rng(0)
RANDOM = RNG.random((SIZE, 5)).astype(np.float32)
PIXELS = RNG.random((SIZE, 144)).astype(np.float32)


def graph(*, edges=None, x=RANDOM, y=CLASSES, roles=ROLES, directed=False, **more):
    """A circle with chords, unless there are other edges."""
    size = len(roles)
    around = np.arange(size)
    source, target = ((*around, *around), (*(around + 1) % size, *(around + 5) % size)) if edges is None else edges
    classes = () if y is None else tuple(map(str, range(int(np.max(y)) + 1)))
    fields = {"max_degree": min(8, size), "classes": classes} | more
    return Graph.from_edges(source, target, size, directed=directed, x=x, y=y, roles=roles, **fields)


NONE: tuple[list[int], list[int]] = ([], [])
GRAPHS: dict[str, Callable[[], Graph]] = {
    "no edge, one column of the largest numbers": lambda: graph(
        edges=NONE, x=np.where(np.arange(SIZE) % 2, MOST_FEATURE, -MOST_FEATURE)[:, None]
    ),
    "every edge, images and cells, numbers of every size": lambda: graph(
        edges=np.triu_indices(SIZE, 1), x=PIXELS * np.resize([MOST_FEATURE, 1e-42, 1, 1e6, 0], 144), max_degree=SIZE,
        image_shape=(1, 12, 12), cells=np.arange(SIZE) % 2,
    ),
    "one edge a node, no features, a class that none trains": lambda: graph(
        edges=(range(0, SIZE, 2), range(1, SIZE, 2)), x=None, y=np.where(ROLES == 0, 0, 1), max_degree=1
    ),
    "directed, weights of zero, images of one pixel": lambda: graph(
        directed=True, edge_weight=np.zeros(2 * SIZE), max_weight=1e30, x=RANDOM[:, :1], image_shape=(1, 1, 1)
    ),
    "two nodes": lambda: graph(edges=([0], [1]), x=sp.csr_matrix(RANDOM[:2]), y=[0, 1], roles=np.zeros(2, int)),
    "several labels": lambda: graph(y=None, targets=Targets("multilabel", (RANDOM > 0.5).astype(float))),
    "one number": lambda: graph(y=None, targets=Targets("number", np.full((SIZE, 1), 1e30), limits=(-1e30, 1e30))),
}  # fmt: skip


def plans_of(name, facts_of):
    """What can be planned: a method of devices with its own questions, another under each unit that its card names."""
    made = method_named(name)
    if isinstance(made, AskingMethod):
        asked = [{"epsilon_x": x, "epsilon_y": y} for x in (1.0, None, 0.0) for y in (1.0, None)]
        for settings in asked if hasattr(made, "epsilon_x") else [{}]:
            try:
                method = quick(name, **settings)
            except InputError:  # such a method needs features, or asks for no labels
                continue
            yield lambda method=method: method.calibrate(None, method.unit, facts_of(method.unit))
        return
    units = [form for unit in EVERY_UNIT for form, *_ in unit.forms().values()]
    units.append(sf.NodeLevel(arcs="incident"))
    for unit in units:
        if unit.private and (name == "auto" or unit.name in CARDS[name].units):
            yield lambda unit=unit: quick(name).calibrate(BUDGET, unit, facts_of(unit))


open_session = plans.open_session


def spend(plan, graph, folder):
    """Fit a plan, and see that nothing is charged unless the run ends well. Return whether it ran."""
    begun = []
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(plans, "open_session", lambda *given: begun.append(1) or open_session(*given))
        try:
            fitted = plan().fit(graph)
        except SfumatoError as error:
            if begun:
                pytest.fail(f"charged, then failed: {error}")
            return False
    assert all(np.isfinite(array).all() for array in fitted.weights.values())
    if not fitted.plan.method.card.scores_pairs:
        assert np.isfinite(fitted.ran.method.scores(fitted.ran, fitted.weights, fitted.released, graph)).all()
    fitted.save(folder)
    found = verify.verify(folder)
    assert found.valid, found.problems
    return True


@pytest.mark.parametrize("kind", GRAPHS)
@pytest.mark.parametrize("name", NAMES)
def test_a_fit_ends_well_or_is_refused_before_the_charge(name, kind, tmp_path):
    found = GRAPHS[kind]()
    for number, plan in enumerate(plans_of(name, found.public_facts)):
        spend(plan, found, tmp_path / str(number))


@pytest.mark.parametrize("kind", list(GRAPHS)[:1])
def test_what_auto_takes_ends_well_too(kind, tmp_path):
    found = GRAPHS[kind]()
    ran = [spend(plan, found, tmp_path / str(n)) for n, plan in enumerate(plans_of("auto", found.public_facts))]
    assert any(ran)


DEEP = ("num_layers", "num_hops", "depth", "base_layers", "steps_x", "steps_y")
ALIKE = {
    "zeros": np.zeros((SIZE, 5)),
    "denormal numbers": np.full((SIZE, 5), 1e-44),
    "two numbers": np.arange(SIZE)[:, None] % 2,
}


def deepest(name, setting):
    """The method at the most that its setting takes, if that is at most 20."""
    for depth in range(20, 0, -1):
        try:
            return quick(name, **{setting: depth})
        except InputError:
            continue
    return None


@pytest.mark.parametrize("kind", ALIKE)
@pytest.mark.parametrize(
    ("name", "setting"), [(name, one.name) for name in NAMES for one in fields(method_named(name)) if one.name in DEEP]
)
def test_deep_methods_end_well_where_rows_are_alike(name, setting, kind, tmp_path):
    """Batch norm multiplies gradients by 300 a layer where all rows are the same."""
    found, method = graph(x=ALIKE[kind]), deepest(name, setting)
    for unit in (sf.EdgeLevel(directed=False), sf.NodeLevel()):
        budget = sf.Budget(1.0, 0.0 if "lapgraph" in name or "edgerand" in name or name == "lpgnet" else 1e-5)
        try:
            plan = method.calibrate(budget, unit, found.public_facts(unit))
        except SfumatoError:
            continue
        spend(lambda plan=plan: plan, found, tmp_path / unit.name)


VARIED = {
    "learning_rate": (0.01, 0.02),
    "learner_share": (0.2, 0.3),
    "mean_degree": (None, 4.0),
    "smoothing": (0.1, 0.2),
}


@pytest.mark.parametrize("name", NAMES)
def test_a_choice_among_settings_ends_well_or_is_refused_before_the_charge(name, tmp_path):
    """Whatever the tables of the command line say: from Python any method can be given to Tuned."""
    found = GRAPHS["directed, weights of zero, images of one pixel"]()
    known = {field.name for field in fields(method_named(name))} & set(VARIED)
    for setting in known:
        for unit in (sf.EdgeLevel(directed=True), sf.NodeLevel(), sf.RecordLevel()):

            def plan(setting=setting, unit=unit):
                made = Tuned(tuple(quick(name, **{setting: value}) for value in VARIED[setting]), mean_trials=1.01)
                return made.calibrate(BUDGET, unit, found.public_facts(unit))

            spend(plan, found, tmp_path / f"{setting}-{unit.name}")


def test_lapgraph_can_be_tuned_over_a_public_mean_degree(tmp_path):
    """A search tries noise far from the answer; only the noise that it finds has a limit."""
    found = graph()
    candidates = tuple(LapGraph(epochs=2, mean_degree=degree) for degree in (None, 4.0, 8.0))
    unit = sf.EdgeLevel(directed=False)
    tuned = Tuned(candidates, mean_trials=2)
    assert spend(lambda: tuned.calibrate(BUDGET, unit, found.public_facts(unit)), found, tmp_path / "run")


def test_pairs_are_not_tuned():
    assert {name for name, face in CARDS.items() if face.scores_pairs} == set(PAIR_METHODS)
    with pytest.raises(InputError, match="a method that scores nodes"):
        Tuned((LinkMessages(0.2), LinkMessages(0.3)))


@pytest.mark.parametrize("value", [1.01 * MOST_FEATURE, -1e19, 3e38, np.inf, np.nan])
@pytest.mark.parametrize("sparse", [False, True])
def test_features_beyond_the_reach_of_networks_are_refused_as_they_are_read(value, sparse):
    x = np.array([[1.0, 0], [0, value]], np.float32)
    with pytest.raises(DataError, match=r"from -1e\+13 to 1e\+13, but x\[1, 1\] is not"):
        graph(edges=NONE, x=sp.csr_matrix(x) if sparse else x, y=[0, 1], roles=[0, 0])


def test_weights_that_are_not_finite_are_no_run(monkeypatch):
    found, unit = graph(), sf.NodeLevel()
    plan = quick("mlp").calibrate(BUDGET, unit, found.public_facts(unit))
    run = type(plan.method).run
    worse = lambda *given: Outcome({"network.weight": np.array([1.0, np.nan])}, run(*given).released)  # noqa: E731
    monkeypatch.setattr(type(plan.method), "run", worse)
    with pytest.raises(SfumatoError, match=r"diverged, and nothing is saved. What was released is spent"):
        plan.fit(found)
    with pytest.raises(SfumatoError, match=r"nothing is saved. Lower"):
        check_converged({"a": np.array([np.inf])}, spent=False)


def test_a_trial_that_diverged_has_no_right_answer(monkeypatch, tmp_path):
    """Scores that are no numbers have a largest one, by chance the right class: such a trial never wins over others."""
    found, unit = graph(), sf.EdgeLevel(directed=False)
    run = LapGraph.run

    def diverges(self, plan, data, session):
        outcome = run(self, plan, data, session)
        return (
            outcome
            if self.width == 4
            else outcome._replace(weights={key: one * np.nan for key, one in outcome.weights.items()})
        )

    monkeypatch.setattr(LapGraph, "run", diverges)
    tuned = Tuned((LapGraph(epochs=1, width=4), LapGraph(epochs=1, width=5)), mean_trials=8, rule="geometric")
    for _ in range(3):
        try:
            fitted = tuned.calibrate(BUDGET, unit, found.public_facts(unit)).fit(found)
        except SfumatoError:
            continue  # one trial alone, which diverged
        assert fitted.certificate.values["settings"]["width"] == 4


def test_accuracies_after_each_step_are_refused_before_the_charge(monkeypatch):
    found, unit = GRAPHS["several labels"](), sf.EdgeLevel(directed=False)
    plan = quick("gap").calibrate(BUDGET, unit, found.public_facts(unit))
    monkeypatch.setattr(plans, "open_session", None)
    with pytest.raises(InputError, match="measure to be False"):
        plan.fit(found, measure=True)


def test_piloted_messages_have_one_hop_under_every_choice():
    facts = graph().public_facts(sf.NodeLevel())
    with pytest.raises(InputError, match="num_hops to be 1 at node level"):
        method_named("piloted-messages", num_hops=2).calibrate(BUDGET, sf.NodeLevel(), facts)


def test_images_that_no_network_reads_are_refused_before_anything_is_opened(monkeypatch):
    monkeypatch.setattr(plans, "open_session", None)
    for name, found, said in (
        ("scattering", graph(image_shape=(1, 1, 1), x=RANDOM[:, :1]), "at least 8 x 8 pixels"),
        ("cnn", graph(), "to be mlp or softmax"),
        ("cnn", graph(image_shape=(1, 1, 1), x=RANDOM[:, :1]), "at least 12 x 12 pixels"),
    ):
        with pytest.raises(InputError, match=said):
            method_named(name).calibrate(None, sf.NoPrivacy(), found.public_facts(sf.NoPrivacy())).fit(found)
