"""The catalog names every method for the command line and for stored runs, one line for each method.

A method is imported when it is used. Nothing registers itself.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import fields
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sfumato._validate import check_choice, fail, nearest
from sfumato.errors import DataError
from sfumato.method._settings import Setting, check_effects, read_settings, settings_of
from sfumato.method.card import CardHead
from sfumato.privacy.units import Declared, unit_named

if TYPE_CHECKING:
    from sfumato.method._plan import Fitted
    from sfumato.method.contract import Listed, Method

_METHODS = (
    "central._labels:LabelMessages",
    "central._daily:DailyMessages",
    "central._piloted:PilotedMessages",
    "central._promised:PromisedMessages",
    "central._progap:ProGAP",
    "central._gap:GAP",
    "central._lpgnet:LPGNet",
    "central._edgerand:EdgeRand",
    "central._lapgraph:LapGraph",
    "central._baselines:MLP",
    "central._linear:Linear",
    "central._scattering:Scattering",
    "central._baselines:SAGE",
    "central._reference:Reference",
    "central._graph_free:GraphFree",
    "central._graph_split:GraphSplit",
    "central._dpgnn:DPGNN",
    "central._dpar:DPAR",
    "classlevel._class_dp:ClassDP",
    "classlevel._class_dp:SubclassDP",
    "classlevel._record:CNN",
    "local._hybrid:Hybrid",
    "local._lpgnn:LPGNN",
    "local._label_only:LabelOnly",
    "local._blink:Blink",
    "local._shared_counts:SharedCounts",
)
_OF_PAIRS = (
    "central._link_messages:LinkMessages",
    "local._link_prediction:LinkPrediction",
)  # score pairs of nodes, and no single nodes
_OF_GRAPHS = ("statistics._statistics:Statistics",)  # answer questions about a whole graph: `sfumato describe`
_CHOOSERS = ("central._auto:Auto",)  # become one of the methods when they are calibrated
NOT_ON_A_GRAPH = {
    "set-calibration": "It calibrates prediction sets of the run above it: name that one, with --coverage",
    "dpsgd": "It trained a network of your own: load it with that network, sf.DPSGD(module, ...).load(run).",
    "dpsgd-hops": "It trained a network of your own: load it with that network, sf.PrivateTrainer(module, ...).load(run).",
    "pate": "It learned from no graph. Load its student with sfumato.pate.load_student; check it with `sfumato verify`.",
}
"""Names in run folders that :func:`load` does not load, and what to do with these runs."""


_END = "\n    )\n"  # of a card of several lines


@cache
def _head(home: str) -> CardHead:
    """The literal part of a class's card, read from its file: importing it would take seconds."""
    module, _, name = home.partition(":")
    text = (Path(__file__).parent / f"{module.replace('.', '/')}.py").read_text(encoding="utf-8")
    own = text.index(" = ", text.index("\n    card: ", text.index(f"\nclass {name}("))) + len(" = ")
    line, rest = text[own:].split("\n", 1)
    card = _call(line) or _call(f"{line}\n{rest.partition(_END)[0]}{_END}")
    assert card is not None
    names = {field.name for field in fields(CardHead)}
    return CardHead(**{one.arg: ast.literal_eval(one.value) for one in card.keywords if one.arg in names})


def _call(text: str) -> ast.Call | None:
    """The call that a text is, or None if it ends within one. Whole files would take much longer to parse."""
    try:
        found = ast.parse(text, mode="eval").body
    except SyntaxError:
        return None
    assert isinstance(found, ast.Call)
    return found


_HOMES = {_head(home).name: home for home in (*_CHOOSERS, *_METHODS, *_OF_PAIRS)}
CARDS: Mapping[str, CardHead] = {name: _head(home) for name, home in _HOMES.items()}
"""What is known of each name without importing it."""
GRAPH_CARDS: Mapping[str, CardHead] = {_head(home).name: _head(home) for home in _OF_GRAPHS}
"""The same of what is no method of `sfumato train`, since it learns nothing of single nodes."""
_ALL = {**_HOMES, **dict(zip(GRAPH_CARDS, _OF_GRAPHS, strict=True))}
WORDS: Mapping[str, str] = {word: name for name, card in CARDS.items() for word in card.spoken}
"""The name that each word of the command line stands for."""


_NETWORKS = (
    "With privacy start with 'auto'; 'gap', 'progap' and 'dpgnn' are graph networks. Without it (--unit none) 'sage' and "
    "'reference' are."
)
_VOTES = "Noisy votes of teachers have commands of their own: `sfumato pate --help`."
_FIELD: Mapping[str, str] = {
    **dict.fromkeys(("gcn", "gat", "gin", "gnn", "sgc", "transformer", "graphtransformer"), _NETWORKS),
    "graphsage": "GraphSAGE without privacy is 'sage'; with privacy start with 'auto'.",
    "dpsgd": "DP-SGD on rows is 'mlp' with --unit node, on images 'cnn', on sub-graphs 'dpgnn'; on a network of your own it is "
    "sf.DPSGD in Python.",
    **dict.fromkeys(("dpgcn", "randomizedresponse", "rr"), "Noisy adjacencies are 'edgerand' and 'lapgraph'."),
    **dict.fromkeys(("pagerank", "appnp", "pprgo", "dpappr"), "Private PageRank is 'dpar'."),
    **dict.fromkeys(
        ("ldp", "ldpgnn", "localdp"), "Values that users randomize are learned from by 'lpgnn', 'pgc' and 'blink'."
    ),
    **dict.fromkeys(("pate", "gnmax", "lnmax"), _VOTES),
    **dict.fromkeys(("labelpropagation", "lp"), "Noisy labels of neighbors are 'label-messages'."),
    **dict.fromkeys(("logisticregression", "logreg", "svm"), "The graph-free linear model is 'linear'."),
    **dict.fromkeys(("randomforest", "xgboost", "trees"), "Trees are part of 'graph-free'."),
    **dict.fromkeys(("statistics", "degrees", "describe"), "Numbers about a graph are the command `sfumato describe`."),
}
"""What the field calls by other names: its name without hyphens, and where it is here."""


class _Classes(Mapping[str, "type[Method]"]):
    """The class of each method, imported when it is asked for."""

    def __getitem__(self, name: str) -> type[Method]:
        return _import(_HOMES[name])

    def __iter__(self) -> Iterator[str]:
        return (_head(home).name for home in _METHODS)

    def __len__(self) -> int:
        return len(_METHODS)


METHODS: Mapping[str, type[Method]] = _Classes()
"""The methods that learn the classes of nodes, by name."""
PAIR_METHODS = tuple(_head(home).name for home in _OF_PAIRS)
"""The names of the methods that score pairs of nodes."""


def _import(home: str) -> Any:
    module, _, name = home.partition(":")
    return getattr(import_module(f"sfumato.{module}"), name)


def words_with(option: str) -> tuple[str, ...]:
    """List the words of the command line that take an option.

    >>> words_with("hops")
    ('label-messages', 'progap', 'gap', 'lpgnet')
    """
    return tuple(word for word, name in WORDS.items() if option in CARDS[name].options)


def words_under(unit: str) -> tuple[str, ...]:
    """List the words of the methods that have a proof under a unit; ``unit`` is the unit's name.

    >>> words_under("link")
    ('blink',)
    """
    return tuple(word for word, name in WORDS.items() if unit in CARDS[name].units)


def check_word(word: str) -> str:
    """Return the word of a method on the command line; a name that the field has for one leads to ours.

    Case, hyphens and underscores do not matter, nor does ``-edp`` or ``-ndp`` behind a name: here that is ``--unit``.

    Raises:
        InputError: no method has this word.

    >>> check_word("gap")
    'gap'
    """
    if word in WORDS:
        return word
    raise fail("method", word, "to be one of " + ", ".join(WORDS), meant(word))


def meant(word: str) -> str:
    """Return in a sentence which method a word may mean; "" if it is like none.

    >>> meant("GAP-NDP")
    "Write 'gap' with --unit node."
    """
    bare, ours = _bare(word), {_bare(one): one for one in WORDS}
    unit = {"edp": "edge", "ndp": "node"}.get(bare[-3:])
    if unit and (name := ours.get(bare[:-3])):
        return f"Write {name!r} with --unit {unit}."
    return f"Did you mean {ours[bare]!r}?" if bare in ours else _FIELD.get(bare) or nearest(word, WORDS)


def _bare(word: str) -> str:
    return "".join(filter(str.isalnum, word.casefold()))


def method_named(name: str, **settings: Any) -> Any:
    """Build a method by its name in certificates; ``auto`` becomes one of the others when it is calibrated.

    Raises:
        InputError: a setting does not fit, or no method has this name.

    >>> method_named("gap", num_hops=3).num_hops
    3
    """
    return _import(_ALL[check_choice(tuple(_ALL), method=name)])(**settings)


def graph_method(name: str, words: Sequence[str] = ()) -> Any:
    """Build what answers questions about a whole graph, by its name, with settings as words ``NAME=VALUE``.

    Raises:
        InputError: no such method is known, or a word is no setting of it.

    >>> graph_method("statistics", ("stats=edges",)).stats
    'edges'
    """
    return method_named(name, **read_settings(_import(_ALL[check_choice(tuple(GRAPH_CARDS), name=name)]), words))


def method_for(word: str, options: Mapping[str, Any], dataset: str = "") -> Any:
    """Build a method by its word on the command line, with the options beside it.

    Args:
        word: that names the method on the command line.
        options: by name, without hyphens in front; None stands for one that is not given. ``set`` holds words NAME=VALUE.
        dataset: name of the graph, on which published settings may depend.

    Raises:
        InputError: no method has this word, or an option does not fit.

    >>> method_for("progap", {"hops": 3}).depth
    3
    >>> method_for("lpgnn", {"epsilon_x": 0.0, "epsilon_y": 1.0}).name
    'hybrid'
    """
    chosen: type[Listed] = _import(_HOMES[WORDS[check_word(word)]])
    made = chosen.from_options(options, dataset)
    unit = options.get("unit")
    check_effects(
        made, type(made)._asked(options), None if unit is None else unit_named(unit, Declared(directed=False))
    )
    return made


def given_settings(word: str, options: Mapping[str, Any]) -> dict[str, Any]:
    """Return the settings that a command line gives to the method of a word, by options of their own or by ``set``.

    >>> given_settings("gap", {"hops": 3, "set": ("width=4",)})
    {'num_hops': 3, 'width': 4}
    """
    return _import(_HOMES[WORDS[word]])._asked(options)


def explained(word: str, preset: str | None = None) -> dict[str, Setting]:
    """Return the settings of the method that a word of the command line names, by name.

    Args:
        word: that names the method on the command line.
        preset: name of a published form, which has settings of its own.

    Raises:
        InputError: no method has this word, or it has no such form.

    >>> explained("gap")["combine"].usual
    'cat'
    """
    check_word(word)
    if preset is not None:
        check_choice(words_with("preset"), "No other has published forms.", **{"method with --preset": word})
    made = method_for(word, {"preset": preset})
    return {name: one._replace(default=vars(made)[name]) for name, one in settings_of(type(made)).items()}


def load(run: str | Path) -> Fitted:
    """Load a run folder with its weights, released aggregates and certificate. Predicting from it never spends again.

    Raises:
        InputError: ``run`` is not a run folder.
        DataError: the folder is not a finished run, or was altered.
    """
    from sfumato.method._plan import Fitted
    from sfumato.record._release_folder import read_release

    run = Path(run)
    if not run.is_dir():
        raise fail(
            "run",
            str(run),
            "to be a run folder",
            "Pass the folder that --out named, of `sfumato train` or another command.",
        )
    stored = read_release(run, others=NOT_ON_A_GRAPH)
    try:
        return Fitted.from_stored(stored, method_named(stored.spec["method"], **stored.spec["settings"]))
    except (IndexError, KeyError, TypeError, ValueError) as error:
        raise DataError(f"The spec of run {str(run)!r} cannot be read: {error}. See `sfumato verify`.") from error
