"""The page about an experiment: its numbers, escaping, structure, and the same content as Markdown."""

import re
import shlex
from html import unescape
from types import SimpleNamespace
from xml.etree import ElementTree

import pytest
from report_samples import HOSTILE, assert_sound, make_rows, make_run

from sfumato.experiments._results import sum_up
from sfumato.report import experiment_figures, experiment_markdown, experiment_page
from sfumato.report._experiment import ceiling_of, floor_of, gain_of


def cells(page):
    """Tables of a page by their caption: header and rows of text."""
    found = {}
    for table in ElementTree.fromstring(page).iter("table"):
        rows = [tuple("".join(cell.itertext()) for cell in row) for row in table.iter("tr")]
        found["".join(table.find("caption").itertext())] = rows
    return found


def table(page, words):
    """The one table whose caption holds some words."""
    (rows,) = [rows for caption, rows in cells(page).items() if words in caption]
    return rows


def replaced(spec, **fields):
    return SimpleNamespace(**{**vars(spec), **fields})


def markdown_rows(text):
    """Cells of all table rows of a Markdown page."""
    lines = [line for line in text.splitlines() if line.startswith("| ") and not line.startswith("| ---")]
    return [tuple(unescape(re.sub(r"\\(.)", r"\1", cell)) for cell in line[2:-2].split(" | ")) for line in lines]


def test_controls_fit_the_unit_and_the_budget(spec, rows):
    lines = sum_up(spec, rows)
    edge, node = lines[1], lines[3]
    assert floor_of(edge, lines).label == "MLP edge"
    assert floor_of(node, lines).label == "MLP node"
    assert gain_of(edge, lines) == pytest.approx((0.7 - 0.5) / (0.9 - 0.5))
    assert ceiling_of(edge, lines).label == "SAGE"
    other_budget = [line for line in lines if line.label != "MLP node"]
    other_budget.append(SimpleNamespace(**{**vars(lines[5]), "epsilon": 8.0, "mean": 0.4}))
    assert floor_of(node, other_budget) is None
    assert gain_of(node, other_budget) is None


def test_page_is_sound_and_repeats_itself(spec, rows, toy_figures):
    page = experiment_page(spec, rows, date="2026-11-21")
    root = assert_sound(page)
    assert len(list(root.iter("{http://www.w3.org/2000/svg}svg"))) == 1
    assert page == experiment_page(spec, rows, date="2026-11-21")
    assert experiment_figures(spec, rows) == toy_figures


def test_soundness_check_finds_faults(toy_page):
    faults = (
        ("<main", "<script>0</script><main"),
        ('href="#results"', 'href="https://example.org"'),
        ("<h2", "<h4"),
        (' scope="col"', ""),
        (' tabindex="0"', ""),
        ("<figure>", '<figure><img src="x.png"/>'),
    )
    for good, bad in faults:
        assert good in toy_page
        with pytest.raises((AssertionError, ElementTree.ParseError)):
            assert_sound(toy_page.replace(good, bad))


def test_page_shows_ours_beside_published(toy_page):
    page = toy_page
    accuracy = table(page, "beside the published number")
    assert accuracy[0] == (
        "Run", "Epsilon", "Ours", "95 % interval", "Macro-F1", "Seeds", "Published", "Ours minus published",
        "Where published",
    )  # fmt: skip
    assert accuracy[2] == ("GAP edge", "4", "70.0", "67.5 to 72.5", "40.0", "3", "76.3 ± 0.21", "-6.3", "Table 9")
    assert accuracy[3] == ("GAP edge", "8", "not run", "-", "-", "-", "79.0", "-", "Table 9")
    assert ("GAP node", "4", "60.0", "40.0", "MLP node", "90.0", "SAGE", "40") in table(page, "graph's gain")
    assert ("SAGE", "-", "1", "The files of Toy1 are not there.")[0] in {row[0] for row in table(page, "not run")}
    privacy = table(page, "what it claims")
    assert privacy[1][2:4] == ("any one edge", "epsilon = 1, delta = 1e-06")
    assert "5.5 times the L2 sensitivity" in privacy[1][4]
    assert privacy[-1][2:] == ("nothing: no guarantee", "no guarantee", "none")
    assert "sfumato experiment run toy.toml --quick --dataset facebook100/Toy1 --seeds 4 --data-dir DATA" in page
    for text in (
        "those of at least 1,234 nodes",
        "stands in for facebook100/Other2",
        "leaves out its seeds",
        "Not covered by the guarantee",
        "3.11",
    ):
        assert text in page


def test_convergence_is_drawn_from_what_every_seed_measured(spec, rows, toy_page, toy_figures):
    """Means over seeds at the end of each stage, beside the number of steps; long curves are thinned in the figure alone."""
    curves = {"stage/0": {"train": [0.2, 0.5], "validation": [0.1, 0.4]}, "stage/1": {"train": [0.7] * 700}}
    made = [
        {**row, "metrics": {**row["metrics"], "curves": curves}} if row["label"] == "GAP node" else row for row in rows
    ]
    page = experiment_page(spec, made)
    assert_sound(page)
    ends = table(page, "last step of each stage")
    assert ends[1:] == [
        ("GAP node", "4", "stage/0", "2", "50.0", "50.0 to 50.0", "40.0", "40.0 to 40.0", "3"),
        ("GAP node", "4", "stage/1", "700", "70.0", "70.0 to 70.0", "-", "-", "3"),
    ]
    figures = experiment_figures(spec, made)
    assert "42 of 702 steps are drawn" in figures["toy-convergence-1.svg"]
    assert "Evaluation, never released" in figures["toy-convergence-1.svg"]
    assert figures.keys() - toy_figures.keys() == {"toy-convergence-1.svg"}
    assert "Convergence" not in toy_page
    assert len(figures["toy-convergence-1.svg"]) < 60_000


def test_an_experiment_that_comes_along_is_run_by_its_name(spec, rows):
    spec = replaced(spec, name="gap-table-4-2")
    assert "sfumato experiment run gap-table-4-2 --quick" in experiment_page(spec, rows)


def test_the_built_in_network_needs_no_data_folder(spec, rows):
    page = experiment_page(replaced(spec, dataset="campus"), rows)
    assert "--dataset campus --seeds 4" in page
    assert "--data-dir" not in page


def test_markdown_says_the_same(spec, rows, toy_page, toy_figures):
    text = experiment_markdown(spec, rows)
    assert markdown_rows(text) == [row for rows in cells(toy_page).values() for row in rows]
    linked = re.findall(r"\]\(([^)]+\.svg)\)", text)
    assert linked == list(toy_figures) == ["toy-accuracy.svg"]
    assert text != experiment_markdown(spec, rows[:-4])


def test_accuracy_description_states_the_numbers(toy_figures):
    svg = toy_figures["toy-accuracy.svg"]
    (words,) = re.findall(r"<desc[^>]*>(.*)</desc>", svg)
    for part in (
        "GAP edge: 70.0 % (67.5 to 72.5) at 1",
        "published 76.3 %",
        "not run at 8, published 79 %",
        "SAGE: 90.0 %",
    ):
        assert part in words
    assert "stroke-dasharray" in svg


def test_hostile_names_stay_text(hostile):
    page, text = experiment_page(*hostile), experiment_markdown(*hostile)
    assert_sound(page)
    assert "alert(1)" in page
    command = text[text.index("```sh\n") : text.rindex("\n```") + 4]
    assert command.count("\n") == 2
    words = shlex.split(command)
    assert words[words.index("--dataset") + 1] == HOSTILE.replace("\x00", " ")
    text = text.replace(command, "")
    assert "<script" not in page + text
    assert "<img" not in page + text
    assert "\x00" not in page + text
    shown = HOSTILE.replace("\x00", " ")
    assert shown in "".join(ElementTree.fromstring(page).itertext())
    widths = {len(row) for row in markdown_rows(text) if row[0] == shown}
    assert widths
    for svg in experiment_figures(*hostile).values():
        ElementTree.fromstring(svg)
        assert "<script" not in svg


def test_varied_setting_is_the_axis(spec):
    runs = (
        make_run("GAP node", "node", epsilons=(4.0, 16.0), vary="max_degree", values=(10, 100)),
        make_run("MLP", "node", role="floor", epsilons=(4.0, 16.0)),
    )
    spec = replaced(spec, axis="max_degree", runs=runs, published=())
    rows = make_rows(spec, lambda run, epsilon, at: 0.5 + (at or 0) / 1000)
    svg = experiment_figures(spec, rows)["toy-accuracy.svg"]
    (words,) = re.findall(r"<desc[^>]*>(.*)</desc>", svg)
    assert "against degree cap" in words
    assert "GAP node, epsilon 16: 51.0 % (48.5 to 53.5) at 10; 60.0 % (57.5 to 62.5) at 100." in words
    assert table(experiment_page(spec, rows), "beside the published")[0][2] == "Degree cap"


def test_words_as_places(spec):
    runs = (make_run("GAP", "edge", epsilons=(4.0,), vary="encoder", values=(True, False)),)
    spec = replaced(spec, axis="encoder", runs=runs, published=())
    rows = make_rows(spec, lambda run, epsilon, at: 0.6 + 0.1 * at)
    assert "70.0 % (67.5 to 72.5) at yes; 60.0 % (57.5 to 62.5) at no" in experiment_page(spec, rows)


def test_other_seeds_and_notes_are_disclosed(spec):
    runs = (make_run("GAP", "edge", epsilons=(1.0,)), make_run("Hybrid", "edge", epsilons=(1.0,), first_seed=200))
    spec = replaced(spec, runs=runs, published=())
    rows = make_rows(spec, lambda run, epsilon, at: 0.5)
    rows[-1]["certificate"]["notes"] = ["Chosen on another graph."]
    rows[3]["certificate"] = rows[-1]["certificate"]  # the one that is shown
    text = experiment_markdown(spec, rows)
    assert "- Seeds: 3, each a fresh split" in text
    assert "- First seed of Hybrid: 200" in text
    assert "First seed of GAP" not in text
    assert "--seeds 3 " in text
    assert "- Chosen on another graph." in text


def test_one_budget_each_is_a_list_of_points(spec, rows):
    runs = tuple(run for run in spec.runs if run.label != "GAP edge")
    spec = replaced(spec, runs=runs, published=())
    page = experiment_page(spec, [row for row in rows if row["label"] != "GAP edge"])
    assert "Accuracy on facebook100/Toy1. GAP node, epsilon 4: 60.0 %" in page


def test_published_accounting_protects_nothing_whether_it_was_run_or_not(spec):
    made = make_run("PATE", "record", epsilons=(4.0,), settings=(("accounting", "as-published"),))
    page = experiment_page(replaced(spec, runs=(made,), min_class_size=None), [])
    assert table(page, "under which privacy unit")[1][:3] == ("PATE", "gap", "nothing: no guarantee")


def test_stored_votes_are_the_same_for_every_seed(spec):
    def taught(*settings):
        runs = tuple(make_run(f"PATE {one}", "record", settings=((one, "official"),)) for one in settings)
        return "its own teachers" in experiment_page(replaced(spec, images=True, runs=runs), [])

    assert [taught("votes"), taught("votes", "labels"), taught("votes", "teacher")] == [False, False, True]


def test_classes_that_the_data_set_leaves_out_are_named(spec):
    def classes(**fields):
        return re.findall("those of at least ([0-9,]*) nodes", experiment_page(replaced(spec, **fields), []))

    assert classes(min_class_size=None) == ["1,000"]
    assert classes(min_class_size=0) == classes(min_class_size=None, dataset="planetoid/cora") == []


def test_nothing_done_yet(spec, rows):
    skipped = [{**row, "status": "skipped", "reason": "No files."} for row in rows]
    page = experiment_page(spec, skipped)
    assert_sound(page)
    assert "Nothing has been run yet." in page
    assert "Graph gain kept" not in page
    assert_sound(experiment_page(spec, []))
