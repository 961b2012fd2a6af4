"""Specifications: what is refused and how, what a cell is, and that those of the package are sound."""

from dataclasses import FrozenInstanceError, fields, replace

import pytest

from sfumato.errors import DataError, InputError
from sfumato.experiments._cells import Cell, run_cell
from sfumato.experiments._spec import SPECS, Spec, find

BUILTIN = sorted(SPECS.glob("*.toml"))
LONG = {  # minutes; on this graph every user has a value of all of 4,714 features: a report of each, or made up
    "lpgnn-table-3-2-facebook": 15,
    "lpgnn-table-3-3-facebook": 15,
    "lpgnn-figure-3-4-facebook": 30,
    "lpgnn-figure-3-5-features-facebook": 15,
    "lpgnn-figure-3-5-labels-facebook": 15,
}
LARGE = ("fb100", "reddit", "amazon")  # graphs of millions of arcs


@pytest.mark.parametrize("path", BUILTIN, ids=lambda path: path.stem)
def test_builtin_specifications_are_sound(path):
    spec = Spec.read(path)
    assert spec.name == path.stem
    full, quick = ({cell.id for cell in spec.cells(profile)} for profile in ("full", "quick"))
    assert quick < full
    assert len(full) == len(spec.cells())
    most = 60 if spec.name.rpartition("-")[2] in LARGE else 5
    assert 0 < spec.quick.minutes <= LONG.get(spec.name, most)
    labels = {run.label: run for run in spec.runs}
    assert all(labels[number.label].unit != "edge" or not labels[number.label].epsilons for number in spec.published)
    assert all(number.source.startswith("Table") for number in spec.published)
    roles = {run.role for run in spec.runs}
    assert "ceiling" in roles
    assert {"floor", "no-information"} & roles
    arcs = [run for run in spec.runs if run.unit == "arc"]
    edges = [run for run in spec.runs if run.unit == "edge" and run.epsilons]
    same = [[(r.method, r.epsilons, r.settings, r.values) for r in runs] for runs in (arcs, edges)]
    assert all(run in same[1] for run in same[0]), (
        "what counts arcs has a row that counts edges; rows of ours may count edges alone"
    )


@pytest.mark.parametrize("path", [path for path in BUILTIN if "gap-" in path.stem], ids=lambda path: path.stem)
def test_every_figure_of_a_central_method_has_its_controls(path):
    """Graph-free floors at its unit and every budget, one hop of label messages at its unit, budgets and cap, and a ceiling."""
    runs = Spec.read(path).runs
    floors = {"edge": ("mlp", "graph-free"), "node": ("mlp", "linear")} if path.stem.startswith("gap-") else {}
    for unit in {run.unit for run in runs if run.role == "method"}:
        budgets = {one for run in runs if run.role == "method" and run.unit == unit for one in run.epsilons}
        word = "edge" if unit == "arc" else unit
        for method in floors.get(word, ("mlp",)):
            (floor,) = (run for run in runs if (run.role, run.method, run.unit) == ("floor", method, word))
            assert set(floor.epsilons) == (budgets if word == "node" else set())
        (control,) = (run for run in runs if run.role == "label-control" and run.unit == unit)
        assert dict(control.settings) == {"num_hops": 1}
        assert set(control.epsilons) == budgets
        capped = [run for run in runs if run.role == "method" and run.unit == unit and run.method in ("gap", "progap")]
        assert {run.max_degree for run in capped} == {control.max_degree}
        assert all(run.values == control.values for run in capped if run.vary == "max_degree")
    assert any(run.role == "ceiling" and run.unit == "none" for run in runs)


def test_cells_of_small(small):
    spec = Spec.read(small)
    assert [str(cell) for cell in spec.cells("quick")] == [
        "GAP, epsilon 1, seed 0",
        "MLP, seed 0",
        "GAP, epsilon 1, seed 1",
        "MLP, seed 1",
    ]
    assert len(spec.cells()) == 9
    first = spec.cells()[0]
    assert first.to_dict() == {
        "spec": "small", "label": "GAP", "method": "gap", "dataset": "campus", "split": "75/10/15", "unit": "edge",
        "epsilon": 1.0, "delta": 1e-6, "max_degree": None, "settings": {"epochs": 1, "num_hops": 1}, "seed": 0, "at": None,
    }  # fmt: skip


def test_id_depends_on_every_field(small):
    first = Spec.read(small).cells()[0]
    other = {"epsilon": 2.0, "delta": 1e-7, "max_degree": 5, "settings": (("epochs", 2),), "seed": 9, "at": 1}
    changed = {field.name: other.get(field.name, "other") for field in fields(Cell)}
    ids = {replace(first, **{name: value}).id for name, value in changed.items()}
    assert len(ids | {first.id}) == len(changed) + 1


def test_a_cell_names_its_curves_only_where_they_are_kept(small):
    """Results of before stay those of their cells; a run that begins to keep curves is run again."""
    before = Spec.read(small).cells()
    small.write_text(small.read_text().replace("epsilons = [1, 4]", "epsilons = [1, 4]\ncurves = true"))
    after = Spec.read(small).cells()
    assert "curves" not in before[0].to_dict()
    assert after[0].to_dict() == {**before[0].to_dict(), "curves": True}
    assert [one.id == two.id for one, two in zip(before[:3], after[:3], strict=True)] == [False, False, True]


def test_varied_settings_reach_the_cells(small):
    text = small.read_text().replace(
        "{ epochs = 1, num_hops = 1 }", '{ epochs = 1 }\nvary = "num_hops"\nvalues = [1, 3]'
    )
    small.write_text(
        text.replace('axis = "epsilon"', 'axis = "num_hops"').replace("epsilon = 4\nval", "epsilon = 4\nat = 3\nval")
    )
    spec = Spec.read(small)
    assert [(c.epsilon, c.at, dict(c.settings).get("num_hops")) for c in spec.cells()[:5]] == [
        (1.0, 1, 1), (4.0, 1, 1), (1.0, 3, 3), (4.0, 3, 3), (None, None, None),
    ]  # fmt: skip


def test_degree_caps_reach_the_unit():
    cells = [cell for cell in find("gap-figure-4-9").cells("quick") if cell.method == "gap" and cell.unit == "node"]
    assert {(cell.at, cell.max_degree) for cell in cells} == {(10, 10), (50, 50), (100, 100), (400, 400)}
    assert "max_degree" not in dict(cells[0].settings)


def test_frozen_and_digest(small):
    spec = Spec.read(small)
    with pytest.raises(FrozenInstanceError):
        spec.seeds = 4
    assert spec.digest == Spec.read(small).digest != spec.on(seeds=4).digest
    small.write_text(small.read_text().replace("76.3", "76.4"))
    assert Spec.read(small).digest != spec.digest


def test_on_another_data_set():
    spec = find("gap-table-4-2")
    other = spec.on("facebook100/UIllinois20", seeds=2)
    assert (spec.stands_in_for, other.stands_in_for) == ("facebook100/UIllinois20", None)
    assert {cell.dataset for cell in other.cells()} == {"facebook100/UIllinois20"}
    assert {cell.seed for cell in other.cells("quick")} == {cell.seed for cell in other.cells()} == {0, 1}
    with pytest.raises(InputError, match="seeds"):
        spec.on(seeds=0)


def test_small_classes_are_left_out(small):
    """Campus has classes of 415 to 842 students."""
    plain = Spec.read(small)
    assert "min_class_size" not in plain.cells()[0].to_dict()
    small.write_text(small.read_text().replace('dataset = "campus"', 'dataset = "campus"\nmin_class_size = 900'))
    spec = Spec.read(small)
    assert spec.digest != plain.digest
    assert {cell.min_class_size for cell in spec.cells()} == {900}
    assert spec.cells()[0].id != plain.cells()[0].id
    assert spec.on("planetoid/cora").min_class_size is None
    texts = find("graph-split-table-2-hashing")
    assert texts.on("text/citeseer_text+bag-of-words").min_class_size == texts.min_class_size
    with pytest.raises(DataError, match="min_class_size=900"):
        run_cell(spec.cells()[0], None)
    for name, keys in (
        ("pate-evaluation", {}),
        ("pgc-table-2-3-cora-links", {}),
        ("gap-table-4-2", {"dataset": "graph:x"}),
    ):
        with pytest.raises(InputError, match="Expected min_class_size to be left out here, got 5"):
            replace(find(name), min_class_size=5, **keys)


@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        ('title = "A', 'titel = "A', "small.toml to be one of .*'titel'. Did you mean 'title'"),
        ("[[run]]\nlabel = \"MLP\"", "[[runs]]\nlabel = \"MLP\"", "Did you mean 'run'"),
        ("settings = { epochs = 1 }", "setings = { epochs = 1 }", "run 2 .*Did you mean 'settings'"),
        ("minutes = 0.1", "minuts = 0.1", "quick .*Did you mean 'minutes'"),
        ("half_width", "halfwidth", "published 1 .*Did you mean 'half_width'"),
        ('method = "gap"', 'method = "gpa"', "run 1: .*Did you mean 'gap'"),
        ('unit = "edge"\nepsilons', 'unit = "edges"\nepsilons', "Did you mean 'edge'"),
        ("num_hops = 1", "num_hop = 1", "setting of gap .*Did you mean 'num_hops'"),
        ("num_hops = 1", "num_hops = 0", "num_hops to be an integer >= 1 and <= 1000, got 0"),
        ("num_hops = 1", "num_hops = [1]", "num_hops in .* to be text, a number"),
        ('role = "floor"', 'role = "flor"', "Did you mean 'floor'"),
        ('dataset = "campus"', 'dataset = "kampus"', "Did you mean 'campus'"),
        ('axis = "epsilon"', 'axis = "num_hops"', "Expected axis to be one of epsilon"),
        ('split = "75/10/15"', 'split = "75/10"', "Expected split to be A/B/C"),
        ('name = "small"', 'name = "../small"', "Expected name to be lower-case"),
        ("delta = 1e-6\n", "", "to come with a delta"),
        ("delta = 1e-6", "delta = 2", "delta to be a finite number"),
        ("epsilons = [1, 4]", "epsilons = []", "to hold a budget, which gap spends under unit edge"),
        ("epsilons = [1, 4]", "epsilons = [1, 1]", "epsilons to appear once"),
        ("epsilons = [1, 4]", "epsilons = 4", "epsilons to be a list"),
        ("epsilons = [1, 4]", 'epsilons = ["4"]', "epsilons to be a number, got '4'"),
        ("epsilons = [1, 4]", "epsilons = [true]", "epsilons to be a number, got True"),
        ("epsilons = [1]", "epsilons = [2]", "quick epsilons to be among those of a run, got 2.0"),
        ("epsilons = [1]", "values = [2]", "quick values to be among those of a run, got 2"),
        ('[[run]]\nlabel = "MLP"', '[[run]]\nlabel = "G"\nmethod = "gap"\nunit = "edge"\nepsilons = [9]\ndelta = 1e-6\n\n'
         '[[run]]\nlabel = "MLP"', "to keep something of every run, got .'G'"),
        ("seeds = 2", "seeds = 4", "quick_seeds to be an integer >= 1 and <= 3"),
        ("seeds = 3", "", "to have the key 'seeds'"),
        ("seeds = 3", 'seeds = "3"', "seeds to be an integer, got '3'"),
        ('label = "MLP"', 'label = "GAP"', "label to appear once"),
        ('label = "MLP"', 'label = " "', "label to be one line of printable text"),
        ('label = "MLP"', 'label = "a\\u001b[31m"', "label to be one line of printable text"),
        ('label = "GAP"\nepsilon', 'label = "GAB"\nepsilon', "published label .*Did you mean 'GAP'"),
        ("epsilon = 4\n", "epsilon = 3\n", "to have the epsilon and the at"),
        ("value = 76.3", "value = 763", "value to be a finite number"),
        ('settings = { epochs = 1 }', 'max_degree = 5', "to come with unit node only"),
        ('settings = { epochs = 1 }', 'vary = "epochs"', "to say what vary = 'epochs' takes"),
        ('settings = { epochs = 1 }', 'settings = { epochs = 1 }\nvary = "epochs"\nvalues = [1]', "no fixed value beside"),
        ('method = "mlp"', 'method = "sage"\ncurves = true', "curves to be left out with method sage, got True. gap, mlp"),
        ("[quick]", "[quick", "to be TOML"),
        ("[quick]", "[[quick]]", r"Expected quick in .*small.toml to be one TOML table, got .* under \[quick\]\."),
        ('settings = { epochs = 1 }', 'settings = 3', r"settings in .*run 2 to be one TOML table, got 3\. Write settings = {"),
        ("[[published]]", "[published]", r"published in .*small.toml to be TOML tables, got a single table.* \[\[published\]\]"),
    ],
)  # fmt: skip
def test_bad_specifications(small, contradicts, old, new, expected):
    assert str(small) in contradicts(small, old, new, expected)


def test_wrong_tables_of_runs(small):
    head, first, *_ = small.read_text().split("[[run]]")
    for text, expected in (
        (head, r"small.toml: Expected run to be one table or more, got \[\]"),
        (f"{head}[run]{first}", r"Expected run in .*small.toml to be TOML tables, got a single table\..* \[\[run\]\]"),
        (f"run = 3\n{head}", r"Expected run in .*small.toml to be TOML tables, got 3\."),
        (f"quick = 3\n{head.partition('[quick]')[0]}", r"Expected quick in .*small.toml to be one TOML table, got 3\."),
    ):
        small.write_text(text)
        with pytest.raises(InputError, match=expected):
            Spec.read(small)


def test_a_number_is_published_once(small):
    text = small.read_text()
    small.write_text(text + text[text.index("[[published]]") :].replace("76.3", "70"))
    with pytest.raises(InputError, match=r"published to appear once, got .'GAP', 4.0, None."):
        Spec.read(small)
