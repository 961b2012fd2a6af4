"""The options of `sfumato train`: their help texts and values. A resumable run stores them, and ``--resume`` reads them back."""

from __future__ import annotations

from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from sfumato.catalog import FACES, WORDS, words_with
from sfumato.cli._stopped import PRIVATE
from sfumato.errors import InputError
from sfumato.evaluation._source import Source
from sfumato.privacy.units import UNITS
from sfumato.record._deployment import Deployment

if TYPE_CHECKING:
    from sfumato.record._dataset_ledger import DatasetLedger
    from sfumato.record._resume import FitState

_CHOSEN, _IMPLIED = (
    [word for unit in UNITS if (unit.trust == "curator") == chosen for word in unit.spelled()]
    for chosen in (True, False)
)
UNIT = typer.Option(
    None,
    "--unit",
    help=f"What is protected: {', '.join(_CHOSEN[:-1])} or {_CHOSEN[-1]}. Local methods imply theirs "
    f"({' or '.join(_IMPLIED)}).",
)
EPSILON = typer.Option(
    None,
    "--epsilon",
    help="The privacy budget: a smaller one is more private. For blink it is the budget of one bit of one neighbor list; a "
    "relationship is in two lists and costs it twice.",
)
DELTA = typer.Option(
    None,
    "--delta",
    help="The failure probability, such as 1e-7; 0 is enough at edge level for methods without Gaussian noise. Required with "
    "a private unit, except by local methods: they take it with "
    "--mechanism gaussian only.",
)
ARCS = typer.Option(
    None,
    "--arcs",
    help="With --unit node, which arcs belong to a node's record: owned (default: those that it owns), or incident (every arc "
    "in or out; --unit node-incident says the same).",
)
MAX_DEGREE = typer.Option(
    None,
    "--max-degree",
    help="With --unit node: how many of its own arcs each node may use at most. With --arcs incident: a promise that no node "
    "has more arcs; a graph that breaks it is refused.",
)
PUBLIC_DEGREES = typer.Option(
    False,
    "--public-degrees",
    help="With --arcs incident: declare that everybody may know how many arcs each node has, as where friend counts are shown. "
    "The certificate lists it.",
)
EPSILON_X = typer.Option(
    None,
    "--epsilon-x",
    help="Local methods: the budget for all features of one user together. With pgc (as method, preset or mechanism) it is "
    "the budget of each single feature. 0 asks for no features, which is the default of lpgnn and label-only and what we "
    "recommend: at small budgets features cost and add nothing. inf reads them in the clear.",
)
EPSILON_Y = typer.Option(
    None, "--epsilon-y", help="Local methods: the budget for the label of one user. inf reads it in the clear."
)
PRESET = typer.Option(
    None,
    "--preset",
    help="Use published settings of lpgnn: lpgnn-2021, or pgc-2020 (which reads labels in the clear, unless you give "
    "--epsilon-y).",
)
TASK = typer.Option(
    "node", "--task", help="What to predict: node (the class of a node), or link (links; with link-messages and pgc)."
)
MECHANISM = typer.Option(
    None,
    "--mechanism",
    help="Local methods: how features are randomized: multi-bit, one-bit, laplace, gaussian, piecewise, pgc, collision or "
    "direction.",
)
SPLIT = typer.Option(
    None,
    "--split",
    help="Percentages of training, validation and test nodes (default: 75/10/15, for local methods 50/25/25). Or public: the "
    "published split of a named data set. Tables and stores with roles keep them, and take no --split.",
)
CONTROLS = typer.Option(
    None,
    "--controls/--no-controls",
    help="Also train floor and ceiling, for comparison (default: without --ledger).",
)
SAVE_FLOOR = typer.Option(
    None,
    "--save-floor",
    help="Also save the floor, in a new run folder of its own. Only where features and labels are public, so that it spends "
    "nothing; elsewhere it has to be bought with a train command of its own.",
)
BY = typer.Option(
    None,
    "--by",
    help="Also score groups of nodes apart: by a column of the node table, or a feature of a named data set or a store. This is "
    "evaluation, which must stay.",
)
LEDGER = typer.Option(
    None,
    "--ledger",
    help="The ledger file of the data set, which all runs on it share. The whole claim is charged there first, and is marked "
    "as spent before noise is drawn.",
)
TOTAL_EPSILON = typer.Option(
    None,
    "--total-epsilon",
    help="The most epsilon that all runs in the ledger may spend together. The first run fixes it.",
)
TOTAL_DELTA = typer.Option(
    None,
    "--total-delta",
    help="The most delta that all runs in the ledger may spend together (default: ten times the delta of the first run).",
)
COMPOSITION = typer.Option(
    None,
    "--composition",
    help="How the costs of the runs in the ledger add up: basic (default), or gdp, which takes Gaussian plans only.",
)
THREADS = typer.Option(None, "--threads", help="How many threads to use (default: one for each core).")
ENGINE = typer.Option(
    "local",
    "--engine",
    help="Where large parts are computed: local (in this process), or ray (on the workers of a Ray cluster). The results have "
    "the same bits.",
)
RAY_ADDRESS = typer.Option(
    None,
    "--ray-address",
    help="With --engine ray: the address of a running cluster, HOST:PORT or auto. All its machines see private data (default: "
    "start a cluster on this machine, for this command alone).",
)
SIGN_KEY = typer.Option(None, "--sign-key", help="The file of an Ed25519 private key (PEM), to sign the release with.")
PUBLIC_IDS = typer.Option(
    False,
    "--public-ids",
    help="Let the node ids leave too, in release/ids.txt, so that whoever has the release can match its rows. They are outside "
    "the guarantee: leave them out where being in the data is a secret.",
)
DEPLOYMENT = typer.Option(
    None,
    "--deployment",
    help="A TOML file that says who publishes the model, what for, and why at this epsilon. It goes into the certificate as it "
    "stands: keep private data out of it.",
)
OUT = typer.Option(None, "--out", help="A new folder, for this run.")
JSON = typer.Option(False, "--json", help="Print one JSON object on standard output.")
HOPS = words_with("hops")
_PATHS = ("data_dir", "graph", "nodes", "edges", "schema", "ledger", "sign_key", "out", "save_floor")
_AGAIN = ("dataset", "data_dir", "min_class_size", "graph", "nodes", "edges", "label", "schema", "directed", "drop",
          "edge_weight", "max_weight", "text", "text_features", "image_size", "unit", "epsilon", "delta", "max_degree",
          "public_degrees", "assume_public", "subclasses", "partition", "split", "ledger")  # fmt: skip
_ANY_TIME = ("resume", "as_json", "verbose")


@dataclass(frozen=True)
class Options:
    """The options of a run are the values that decide it, named as on the command line.

    Each means what its help text says, and :mod:`sfumato.cli._parse` says what they mean together. They are:

    * the method and its settings: ``method``, ``task``, ``hops``, ``preset``, ``mechanism``;
    * for images ``network``, ``steps`` and ``augment``, and their cells, ``subclasses``, ``partition`` and ``public_rows``;
    * what is protected and how much it may cost: ``unit``, ``arcs``, ``max_degree``, ``public_degrees``, ``assume_public``,
      ``epsilon``, ``delta``, or for local methods ``epsilon_x`` and ``epsilon_y``;
    * the graph: ``dataset``, ``data_dir`` and ``min_class_size``, or the store ``graph``, or ``nodes``, ``edges``, ``label``,
      ``schema``, ``directed``, ``drop``, ``edge_weight`` and ``max_weight``; its texts, ``text`` and ``text_features``; its
      ``image_size``; and its ``split``;
    * what is evaluated: ``seeds``, ``controls``, ``save_floor``, ``by``;
    * the ledger of the data set: ``ledger``, ``total_epsilon``, ``total_delta``, ``composition``;
    * how it runs and what it leaves: ``device``, ``threads``, ``resumable``, ``sign_key``, ``public_ids``, ``deployment``,
      ``out``.
    """

    method: str
    unit: str
    out: Path
    dataset: str | None = None
    data_dir: Path | None = None
    min_class_size: int | None = None
    graph: Path | None = None
    nodes: Path | None = None
    edges: Path | None = None
    label: str | list[str] | None = None
    schema: Path | None = None
    directed: bool | None = None
    edge_weight: str | None = None
    max_weight: float | None = None
    drop: tuple[str, ...] = ()
    text: tuple[str, ...] = ()
    text_features: str | None = None
    image_size: str | None = None
    epsilon: float | None = None
    delta: float | None = None
    arcs: str | None = None
    max_degree: int | None = None
    public_degrees: bool = False
    assume_public: bool = False
    epsilon_x: float | None = None
    epsilon_y: float | None = None
    preset: str | None = None
    task: str = "node"
    mechanism: str | None = None
    split: str = "75/10/15"
    seeds: int = 1
    controls: bool | None = None
    save_floor: Path | None = None
    by: str | None = None
    hops: int | None = None
    network: str | None = None
    steps: int | None = None
    augment: int | None = None
    subclasses: int | None = None
    partition: str | None = None
    public_rows: int | None = None
    ledger: Path | None = None
    total_epsilon: float | None = None
    total_delta: float | None = None
    composition: str | None = None
    resumable: bool = False
    device: str = "cpu"
    threads: int | None = None
    sign_key: Path | None = None
    public_ids: bool = False
    deployment: Deployment | None = None

    def source(self) -> Source:
        """Return the source of the graph that the options name, checked."""
        data_dir, nodes, edges = (_text(path) for path in (self.data_dir, self.nodes, self.edges))
        return Source(
            self.dataset,
            data_dir,
            nodes,
            edges,
            self.label,
            _text(self.schema),
            self.directed,
            self.min_class_size,
            self.split,
            self.text,
            self.text_features,
            self.image_size,
            _text(self.graph),
            edge_weight=self.edge_weight,
            max_weight=self.max_weight,
            drop=self.drop,
        ).check(labeled=self.method not in WORDS or FACES[WORDS[self.method]].reads_labels)

    def again(self) -> tuple[str, ...]:
        """Return the words of a command line that name the same graph, unit and budget, for a run of another method."""
        words: list[str] = []
        for name in _AGAIN:
            value, option = getattr(self, name), f"--{name.replace('_', '-')}"
            if isinstance(value, bool):
                words += [option] if value else ["--undirected"] if name == "directed" else []
            elif value not in (None, ()) and (name, value) != ("split", type(self).split):
                words += [
                    word
                    for one in (value if isinstance(value, (list, tuple)) else [value])
                    for word in (option, f"{one}")
                ]
        return tuple(words)

    def to_json(self) -> dict[str, Any]:
        """Return the form that the private state keeps: JSON values, with absolute paths."""
        from sfumato.text._encoders import absolute

        values = {**asdict(self), "text_features": self.text_features and absolute(self.text_features)}
        return {**values, **{name: str(values[name].resolve()) for name in _PATHS if values[name] is not None}}

    @classmethod
    def from_json(cls, values: dict[str, Any]) -> Options:
        """Read back the options that :meth:`to_json` wrote."""
        paths = {name: Path(values[name]) for name in _PATHS if values.get(name) is not None}
        record = values.get("deployment")
        kept: dict[str, Any] = {name: tuple(values.get(name, ())) for name in ("text", "drop")}
        kept |= {"deployment": None if record is None else Deployment(**record)}
        return cls(**{**values, **paths, **kept})


def shared_ledger(
    ledger: Path | None,
    total_epsilon: float | None,
    total_delta: float | None,
    composition: str | None,
    *,
    private: bool = True,
) -> DatasetLedger | None:
    """Return the ledger that the options name, or None if they name none.

    Args:
        private: whether the run has a privacy unit.
    """
    if ledger is not None and not private:
        raise InputError("Expected --ledger with a privacy unit, got none: nothing bounds what it spends. Drop it.")
    if ledger is None:
        rules = {"--total-epsilon": total_epsilon, "--total-delta": total_delta, "--composition": composition}
        for option, value in rules.items():
            if value is not None:
                raise InputError(f"Expected {option} with --ledger FILE only. Name the ledger, or drop it.")
        return None
    from sfumato.record._dataset_ledger import DatasetLedger

    return DatasetLedger(ledger, total_epsilon, total_delta, composition)


def take_up(run: Path, context: typer.Context, values: dict[str, Any]) -> tuple[Options, FitState]:
    """Return the options and the private state of a stopped run."""
    from sfumato.record._resume import FitState

    private = run / PRIVATE
    if not (private / "state.json").exists():
        raise InputError(_not_resumable(run))
    state = FitState.open(private)
    options = replace(Options.from_json(state.options), out=run)
    for name, value in values.items():
        source = context.get_parameter_source(name)
        if name in _ANY_TIME or source is None or source.name != "COMMANDLINE":
            continue
        stored = getattr(options, name)
        if not _same(name, value, stored):
            state.close()
            raise InputError(
                f"Expected {_option(name)} {_shown(stored)}, with which the run was started, got {_shown(value)}. Leave "
                "it out: --resume takes all options from the run."
            )
    return options, state


def _same(name: str, value: Any, stored: Any) -> bool:
    from sfumato.text._encoders import absolute

    if stored is None:
        return False
    if name == "deployment":
        return bool(Deployment.read(value) == stored)
    if name in _PATHS:
        return bool(value.resolve() == stored.resolve())
    if name == "text_features":
        return absolute(value) == stored
    return bool((tuple(value) if name in ("text", "drop") else value) == stored)


def _not_resumable(run: Path) -> str:
    if (run / "release" / "manifest.json").exists():
        return f"Expected a run that was stopped, but {str(run)!r} is finished. Check it: sfumato verify {run}"
    if (run / "release").exists():
        return (
            f"Run {str(run)!r} was stopped and was not started with --resumable: its noise cannot be repeated. What its "
            "ledgers name stays charged. Start a new run in a new folder."
        )
    return (
        f"Expected the folder of a run that was started with --resumable and stopped, got {str(run)!r}. Check the path."
    )


def _option(name: str) -> str:
    return "METHOD" if name == "method" else "--" + name.replace("_", "-")


def _shown(value: object) -> str:
    return "none" if value is None else str(value)


def _text(path: Path | None) -> str | None:
    return None if path is None else str(path)
