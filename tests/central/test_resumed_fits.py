"""A resumable fit that is stopped at any durable step and repeated: the same bits, charged once; or nothing at all."""

import shutil
from dataclasses import replace
from functools import partial

import numpy as np
import pytest
import torch
from run_copies import Killed, contents, killed, killed_at

import sfumato as sf
from sfumato import verify
from sfumato.central import _gap as gap
from sfumato.errors import DataError, InputError, LedgerError
from sfumato.graph._synthetic import stochastic_block_model
from sfumato.method import hops as engine
from sfumato.record._dataset_ledger import DatasetLedger, read_account
from sfumato.record._resume import FitState
from sfumato.record.ledger import Chain

GRAPH = stochastic_block_model(40, 2, mean_degree=8, num_features=3, seed=1).with_split(seed=0)
UNITS = {"edge": sf.EdgeLevel(directed=False), "node": sf.NodeLevel(max_out_degree=4)}
METHOD = sf.GAP(width=4, epochs=1, batch_size=15, num_hops=1)


@pytest.fixture(scope="module", params=UNITS)
def plan(request):
    unit = UNITS[request.param]
    return METHOD.calibrate(sf.Budget(2.0, 1e-6), unit, GRAPH.public_facts(unit))


@pytest.fixture(scope="module")
def template(tmp_path_factory):
    """A state in which nothing happened yet, so that runs with the same key can be compared."""
    folder = tmp_path_factory.mktemp("template") / "private"
    FitState.create(folder).close()
    return folder


@pytest.fixture
def run(tmp_path, template):
    shutil.copytree(template, tmp_path / "run" / "private")
    return tmp_path / "run"


def finish(plan, run, graph=GRAPH, seed=0):
    """Everything that a resumable run does, or does again."""
    state = FitState.open(run / "private")
    try:
        account = DatasetLedger(run.parent / "ledger.jsonl", 2.0, 1e-6)
        ledger = run / "release" / "ledger.jsonl"
        plan.fit(graph, seed=seed, ledger=ledger, dataset_ledger=account, state=state).save(run)
        state.remove()
    finally:
        state.close()


def released(run):
    """Releases that something can have read: their MACs are in the state, or their arrays lie there."""
    values = FitState.open(run / "private")
    values.close()
    names = [name for name in values.values["bound"] if name not in ("plan", "graph")]
    return len(names)


def assert_never_under_counted(run):
    ledger = run / "release" / "ledger.jsonl"
    chain = Chain.parse(ledger.read_bytes()) if ledger.exists() else Chain()
    charged = max(0, len(chain.entries) - 1)
    assert released(run) <= charged
    if chain.entries:
        assert len(read_account(run.parent / "ledger.jsonl").claims) == 1


def test_killed_at_every_sync_and_resumed_gives_the_same_bits_charged_once(plan, tmp_path, template):
    reference = tmp_path / "reference" / "run"
    shutil.copytree(template, reference / "private")
    finish(plan, reference)
    expected = contents(reference / "release")
    assert verify.verify(reference).problems == ()  # and so holds of the same bytes below
    step = 1
    while True:
        run = tmp_path / str(step) / "run"
        shutil.copytree(template, run / "private")
        stopped = killed_at(step, partial(finish, plan, run))
        if not stopped:
            break
        if (run / "private" / "state.json").exists():
            assert_never_under_counted(run)
            finish(plan, run)
        assert contents(run / "release") == expected
        assert not (run / "private").exists()
        assert len(read_account(run.parent / "ledger.jsonl").claims) == 1
        step += 1 if plan.unit.name == "node" else 3  # edge level writes a part of the same files
    assert step > 10 + 2 * len(plan.releases)


def test_killed_again_and_again_is_charged_once(plan, run):
    for _ in range(6):
        assert killed_at(4, lambda: finish(plan, run))
        assert_never_under_counted(run)
    finish(plan, run)
    assert verify.verify(run).problems == ()
    assert len(read_account(run.parent / "ledger.jsonl").claims) == 1


@pytest.fixture
def stopped(plan, run, monkeypatch):
    """A run that was stopped when all its releases were computed, on one thread."""
    torch.set_num_threads(1)
    with monkeypatch.context() as patch:
        patch.setattr("sfumato.method._plan.certify", killed)
        with pytest.raises(Killed):
            finish(plan, run)
    return run


def edited(name, change):
    values = np.array(getattr(GRAPH, name))
    change(values)
    return replace(GRAPH, **{name: values})


def other_arcs():
    pairs = [(v, int(t)) for v in range(40) for t in GRAPH.indices[GRAPH.indptr[v] : GRAPH.indptr[v + 1]] if v < t]
    source, target = np.array(pairs[1:]).T
    other = sf.graph.Graph.from_edges(source, target, 40, directed=False)
    return replace(GRAPH, indptr=other.indptr, indices=other.indices)


CHANGED = {
    "one edge": other_arcs,
    "one feature": lambda: edited("x", lambda x: x.__setitem__((3, 1), x[3, 1] + 1e-6)),
    "one label": lambda: edited("y", lambda y: y.__setitem__(3, 1 - y[3])),
    "roles": lambda: edited("roles", lambda r: r.__setitem__([i0(r, 0), i0(r, 2)], [2, 0])),
    "ids": lambda: replace(GRAPH, node_ids=np.arange(40) + 1),
}


def i0(roles, role):
    return int(np.flatnonzero(roles == role)[0])


@pytest.mark.parametrize("change", CHANGED)
def test_changed_data_is_refused_before_anything_runs(plan, stopped, change):
    before = contents(stopped / "release")
    with pytest.raises((LedgerError, DataError), match=r"'graph'|'roles', which the certificate would not list"):
        finish(plan, stopped, CHANGED[change]())
    assert contents(stopped / "release") == before
    finish(plan, stopped)


def with_settings(plan, epsilon=2.0, **settings):
    return replace(METHOD, **settings).calibrate(sf.Budget(epsilon, 1e-6), plan.unit, plan.public)


OTHERWISE = {
    "seed": (lambda plan: plan, {"seed": 1}, "'plan'"),
    "budget": (lambda plan: with_settings(plan, 1.9), {}, "'plan'"),
    "learning rate": (
        lambda plan: with_settings(plan, learning_rate=0.02), {}, r"Restore settings\.learning_rate 0\.01 \(now 0\.02\), and"
    ),
    "facts": (
        lambda plan: replace(plan, public=replace(plan.public, assumed=("num_nodes",))), {}, r"Restore public\.assumed"
    ),
}  # fmt: skip


@pytest.mark.parametrize(("change", "how", "said"), OTHERWISE.values(), ids=OTHERWISE)
def test_another_seed_or_plan_is_refused(plan, stopped, change, how, said):
    before = contents(stopped / "release")
    with pytest.raises(LedgerError, match=said):
        finish(change(plan), stopped, **how)
    assert contents(stopped / "release") == before


def test_another_thread_count_is_refused(plan, stopped, monkeypatch):
    before = contents(stopped / "release")
    monkeypatch.setenv("OMP_NUM_THREADS", "2")  # said, or so small a fit takes one thread
    try:
        torch.set_num_threads(2)
        with pytest.raises(LedgerError, match=r"Restore threads\.torch 1 \(now 2\), and"):
            finish(plan, stopped)
    finally:
        torch.set_num_threads(1)
    assert contents(stopped / "release") == before
    finish(plan, stopped)


def test_other_weights_are_refused_for_an_inference(plan, run):
    """An inference reads trained weights, which its settings do not show."""
    graph = replace(GRAPH, node_ids=np.arange(40) + 40)
    trained = plan.fit(GRAPH)
    inference = trained.calibrate_inference(sf.Budget(2.0, 1e-6), plan.unit, plan.public)
    other = {name: array * np.float32(0.5) for name, array in trained.weights.items()}
    ledger = run / "release" / "ledger.jsonl"
    state = FitState.open(run / "private")
    inference.fit(graph, ledger=ledger, state=state)
    with pytest.raises(LedgerError, match="Restore weights"):
        replace(inference, method=replace(inference.method, model=replace(inference.method.model, weights=other))).fit(
            graph, ledger=ledger, state=state
        )
    inference.fit(graph, ledger=ledger, state=state)
    state.close()


def test_a_copy_of_a_run_that_computed_nothing_yet_takes_no_other_settings(plan, run):
    """Copied once plan and graph are bound: two copies with two settings would be two answers for one charge."""
    state = FitState.open(run / "private")
    account = DatasetLedger(run.parent / "ledger.jsonl", 2.0, 1e-6)

    with pytest.raises(Killed):
        plan.fit(GRAPH, ledger=run / "release" / "ledger.jsonl", dataset_ledger=account, state=state, progress=killed)
    state.close()
    assert {"plan", "graph"} == set(state.values["bound"])
    copy = run.with_name("copy")
    shutil.copytree(run, copy)
    finish(plan, run)
    with pytest.raises(LedgerError, match="learning_rate"):
        finish(with_settings(plan, learning_rate=0.02), copy)
    finish(plan, copy)
    assert contents(copy / "release") == contents(run / "release")


def test_code_that_computes_another_operand_is_refused_before_its_release(plan, stopped, monkeypatch):
    """Changed code can be seen by its operands alone."""
    before, normalize = contents(stopped / "release"), gap.normalize_rows
    monkeypatch.setattr(gap, "normalize_rows", lambda rows: normalize(rows) * np.float32(0.999))
    monkeypatch.setattr(engine, "noisy_neighborhood_sum", lambda *args: pytest.fail("it was computed"))
    with pytest.raises(LedgerError, match=r"'aggregate/1'.*Nothing was released"):
        finish(plan, stopped)
    assert contents(stopped / "release") == before


def test_other_gradients_are_refused(stopped, plan, monkeypatch):
    if plan.unit == UNITS["edge"]:
        pytest.skip("trains without DP-SGD")
    from sfumato.bounded import _gradients as gradients

    clipped = gradients.clipped_gradient_sum
    monkeypatch.setattr(gradients, "clipped_gradient_sum", lambda *args: clipped(*args) * 99 // 100)
    with pytest.raises(LedgerError, match="'encoder'"):
        finish(plan, stopped)


def test_a_ledger_that_lost_a_computed_release_is_refused(plan, stopped):
    ledger = stopped / "release" / "ledger.jsonl"
    lines = ledger.read_text().splitlines(keepends=True)
    for rest in (lines[:-1], [*lines[:-1], lines[-1][:50]]):
        ledger.write_text("".join(rest))
        with pytest.raises(LedgerError, match="was cut"):
            finish(plan, stopped)


def test_a_fresh_state_never_takes_up_another_runs_ledger(plan, stopped, template):
    """The same plan, another key: its releases would be second draws."""
    shutil.rmtree(stopped / "private")
    shutil.copytree(template, stopped / "private")
    with pytest.raises(LedgerError, match="choose a new folder"):
        finish(plan, stopped)
    assert len(read_account(stopped.parent / "ledger.jsonl").claims) == 1


def test_a_resumable_fit_needs_a_ledger_that_outlives_it(plan, run):
    state = FitState.open(run / "private")
    with pytest.raises(InputError, match="ledger to name a file"):
        plan.fit(GRAPH, state=state)
    assert not state.bound("plan")
    state.close()
