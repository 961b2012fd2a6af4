"""`--set NAME=VALUE` and `sfumato methods METHOD`: every setting of every method, from the command line."""

import json
from dataclasses import make_dataclass
from types import SimpleNamespace

import pytest

from sfumato.catalog import CARDS, WORDS, explained, method_for
from sfumato.cli._methods import complete_setting
from sfumato.errors import InputError
from sfumato.method._settings import Setting, settings_of

EDGE = ("--dataset", "campus", "--unit", "edge", "--epsilon", "1", "--delta", "1e-6", "--no-controls")


@pytest.mark.parametrize("word", WORDS)
def test_every_setting_has_a_meaning_and_reads_its_own_default(word):
    for name, setting in explained(word).items():
        assert setting.meaning.endswith("."), name
        assert setting.read(setting.usual) == setting.default


@pytest.mark.parametrize(
    ("word", "given", "name", "value"),
    [
        ("gap", "encoder=false", "encoder", False),
        ("gap", "combine = sum", "combine", "sum"),
        ("progap", "layerwise=True", "layerwise", True),
        ("edgerand", "mean_degree=12", "mean_degree", 12.0),
        ("edgerand", "asymmetric=false", "asymmetric", False),
        ("graph-split", "num_groups=10", "num_groups", 10),
        ("dpar", "num_roots=none", "num_roots", None),
        ("dpar", "mechanism=gaussian", "mechanism", "gaussian"),
        ("class-dp", "sampling_prob=0.1", "sampling_prob", 0.1),
        ("lpgnn", "label_mechanism=randomized-response", "label_mechanism", "randomized-response"),
    ],
)
def test_settings_are_typed(word, given, name, value):
    found = getattr(method_for(word, {"set": (given,)}), name)
    assert found == value
    assert type(found) is type(value)


def test_options_and_settings_go_together():
    made = method_for("gap", {"hops": 3, "set": ("combine=sum", "epochs=4")})
    assert (made.num_hops, made.combine, made.epochs) == (3, "sum", 4)


@pytest.mark.parametrize(
    ("word", "given", "message"),
    [
        ("gap", ("width",), "Expected --set NAME=VALUE, got 'width'"),
        ("gap", ("widht=3",), "Did you mean 'width'"),
        ("gap", ("width=3.5",), "Expected setting width to be an integer, got '3.5'"),
        ("gap", ("encoder=1",), "Expected setting encoder to be true or false"),
        ("gap", ("epochs=many",), "to be an integer, or none, got 'many'"),
        ("gap", ("width=none",), "to be an integer, got 'none'"),
        ("gap", ("width=0",), "Expected width to be an integer >= 1"),
        (
            "gap",
            ("width=1000000000000000000000",),
            "Expected setting width to be an integer <= 1099511627776, got 1000",
        ),
        ("blink", ("learning_rate=11",), "Expected learning_rate to be a finite number > 0 and <= 10"),
        ("gap", ("combine=max",), "Expected combine to be one of"),
        ("gap", ("width=3", "width=4"), "Expected --set width once"),
        ("gap", ("num_hops=3",), "Expected --hops 3 instead of --set num_hops=3"),
        (
            "gap",
            ("depth=3",),
            "Expected --set with gap to be one of width, .*, l2_clip_norm, encoder, combine",
        ),
        ("pgc", ("low=nan",), "Expected `low` to be a finite number"),
        ("pgc", ("high=inf",), "Expected `high` to be a finite number, got inf"),
        ("pgc", ("dropout=inf",), "Expected dropout to be a finite number >= 0 and < 1, got inf"),
        ("auto", ("width=3",), "Expected --set with auto to be one of composition, got 'width'"),
    ],
)
def test_wrong_settings_are_refused(word, given, message):
    with pytest.raises(InputError, match=message):
        method_for(word, {"set": given})


WRONG = {"int": ("x", "1.5", "-7"), "float": ("x", "nan", "inf"), "bool": ("1", "on"), "str": ("zzz", "")}


@pytest.mark.parametrize("word", WORDS)
def test_every_wrong_value_is_told_by_the_name_that_was_written(word):
    for name, setting in explained(word).items():
        for value in () if setting.option else WRONG[setting.kind.partition(" ")[0]]:
            if (name, value) == ("epsilon_y", "inf"):  # of pgc-links: in the clear, as it always is there
                continue
            with pytest.raises(InputError, match=rf"^Expected (setting )?`?{name}`? to be .*, got "):
                method_for(word, {"set": (f"{name}={value}",)})


@pytest.mark.parametrize(
    ("word", "options", "given", "message"),
    [
        ("dpar", {}, "rho=0.1", ""),
        ("dpar", {}, "mechanism=none rho=0.1", "--set rho only with mechanism auto, .* or unreleased, got it with mechanism n"),
        ("dpar", {}, "mechanism=none alpha=0.1", "or with public_test_graph true, got it with mechanism none and with pub"),
        ("dpar", {}, "mechanism=none public_test_graph=true alpha=0.1", ""),
        ("dpar", {"unit": "node"}, "power_steps=3", "only with public_test_graph true, or where labels are "
         "public, got it with public_test_graph false and with --unit node, where it has no"),
        ("dpar", {"unit": "edge"}, "power_steps=1", ""),
        ("dpar", {"unit": "edge"}, "steps=9", "where labels are private, or under unit none, got it with --unit edge, where"),
        ("dpar", {"unit": "edge"}, "width=9", "only where labels are private, or under unit none, got it with --unit edge"),
        ("dpar", {"unit": "none"}, "batch_size=9", "only where labels are private, got it with --unit none, where it has no"),
        ("gap", {"unit": "node"}, "batch_size=9", ""),
        ("gap", {"unit": "edge"}, "batch_size=9", "--set batch_size only where labels are private, got it with --unit edge"),
        ("edgerand", {}, "mean_degree=3 count_share=0.1", "only with mean_degree none, got it with mean_degree 3, where"),
        ("edgerand", {}, "asymmetric=false mean_degree=3", "Expected no --set mean_degree with asymmetric false"),
        ("lapgraph", {}, "mean_degree=3", ""),
        ("class-dp", {"network": "softmax"}, "width=9", "Expected no --set width with --network softmax"),
        ("class-dp", {"unit": "none", "steps": 9}, "", "Expected --steps only under a private unit, got it with --unit none"),
        ("label-only", {}, "low=-1", "Expected no --set low with --epsilon-x 0"),
        ("label-only", {}, "mechanism=pgc", "Expected no --set mechanism with --epsilon-x 0"),
        ("lpgnn", {"epsilon_x": float("inf")}, "cap=9", "Expected no --set cap with --epsilon-x inf"),
        ("pgc", {"epsilon_y": float("inf")}, "label_mechanism=subset", "Expected no --set label_mechanism with --epsilon-y inf"),
        ("pgc", {"epsilon_x": 1.0}, "features_in=ones", "Expected --epsilon-x to be 0, as the other settings fix it, got 1."),
        ("pgc", {"epsilon_x": 0.0}, "features_in=ones", ""),
        ("pgc", {"mechanism": "pgc"}, "per_feature=false", "Expected mechanism with per_feature=True"),
    ],
)  # fmt: skip
def test_a_setting_without_effect_is_refused(word, options, given, message):
    asked = {**options, "set": tuple(given.split())}
    if message:
        with pytest.raises(InputError, match=message):
            method_for(word, asked)
    else:
        assert method_for(word, asked)


@pytest.mark.parametrize("word", [word for word in WORDS if word != "auto"])
def test_where_a_setting_has_an_effect_is_said_by_settings_that_exist(word):
    known = explained(word)
    every = {name for other in WORDS for name in explained(other)} | {"unit", "labels"}
    for setting in known.values():
        for where in (*setting.only, setting.unless):
            assert set(where) <= every
            for name in set(where) & set(known):
                choices = [value for value in where[name] if isinstance(value, str)]
                assert all(f'"{choice}"' in known[name].meaning for choice in choices)
        assert bool(setting.where(known)) == bool(setting.only or set(setting.unless) & set(known))


def test_a_published_form_explains_its_own_settings(sfumato):
    shown = sfumato("methods", "lpgnn", "--preset", "lpgnn-2021").out
    assert "steps_y: an integer (default: 8)\n      Hops K_y of labels" in shown
    assert "Has an effect only with loss drop." in shown
    assert "sfumato methods lpgnn --preset lpgnn-2021 (or pgc-2020)" in sfumato("methods", "lpgnn").out
    assert (
        "Expected method with --preset to be one of lpgnn, got 'gap'"
        in sfumato("methods", "gap", "--preset", "pgc-2020").err
    )
    assert sfumato("methods", "--preset", "pgc-2020").code == 2


@pytest.mark.parametrize("word", WORDS)
def test_defaults_are_those_of_a_command_without_options(word):
    made = method_for(word, {})
    assert {name: one.default for name, one in explained(word).items()} == {
        name: getattr(made, name) for name in explained(word)
    }


def test_what_no_machine_holds_is_refused_before_it_is_charged(sfumato, small_campus, tmp_path):
    ledger = tmp_path / "ledger.jsonl"
    asked = (
        "gap",
        *EDGE,
        "--set",
        f"width={2**40}",
        "--ledger",
        ledger,
        "--total-epsilon",
        "2",
        "--out",
        tmp_path / "run",
    )
    done = sfumato("train", *asked)
    assert (done.code, "to hold at most" in done.err, ledger.exists()) == (2, True, False)


def test_the_partition_has_an_option():
    with pytest.raises(InputError, match="Expected --partition"):
        method_for("subclass-dp", {"partition": "kmeans", "set": ("kmeans=false",)})
    assert method_for("subclass-dp", {"partition": "kmeans"}).kmeans


@pytest.mark.parametrize("word", ["a word", "an integer"])
def test_kinds_are_told(word):
    assert any(setting.takes == word for setting in explained("dpar").values())


def test_a_setting_reaches_the_certificate_and_the_plan_of_a_check(sfumato, small_campus, tmp_path):
    out = tmp_path / "run"
    asked = ("linear", *EDGE, "--set", "epochs=2", "--set", "learning_rate=0.1")
    assert sfumato("train", *asked, "--out", out).code == 0
    stored = json.loads((out / "release" / "spec.json").read_text())["settings"]
    assert (stored["epochs"], stored["learning_rate"]) == (2, 0.1)
    assert sfumato("verify", out).code == 0
    wrong = sfumato("check", "linear", *EDGE, "--set", "epochs=0")
    assert wrong.code == 2
    assert "Expected epochs to be an integer >= 1" in wrong.out + wrong.err


def test_methods_explains_one(sfumato):
    shown = sfumato("methods", "gap").out
    assert "num_hops: an integer, or none (default: none), set with --hops" in shown
    assert "sfumato train gap --set learning_rate=0.01" in shown
    told = json.loads(sfumato("methods", "gap", "--json").out)
    assert told["units"] == list(CARDS["gap"].units)
    assert [one["name"] for one in told["settings"]] == list(explained("gap"))
    assert "Units: none, without privacy alone." in sfumato("methods", "sage").out
    assert "composition: a word (default: basic)" in sfumato("methods", "auto").out
    assert sfumato("methods", "gapp").code == 2


@pytest.mark.parametrize(
    ("word", "begun", "names"), [("gap", "e", {"epochs=", "encoder="}), ("gap", "num", set()), ("none", "e", set())]
)
def test_settings_are_completed(word, begun, names):
    context = SimpleNamespace(params={"method": word})
    assert {name for name, _ in complete_setting(context, begun)} == names


def test_settings_of_a_published_form_are_completed():
    context = SimpleNamespace(params={"method": "lpgnn", "preset": "lpgnn-2021"})
    assert {name for name, _ in complete_setting(context, "steps")} == {"steps_x=", "steps_y="}


def test_types_are_known_where_annotations_are_no_text():
    made = make_dataclass("Toy", [("depth", int, 1), ("share", float | None, None), ("rows", tuple[int, ...], ())])
    made.card = CARDS["linear"]
    assert {one.name: one.takes for one in settings_of(made).values()} == {
        "depth": "an integer", "share": "a number, or none", "rows": "integers with commas between"
    }  # fmt: skip


def test_an_unset_value_is_written_as_none():
    assert Setting("depth", "int | None", None, "").usual == "none"
