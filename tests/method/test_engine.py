"""Every family opens, claims and charges through one engine, in an order that a kill never leaves less charged."""

import ast
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import sfumato as sf
from sfumato import record
from sfumato.errors import BudgetExceededError, InputError, LedgerError
from sfumato.graph._synthetic import stochastic_block_model
from sfumato.method import _engine as engine
from sfumato.method._engine import PlanEntry, Spending
from sfumato.pate import _plan as pate_plan
from sfumato.pate import _run as pate_run
from sfumato.pate._images import Images
from sfumato.pate._plan import Settings
from sfumato.privacy.events import GaussianEvent
from sfumato.record import ledger as ledgers
from sfumato.record._dataset_ledger import DatasetLedger, read_account
from sfumato.record._ledger_file import begun
from sfumato.record._resume import FitState
from sfumato.record.ledger import Release

UNIT = sf.EdgeLevel(directed=False)
RELEASES = tuple(Release(f"aggregate/{hop}", GaussianEvent(4.0), (4, 16), 32) for hop in (1, 2))
ENTRY = PlanEntry("gap", UNIT, RELEASES, 1.9, 1e-5, 1e-28)
DATASET = {"name": "toy", "ids_digest": "0" * 64}


@pytest.fixture
def shared(tmp_path):
    return DatasetLedger(tmp_path / "toy.jsonl", 4.0)


def marks(shared):
    account = read_account(shared.path)
    assert account.problem is None
    return account.marks


def fit_a_graph(out, shared):
    graph = stochastic_block_model(40, 2, mean_degree=8, num_features=3, seed=1).with_split(seed=0)
    plan = sf.LabelMessages().calibrate(sf.Budget(2.0, 1e-6), UNIT, graph.public_facts(UNIT))
    plan.fit(graph, ledger=out / "ledger.jsonl", dataset_ledger=shared)


def ask_teachers(out, shared):
    x, y = np.zeros((80, 1, 28, 28), np.float32), np.arange(80) % 2
    votes = np.where(y[:60, None] == np.arange(2), 45, 5)
    settings = Settings(50, 30, 2.0, student_settings={"width": 4, "steps": 3, "batch_size": 8}, controls=False)
    images = Images("toy", x[:40], y[:40], x, y, num_classes=2)
    pate_run.run(settings, images, out, votes=votes, dataset_ledger=shared)


FAMILIES = pytest.mark.parametrize("family", [fit_a_graph, ask_teachers])


@pytest.fixture(autouse=True)
def _small_pool(monkeypatch):
    for holder in (pate_plan, pate_run):
        monkeypatch.setattr(holder, "POOL", 60)


@FAMILIES
def test_every_family_reserves_then_spends_then_charges_then_draws(family, shared, tmp_path, monkeypatch):
    seen = []

    def watch(holder, name, say):
        real = getattr(holder, name)

        def call(*given, **named):
            found = real(*given, **named)
            seen.append(say(*given))
            return found

        monkeypatch.setattr(holder, name, call)

    watch(Spending, "reserve", lambda *_: "reserve")
    monkeypatch.setattr(engine, "new_ledger_file", lambda path: seen.append("file") or ledgers.new_ledger_file(path))
    watch(DatasetLedger, "spend", lambda _, run, mark, what: "spend")
    watch(ledgers, "append_line", lambda path, line: "plan" if '"kind":"plan"' in line else "charge")
    watch(pate_run, "answer", lambda *_: "draw")
    monkeypatch.setattr("sfumato.method.contract.derive_key", drawing(seen))
    family(tmp_path / "run", shared)
    order = [seen.index(step) for step in ("reserve", "spend", "charge", "draw")]
    assert order == sorted(order)
    assert seen.index("reserve") < seen.index("plan") < seen.index("charge")
    assert seen.count("file") == (family is fit_a_graph)
    assert "file" not in seen[1:]
    assert seen.count("charge") == seen[: len(seen) - seen[::-1].index("draw")].count("charge")


def drawing(seen):
    """The key of a release is asked for when it is drawn."""
    from sfumato.noise.keys import derive_key

    def call(key, *names):
        seen.append("draw")
        return derive_key(key, *names)

    return call


@FAMILIES
@pytest.mark.parametrize("step", ["reserve", "open", "spend"])
def test_no_family_draws_without_the_engine(family, shared, tmp_path, monkeypatch, step):
    def refuse(*_, **__):
        raise LedgerError("refused")

    monkeypatch.setattr(Spending, step, refuse)
    monkeypatch.setattr(pate_run, "answer", lambda *_: pytest.fail("drawn"))
    monkeypatch.setattr("sfumato.method.contract.derive_key", lambda *_: pytest.fail("drawn"))
    with pytest.raises(LedgerError, match="refused"):
        family(tmp_path / "run", shared)
    own = tmp_path / "run" / "ledger.jsonl"
    assert not own.exists() or '"kind":"release"' not in own.read_text()


def test_what_cannot_be_marked_as_spent_is_not_charged(shared, tmp_path):
    """The claim is said to be spent first: a claim that another run drew under leaves this run's ledger as it was."""
    first = Spending(ENTRY, shared)
    first.reserve(DATASET)
    second = replace(first, mark="f" * 32)
    first.open(None).charge("aggregate/1")
    ledger = second.open(tmp_path / "own.jsonl")
    with pytest.raises(LedgerError, match="is spent"):
        ledger.charge("aggregate/1")
    assert len(ledger.entries) == len((tmp_path / "own.jsonl").read_text().splitlines()) == 1


def test_a_release_out_of_order_spends_nothing(shared):
    spending = Spending(ENTRY, shared)
    spending.reserve(DATASET)
    with pytest.raises(BudgetExceededError):
        spending.open(None).charge("aggregate/2")
    assert marks(shared) == {spending.run: {}}


def test_a_run_has_one_claim_and_one_mark_of_its_first_noise(shared):
    spending = Spending(ENTRY, shared)
    for _ in range(2):
        spending.reserve(DATASET)
        spending.open(None).charge_all()
        spending.spend("aggregate/1", "a" * 32)
    assert len(read_account(shared.path).claims) == 1
    assert marks(shared) == {spending.run: {"first noise": spending.mark, "aggregate/1": "a" * 32}}


@pytest.mark.parametrize(
    ("keep", "said"),
    [(None, "No ledger"), (0, "lacks charges"), (1, "lacks charges"), (1.5, "lacks charges"), (2, "aggregate/2")],
)
def test_a_ledger_that_lost_what_was_computed_is_refused_and_left_as_it_is(tmp_path, keep, said):
    path = tmp_path / "own.jsonl"
    Spending(ENTRY).open(path).charge_all()
    lines = path.read_bytes().splitlines(keepends=True)
    if keep is None:
        path.unlink()
    else:
        whole = int(keep)
        path.write_bytes(b"".join(lines[:whole]) + (lines[whole][:50] if keep > whole else b""))
    before = path.read_bytes() if path.exists() else None
    with pytest.raises(LedgerError, match=said):
        Spending(ENTRY, resumed=True, computed=("aggregate/1", "aggregate/2")).open(path)
    assert (path.read_bytes() if path.exists() else None) == before


def test_a_new_run_never_takes_up_a_ledger(tmp_path):
    Spending(ENTRY).open(tmp_path / "own.jsonl")
    with pytest.raises(LedgerError, match="choose a new folder"):
        Spending(ENTRY).open(tmp_path / "own.jsonl")


@pytest.mark.parametrize("resumable", [False, True])
def test_of_two_fits_with_one_ledger_file_the_second_charges_nothing(shared, tmp_path, monkeypatch, resumable):
    """The second begins when the first is about to reserve; its error does not speak of the charges of the first."""
    graph = stochastic_block_model(40, 2, mean_degree=8, num_features=3, seed=1).with_split(seed=0)
    plan = sf.LabelMessages().calibrate(sf.Budget(2.0, 1e-6), UNIT, graph.public_facts(UNIT))
    path, real, errors = tmp_path / "run" / "ledger.jsonl", Spending.reserve, []

    def fit(name):
        state = FitState.create(tmp_path / name) if resumable else None
        return plan.fit(graph, ledger=path, dataset_ledger=shared, state=state)

    def second_first(*given):
        if not errors:
            errors.append(None)
            with pytest.raises(LedgerError, match="choose a new folder") as caught:
                fit("second")
            errors[0] = caught.value
        return real(*given)

    monkeypatch.setattr(Spending, "reserve", second_first)
    first = fit("first")
    account = read_account(shared.path)
    assert [account.state(claim) for claim in account.claims] == ["spent"]
    assert first.ledger.complete
    assert path.read_text() == first.ledger.text()
    assert getattr(errors[0], "__notes__", []) == []


def test_a_refused_claim_leaves_no_ledger_of_the_run(tmp_path):
    small = DatasetLedger(tmp_path / "toy.jsonl", 0.5)
    with pytest.raises(BudgetExceededError):
        Spending(ENTRY, small).begin(tmp_path / "runs" / "first" / "own.jsonl", DATASET)
    assert [path.name for path in tmp_path.iterdir()] == ["toy.jsonl.lock"]


def test_a_run_that_finds_the_ledger_of_a_charged_one_does_not_speak_of_its_charges(tmp_path):
    graph = stochastic_block_model(40, 2, mean_degree=8, num_features=3, seed=1).with_split(seed=0)
    plan = sf.LabelMessages().calibrate(sf.Budget(2.0, 1e-6), UNIT, graph.public_facts(UNIT))
    plan.fit(graph, ledger=tmp_path / "own.jsonl")
    with pytest.raises(LedgerError, match="choose a new folder") as caught:
        plan.fit(graph, ledger=tmp_path / "own.jsonl")
    assert not hasattr(caught.value, "__notes__")


def test_without_privacy_there_is_nothing_to_claim(shared):
    free = PlanEntry("mlp", sf.NoPrivacy(), (), None, None, 0.0)
    with pytest.raises(InputError, match="None without privacy"):
        Spending(free, shared).reserve(DATASET)
    assert not shared.path.exists()
    assert Spending(free).open(None).complete


def test_only_a_first_attempt_begins_a_ledger(tmp_path):
    shared = DatasetLedger(tmp_path / "l.jsonl", total_epsilon=5.0)
    state = FitState.create(tmp_path / "private")
    again = [Spending(ENTRY, shared, begins=False), Spending(replace(ENTRY, history="a" * 32), shared)]
    again += [Spending.of_state(ENTRY, shared, state, {}, {}), Spending.of_state(ENTRY, shared, state, {}, {})]
    for spending in again:
        with pytest.raises(InputError, match="no other is begun in its place"):
            spending.reserve(DATASET)
    assert not begun(shared.path)
    small = DatasetLedger(tmp_path / "small.jsonl", total_epsilon=ENTRY.epsilon / 2)
    with pytest.raises(BudgetExceededError):
        Spending(ENTRY, small).begin_shared(DATASET)
    assert not begun(small.path)
    Spending(ENTRY, shared).begin_shared(DATASET)
    assert read_account(shared.path).claims == ()
    for spending in again[1:]:
        spending.reserve(DATASET)
        spending.begin_shared(DATASET)
    assert len(read_account(shared.path).claims) == 2
    state.close()


class TestState:
    @pytest.fixture
    def state(self, tmp_path):
        state = FitState.create(tmp_path / "private")
        yield state
        state.close()

    def spending(self, state, terms=None, data=b"graph", entry=ENTRY):
        return Spending.of_state(entry, None, state, terms or {"seed": 0}, {"graph": data})

    def test_a_repetition_has_the_same_run_and_mark(self, state):
        first, again = self.spending(state), self.spending(state)
        assert (first.run, first.mark) == (again.run, again.mark) == (state.run, state.mark("plan", "graph"))
        assert (first.resumed, again.resumed) == (False, True)

    def test_what_it_bound_was_computed(self, state):
        self.spending(state)
        state.bind("aggregate/1", b"operand")
        assert self.spending(state).computed == ("aggregate/1",)

    @pytest.mark.parametrize(
        "change", [{"terms": {"seed": 1}}, {"data": b"other"}, {"entry": replace(ENTRY, epsilon=2.0)}]
    )
    def test_anything_else_is_refused(self, state, change):
        self.spending(state)
        with pytest.raises(LedgerError, match="differs from the stopped one"):
            self.spending(state, **change)


def imports(path):
    tree = ast.parse(path.read_text())
    return {node.module for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)}


def test_the_engine_knows_neither_graphs_nor_votes():
    own = {module.split(".")[1] for module in imports(Path(engine.__file__)) if module.startswith("sfumato")}
    assert own == {"_validate", "privacy", "record"}


def test_what_stays_on_disk_names_no_family():
    """Nor does the engine; the caller says which methods' runs it takes."""
    for path in (*Path(record.__file__).parent.glob("*.py"), Path(engine.__file__)):
        assert "pate" not in path.read_text().lower(), path
        assert not {module.split(".")[1] for module in imports(path) if module.startswith("sfumato.")} & {
            "graph", "central", "local", "pate"}  # fmt: skip


@pytest.mark.parametrize("seed", [-1, 2**32, 1.5, True])
def test_a_bad_seed_is_refused_before_anything_is_charged(tmp_path, seed):
    graph = stochastic_block_model(40, 2, mean_degree=8, num_features=3, seed=1).with_split(seed=0)
    plan = sf.GAP(width=4, epochs=1).calibrate(sf.Budget(2.0, 1e-6), UNIT, graph.public_facts(UNIT))
    with pytest.raises(InputError, match="seed to be an integer"):
        plan.fit(graph, seed=seed, ledger=tmp_path / "ledger.jsonl")
    assert not (tmp_path / "ledger.jsonl").exists()
    plan.fit(graph, seed=np.int64(3), ledger=tmp_path / "ledger.jsonl")
