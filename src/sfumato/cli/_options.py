"""The table of options of `train`, `check`, `tune` and `predict`: whoever adds an option adds a row.

Other commands take options from it by name (:func:`of`). What options mean together says :mod:`sfumato.cli._parse`.
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sfumato.catalog import CARDS, WORDS, words_with
from sfumato.cli._answer_options import AnswerOptions
from sfumato.cli._budget_options import BudgetOptions
from sfumato.cli._edge_options import EdgeOptions
from sfumato.cli._methods import METHOD as METHODS
from sfumato.cli._methods import complete_method, complete_setting
from sfumato.cli._statistics_options import StatisticsOptions
from sfumato.cli._table import (
    ASKED,
    DATA,
    LOCAL,
    METHOD,
    NEEDED,
    RECORD,
    RUNS,
    SCORES,
    given_option,
    option,
    show_all,
)  # fmt: skip
from sfumato.privacy.units import UNITS
from sfumato.record._deployment import Deployment

if TYPE_CHECKING:
    from sfumato.evaluation._source import Source

TUNABLE = {word: CARDS[name].summary for word, name in WORDS.items() if CARDS[name].candidates}
_HOPS = "; ".join(f"{word} {CARDS[WORDS[word]].defaults['hops']}" for word in words_with("hops"))
_TUNABLE = "; ".join(f"{word}: {summary}" for word, summary in TUNABLE.items())
_CHOSEN, _IMPLIED = (
    [word for unit in UNITS if (unit.trust == "curator") == chosen for word in unit.spelled()]
    for chosen in (True, False)
)
_TRAIN, _TUNE = "train check", "train check tune"
_ALL, _GRAPH = f"{_TUNE} predict", f"{_TUNE} describe"
_EVERY = f"{_ALL} describe"
# By panel and commands: a row says what differs.
_data = partial(option, panel=NEEDED, commands=_EVERY, again=True)
_claim = partial(option, panel=NEEDED, commands=_GRAPH, again=True)
_read = partial(option, panel=DATA, commands=_EVERY, again=True)
_tables = partial(option, panel=DATA, commands=_GRAPH, again=True)
_record = partial(option, panel=RECORD, commands=f"{_TRAIN} describe")
_method = partial(option, panel=METHOD, commands=_TRAIN)
_shared = partial(option, panel=METHOD, commands=_TUNE)
_tuning = partial(option, panel=METHOD, commands="tune")
_local = partial(option, panel=LOCAL, commands=_TRAIN)
_scores = partial(option, panel=SCORES, commands=_TRAIN)
_running = partial(option, panel=RUNS, commands=_TUNE)


@dataclass(frozen=True, kw_only=True)
class Options(BudgetOptions, AnswerOptions, StatisticsOptions, EdgeOptions):
    """The options of a command: each means what its help text says, and None stands for one that was not given.

    Those that ``given`` has looked at name a method, a unit and a folder ``out``.
    """

    run: Path = option(
        commands="predict", text="The folder of a run, or a ledger: its newest run.", default=..., argument=True
    )
    method: str = option(
        METHODS,
        NEEDED,
        _TRAIN,
        argument=True,
        complete=complete_method,
        also={"tune": f"The method to tune. {_TUNABLE}."},
    )

    dataset: str | None = _data(
        "The name of a data set, such as campus or facebook100/Berkeley13 (see `sfumato datasets`), or the path of a folder "
        "of images with one subfolder for each class."
    )
    graph: Path | None = _data(
        "A stored graph: the folder that `sfumato data import` or Graph.save wrote. It is opened, not read."
    )
    nodes: Path | None = _data("The table of nodes, as CSV or Parquet.")
    edges: Path | None = _data("The table of edges, as CSV or Parquet. Each row is one edge.")
    label: str | list[str] | None = _data(
        "The column of the node table that holds the classes to learn, or the number, if the schema says so. Repeat it for "
        "several columns of 0 and 1, one for each label that a node may have.",
        commands=_ALL,
    )
    unit: str = _claim(
        f"What is protected: {', '.join(_CHOSEN[:-1])} or {_CHOSEN[-1]}. Local methods imply theirs "
        f"({', '.join(_IMPLIED[:-1])} or {_IMPLIED[-1]}).",
        also={
            "describe": "What is protected: edge (a single edge, or arc of a directed graph), or node with --arcs incident (a "
            "node with all its edges)."
        },
    )
    epsilon: float | None = _claim(
        "The privacy budget: a smaller one is more private. For blink it is the budget of one bit of one neighbor list; a "
        "relationship is in two lists, and so costs twice as much.",
        also={
            "predict": "The privacy budget for reading ANOTHER private graph, or for the first --coverage where labels are "
            "protected.",
            "describe": "The privacy budget of all statistics together: a smaller one is more private.",
        },
    )
    delta: float | None = _claim(
        "The failure probability, such as 1e-7; 0 is enough at edge level for methods without Gaussian noise. Required with "
        "a private unit, except by local methods: they take it with --mechanism gaussian only.",
        also={
            "predict": "The failure probability for reading that other graph, such as 1e-7.",
            "describe": "The failure probability, such as 1e-7. Triangles, wedges and stars need one at edge level; without it "
            "it is 0.",
        },
    )
    out: Path = option(
        "The folder to create for this run.",
        NEEDED,
        _GRAPH,
        also={"predict": "The CSV file to write (default: predictions.csv in the run folder)."},
    )

    data_dir: Path | None = _read(
        "The folder that holds the files of named data sets (default: the environment variable SFUMATO_DATA).",
        environment="SFUMATO_DATA",
        first=True,
    )
    schema: Path | None = _read(
        "A public schema (TOML), which declares classes, categories, ranges, roles and degrees.", first=True
    )
    assume_public: bool = _tables(
        "Where features or labels are protected, run even if no schema declares all ranges, categories and classes. What is "
        "read off the data instead counts as public, and the certificate lists it. Numbers without a range are used "
        "unscaled.",
        default=False,
    )
    directed: bool | None = _read(
        "Whether a row of the edge table is one arc or an undirected edge (default: as the schema says, else undirected).",
        flags="--directed/--undirected",
        first=True,
    )
    drop: tuple[str, ...] = _read(
        "A column of the node or edge table to leave out. May be repeated.", default=(), commands=_ALL
    )
    text: tuple[str, ...] = _read(
        "A column of the node table that holds texts, which --text-features turns into features. May be repeated.",
        default=(),
        commands=_ALL,
    )
    text_features: str | None = _tables(
        "How texts become features: hashing[:COLUMNS], bag-of-words:FILE, tf-idf:FILE, word-vectors:FILE, wordllama, "
        "transformer:MODEL, sentence-transformer:MODEL, or what `sfumato text features` wrote. Files and models are public.",
        commands=_TUNE,
    )
    min_class_size: int | None = _tables(
        "Drop the classes of a named data set that have fewer nodes than this (default: the bound of the data set itself)."
    )
    image_size: str | None = _tables(
        "WIDTHxHEIGHT in pixels, such as 60x70, to which the images of orl_faces or of a folder are scaled (default: their "
        "own size, which all have to share).",
        commands=_TUNE,
    )
    collection: str | None = option(
        "Learn from reports that devices sent, instead of simulating devices here: an exported file of a closed collection, "
        "or its store (path or URL), with lpgnn, label-only, pgc or blink; or what two servers opened, with shared-counts. The "
        "collection fixes budgets and randomizers. "
        "Beside it name --edges, and --nodes and --label where labels are public.",
        DATA,
        "train",
        decides=False,
    )

    arcs: str | None = _record(
        "With --unit node, which arcs belong to a node's record: owned (default: the arcs that start at it), or incident "
        "(every arc in or out, the same as --unit node-incident).",
        first_in={"describe": RECORD},
    )
    max_degree: int | None = option(
        "With --unit node: how many of a node's own arcs are read at most. With --arcs incident: a promise that no node "
        "has more arcs; a graph that breaks it is refused.",
        RECORD,
        _GRAPH,
        again=True,
        first=True,
        also={
            "describe": "With --unit node --arcs incident: a promise, made without looking at this graph, that no node has more "
            "edges, such as the lines on a form. A graph that breaks it is refused."
        },
    )
    public_degrees: bool = _record(
        "With --arcs incident: declare that anyone may know how many arcs each node has, as where friend counts are shown. "
        "The certificate lists it.",
        default=False,
        again=True,
        commands=_TRAIN,
    )
    relation: str | None = _record(
        "How neighboring data sets differ: with --unit node remove (default) or replace, with record add-remove (default) or "
        "replace, with class or subclass replace (default) or add-remove (unbounded).",
        again=True,
    )
    subclasses: int | None = _record(
        "With --unit subclass: into how many cells each class is divided (default: 50).", again=True, commands=_TRAIN
    )
    partition: str | None = _record(
        "With --unit subclass: how the cell of an image is found. directions (default): by public random directions. "
        "centroids: by centroids fitted on the images of --public-rows. kmeans: by clusters of the private images, as "
        "published; what the clusters tell is then not protected, and the certificate says so. folders: natural parts, such as "
        "users; each subfolder of a class is one, and who is in which is public.",
        again=True,
        commands=_TRAIN,
    )
    public_rows: int | None = _record(
        "With --partition centroids: declare so many training images, the first ones, public. They fit the centroids, and "
        "nothing is trained on them.",
        commands=_TRAIN,
    )

    task: str = _method(
        "What to predict: node (the class of a node), or link (links; with link-messages and pgc).", default="node"
    )
    sides: str | None = _method("The column that tells users from items (links); COLUMN=VALUE: lists for these.")
    hops: int | None = _shared(f"How many rounds of sums over neighbors to take (default: {_HOPS}).")
    candidates: Path | None = _tuning(
        "A TOML file with one table [[candidate]] for each setting to try (default: a short list of the method).",
        first=True,
    )
    trials: float = _tuning("The expected number of trials. The real number stays secret.", default=10.0, first=True)
    rule: str = _tuning("How the number of trials is drawn: logarithmic, geometric or poisson.", default="logarithmic")
    set: tuple[str, ...] = _shared(
        "NAME=VALUE: a setting of the method that has no option of its own, such as width=32. May be repeated. `sfumato "
        "methods METHOD` explains all settings.",
        default=(),
        complete=complete_setting,
        also={"tune": "NAME=VALUE: a setting that all candidates share, such as width=32. May be repeated."},
    )
    network: str | None = _method(
        "Methods for images: cnn (default), mlp (one hidden layer) or softmax (softmax regression)."
    )
    steps: int | None = _method("Methods for images: the number of noisy steps.")
    augment: int | None = _method(
        "Methods for images: how many altered copies of each training image to add (default: 0)."
    )

    epsilon_x: float | None = _local(
        "Local methods: the budget for all features of one user together. With pgc (as method, preset or mechanism) it is "
        "the budget of each single feature. 0 asks for no features, which is the default of lpgnn and label-only and what we "
        "recommend: at small budgets features cost budget and add nothing. inf reads them in the clear."
    )
    epsilon_y: float | None = _local("Local methods: the budget for the label of one user. inf reads it in the clear.")
    mechanism: str | None = _local(
        "Local methods: how features are randomized: multi-bit, one-bit (Duchi's of one feature), laplace, gaussian, "
        "piecewise, pgc, collision or direction."
    )
    preset: str | None = _local(
        "Use published settings of lpgnn: lpgnn-2021, or pgc-2020 (which reads labels in the clear, unless you give "
        "--epsilon-y)."
    )

    split: str | None = option(
        "Percentages of training, validation and test nodes (default: 75/10/15, for local methods 50/25/25). Or public: the "
        "published split of a named data set. Tables and stores with roles keep them, and take no --split.",
        SCORES,
        _TUNE,
        again=True,
    )
    seeds: int = _scores(
        "How many fits to score, each on a split of its own. Only the first is saved and certified.",
        default=1,
        first=True,
    )
    controls: bool | None = option(
        "Also train floor and ceiling, for comparison (default: without --ledger).",
        SCORES,
        _TUNE,
        flags="--controls/--no-controls",
        first=True,
    )
    save_floor: Path | None = _scores(
        "Also save the floor, in a new run folder of its own. Only where features and labels are public, so that it spends "
        "nothing; elsewhere it has to be bought with a train command of its own."
    )
    by: str | None = _scores(
        "Also score groups of nodes apart: by a column of the node table, or a feature of a named data set or a store. The "
        "scores are outside the guarantee: do not publish them.",
        also={
            "describe": "The public column of the node table that holds groups, such as age (default: the label of a data set, "
            "of a store or of the schema; else no groups). A schema decides the order of groups."
        },
        first_in={"describe": ASKED},
    )

    resumable: bool = option(
        "Allow --resume to finish this run if it is stopped. Until it has finished, the noise key is kept under OUT/private. "
        "Without --ledger, an old copy of OUT cannot be recognized: never put one back.",
        RUNS,
        "train",
        default=False,
    )
    resume: Path | None = option(
        "Finish this stopped run, which was started with --resumable. METHOD and options are taken from the run.",
        RUNS,
        "train",
        decides=False,
    )
    threads: int | None = _running(
        "How many threads to use (default: one for each core; one for small graphs).", commands=_GRAPH
    )
    engine: str = _running(
        "Where large parts are computed: local (in this process), or ray (on the workers of a Ray cluster). The results are "
        "the same to the last bit.",
        default="local",
        decides=False,
    )
    ray_address: str | None = _running(
        "With --engine ray: the address of a running cluster, HOST:PORT or auto. All its machines see private data (default: "
        "start a cluster on this machine, for this command alone).",
        decides=False,
    )
    sign_key: Path | None = option("The file of an Ed25519 private key (PEM), to sign the release with.", RUNS, _EVERY)
    public_ids: bool = option(
        "Publish the node ids too, in release/ids.txt, so that whoever has the release can match its rows. They are outside "
        "the guarantee: do not publish them where being in the data is a secret.",
        RUNS,
        f"{_TRAIN} describe",
        default=False,
    )
    deployment: Deployment | None = _running(
        "A TOML file that says who publishes the model, what for, and why at this epsilon. It is copied into the "
        "certificate: keep private data out of it.",
        read=Path,
        commands=_GRAPH,
    )
    dry_run: bool = option(
        "Read everything, list all problems, the plan, its cost and what to expect, and stop: `sfumato check` does the same. "
        "Nothing is spent or written.",
        RUNS,
        "train",
        default=False,
        decides=False,
        also={
            "tune": "Print what tuning would cost, and stop. No --out is needed.",
            "describe": "Read everything, list all problems, the plan and how near the answers would be, and stop. Nothing is "
            "spent or written.",
        },
        first=True,
    )
    help_all: bool = option(
        "Show every option and exit.", RUNS, _GRAPH, default=False, decides=False, first=True, eager=show_all
    )
    as_json: bool = option(
        "Print one JSON object on standard output.",
        RUNS,
        _EVERY,
        flags="--json",
        default=False,
        decides=False,
        first=True,
    )
    verbose: bool = option(
        "Print the plan and how neighborhoods are summed, before training.", RUNS, "train", default=False, decides=False
    )

    def source(self) -> Source:
        """Return the source of the graph that the options name, checked."""
        from sfumato.evaluation._source import Source

        source = Source(**{**named_source(self), "split": self.split or Source.split})
        return source.check(labeled=self.method not in WORDS or CARDS[WORDS[self.method]].reads_labels)


def named_source(options: Options) -> dict[str, Any]:
    """Return what options say of a source, by the names of its fields; paths are words there."""
    from sfumato.evaluation._source import Source

    named = {one.name: getattr(options, one.name) for one in fields(Source) if hasattr(options, one.name)}
    return {name: str(value) if isinstance(value, Path) else value for name, value in named.items()}


of = partial(given_option, Options)
