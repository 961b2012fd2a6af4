"""Why some rows are more than 2 points below the printed number; writes docs/results/below-print.md.

    OMP_NUM_THREADS=1 python benchmarks/below_print.py [--seeds 5] [--log docs/results/below-print.jsonl] [--out docs/results]

Every fit is a line of the log, which is kept beside the page; a run that stopped goes on where it stopped, and --seeds 0 writes
the page alone, as is needed after other pages have changed. Where the source chose a setting on validation
nodes, so is it here: the row shows the setting with the best mean validation accuracy, and its test accuracy. The rows themselves
are read from the pages in the folder of results.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import warnings
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

import sfumato as sf
from sfumato.catalog import method_named
from sfumato.errors import SfumatoWarning
from sfumato.evaluation.scores import Summary
from sfumato.experiments.pages import stamped
from sfumato.graph import load_dataset
from sfumato.local.lpgnn import LPGNN
from sfumato.local.presets import preset
from sfumato.report.markdown import escape as escape
from sfumato.report.markdown import to_markdown
from sfumato.report.page import Code, Items, Page, Section, Table

if TYPE_CHECKING:
    from collections.abc import Iterator

    from sfumato.graph.graph import Graph

BERKELEY, LEAST = "facebook100/Berkeley13", 2.0


@dataclass(frozen=True)
class Trial:
    """One setting that is tried, on a number of seeds.

    Args:
        group: the row of the page that it belongs to; the best setting of a group is shown.
        setting: of the method, in words.
        dataset: that is read.
        method: of the catalog.
        options: of the method.
        epsilon: at unit arc and delta 0; None without privacy.
        split: shares of roles; None takes the test and validation nodes of the public split, and all others to train.
    """

    group: str
    setting: str
    dataset: str
    method: str
    options: dict[str, Any]
    epsilon: float | None = None
    split: tuple[float, float, float] | None = (0.75, 0.10, 0.15)

    def fit(self, graph: Graph, seed: int) -> dict[str, float]:
        """Accuracy on validation and test nodes."""
        graph = public_split(graph) if self.split is None else graph.with_split(self.split, seed=seed)
        unit = sf.NoPrivacy() if self.epsilon is None else sf.EdgeLevel(directed=True)
        budget = None if self.epsilon is None else sf.Budget(self.epsilon, 0.0)
        plan = method_named(self.method, **self.options).calibrate(budget, unit, graph.public_facts(unit))
        right = plan.fit(graph, seed=seed).predict(graph) == graph.y
        return {"validation": float(right[graph.val_mask].mean()), "test": float(right[graph.test_mask].mean())}


def trials() -> Iterator[Trial]:
    """Everything that is fitted, but the reports of LPGNN."""
    yield Trial("GraphSAGE by means", "2 layers", BERKELEY, "sage", {})
    for layers in (1, 2, 3):
        options = {"num_layers": layers}
        yield Trial("GraphSAGE by sums, true arcs", f"{layers} layers", BERKELEY, "edgerand", options)
    for layers in (1, 2):
        for rate in (0.001, 0.003, 0.01):
            setting, options = f"{layers} layers, rate {rate}", {"num_layers": layers, "learning_rate": rate}
            yield Trial("EdgeRand, epsilon 1", setting, BERKELEY, "edgerand", options, 1.0)
    yield Trial("MLP, no arcs", "", BERKELEY, "mlp", {})
    for name in ("cora", "citeseer"):
        for optimizer, steps, rates in (("adam", 500, (0.003, 0.01, 0.03)), ("sgd", 2000, (0.3, 1.0, 3.0))):
            for rate in rates:
                options = {
                    "num_groups": 1, "batch_size": 1, "dropout": 0.5, "steps": steps, "optimizer": optimizer,
                    "learning_rate": rate,
                }  # fmt: skip
                for split, nodes in (((0.45, 0.18, 0.37), "random test nodes"), (None, "public test nodes")):
                    group = f"Graph convolutions, {name}, {optimizer}, {nodes}"
                    yield Trial(group, f"rate {rate}", f"planetoid/{name}", "graph-split", options, None, split)


def public_split(graph: Graph) -> Graph:
    """The public split, with all nodes that it gives no role among the training nodes."""
    return graph.with_roles(np.where(graph.test_mask, 2, np.where(graph.val_mask, 1, 0)).astype(np.uint8))


def reports(graph: Graph, epsilon_y: float, split: int, seed: int) -> dict[str, float]:
    """Test accuracy of LPGNN in its published form on fresh reports of one split."""
    method = LPGNN(**preset("lpgnn-2021", "planetoid/cora", 1.0, epsilon_y))
    graph = graph.with_split((0.5, 0.25, 0.25), seed=split)
    fitted = method.calibrate(None, method.unit, graph.public_facts(method.unit)).fit(graph, seed=seed)
    return {"test": float((fitted.predict(graph) == graph.y)[graph.test_mask].mean())}


def work(options: argparse.Namespace) -> None:
    """Add the missing lines to the log."""
    done = {json.dumps(line["key"]) for line in lines(options.log)}
    graphs: dict[tuple[str, bool], Graph] = {}

    def graph_of(name: str, public: bool) -> Graph:
        if (name, public) not in graphs:
            graphs[name, public] = load_dataset(name, options.data_dir, split="public" if public else None)
        return graphs[name, public]

    def note(key: list[Any], found: Any) -> None:
        if json.dumps(key) not in done:
            with options.log.open("a") as log:
                log.write(json.dumps({"key": key, **found()}) + "\n")

    for seed in range(options.seeds):
        for one in trials():
            key = [one.group, one.setting, seed]
            note(key, lambda one=one, seed=seed: one.fit(graph_of(one.dataset, one.split is None), seed))
        for split in range(3):
            for epsilon in (0.5, 1.0):
                for again in (2 * seed, 2 * seed + 1):
                    key = ["LPGNN", epsilon, split, again]
                    note(key, lambda e=epsilon, s=split, n=again: reports(graph_of("planetoid/cora", False), e, s, n))


def lines(log: Path) -> list[dict[str, Any]]:
    """What is in the log."""
    return [json.loads(line) for line in log.read_text().splitlines()] if log.exists() else []


def chosen(found: list[dict[str, Any]]) -> Iterator[tuple[str, str, str, str]]:
    """For each group the setting with the best validation accuracy: name, setting, test accuracy, seeds."""
    groups: dict[str, dict[str, list[dict[str, Any]]]] = {}
    for line in found:
        if len(line["key"]) == 3:
            group, setting, _ = line["key"]
            groups.setdefault(group, {}).setdefault(setting, []).append(line)
    for group, settings in groups.items():
        best = max(settings, key=lambda name: np.mean([one["validation"] for one in settings[name]]))
        test = [one["test"] for one in settings[best]]
        yield (
            group,
            f"{best} (of {len(settings)})" if len(settings) > 1 else best or "-",
            str(Summary.of(test)),
            str(len(test)),
        )


def drawn(found: list[dict[str, Any]]) -> Iterator[tuple[str, str, str, str]]:
    """LPGNN on one split and another: epsilon of labels, split, accuracy over reports, fits."""
    cells: dict[tuple[float, int], list[float]] = {}
    for line in found:
        if len(line["key"]) == 4:
            cells.setdefault((line["key"][1], line["key"][2]), []).append(line["test"])
    for (epsilon, split), test in sorted(cells.items()):
        yield f"{epsilon:g}", str(split), str(Summary.of(test)), str(len(test))


LAYERWISE = (
    "Not run with the published code layer by layer. Its progressive form falls from print to this graph by as much as ours does "
    "(second table)."
)
SUMS = "The source sums over neighbors, here are means. The third table has sums, at the depth that validation chooses."
EDGERAND = (
    "The source tunes depth and rate at each epsilon, which gives 3 points (third table). The rest is not explained: here "
    "arcs are noise, and print is what a network that reads no arc reaches."
)
RATES = (
    "The source chooses rates on validation nodes and has the public test nodes. With both (third table) SGD reaches print. "
    "Adam stays 3 to 6 points below it, for which no reason is known."
)
DRAWN = (
    "The published runs share one split: the last table has three splits, each with fresh reports. Some of these rows lie inside "
    "the printed interval."
)
BERKELEY_ONLY = (
    "Another graph: the published code with its own script reaches {} on Berkeley13 (second table), so this distance is that "
    "of the graph."
)
STATED = (
    "Their loop clips nothing and sends messages across the cuts, so that no unit has the printed epsilon: see below."
)
RANDOM = (
    "Another input: the features of this graph are not in the data here, and random columns stand for them, for which users are "
    "asked nothing."
)
REASONS = (
    (".*", "GAP, one node", BERKELEY_ONLY.format("57.4 ± 0.5")),
    (".*", "GAP without privacy", BERKELEY_ONLY.format("77.3 ± 0.3")),
    (".*", "ProGAP, one arc .*layer-wise", LAYERWISE),
    (".*", "ProGAP, one node .*layer-wise", LAYERWISE),
    (".*", "ProGAP without privacy, layer-wise", LAYERWISE),
    (".*", "ProGAP, one arc", BERKELEY_ONLY.format("72.6 ± 0.2")),
    (".*", "ProGAP, one node", BERKELEY_ONLY.format("64.4 ± 0.3")),
    (".*", "ProGAP without privacy", BERKELEY_ONLY.format("80.9 ± 1.0")),
    (".*", "GraphSAGE without privacy", SUMS),
    ("perturbed-topology", "EdgeRand", EDGERAND),
    ("graph-split-table-1-.*", "No privacy", RATES),
    ("graph-split-.*", "(One graph|10 splits)", STATED),
    ("lpgnn-(table|figure)-3-[2345]-(.*-)?cora", "LPGNN", DRAWN),
    ("lpgnn-table-3-4-(lastfm|pubmed)", ".*random features", RANDOM),
)
"""Page, run, and why: the first that fits."""
ROWS = ("row", "at", "ours", "printed", "why")
PEERS_TITLE = (
    "Test accuracy of the published code on Berkeley13: mean and standard deviation of three runs on one split"
)
PEER_COLUMNS = ("code", "settings", "test accuracy", "printed (another graph)")
PEERS = (
    ("GAP 926e375, edge", "epsilon 4, 2 hops", "73.3 ± 0.3", "76.3"),
    ("GAP 926e375, node", "epsilon 8, 2 hops, cap 100", "57.4 ± 0.5", "63.2"),
    ("GAP 926e375, no privacy", "5 hops", "77.3 ± 0.3", "80.0"),
    ("ProGAP 3ccad59, edge", "epsilon 1, depth 5", "72.6 ± 0.2", "77.2"),
    ("ProGAP 3ccad59, node", "epsilon 8, depth 4, cap 100", "64.4 ± 0.3", "69.3"),
    ("ProGAP 3ccad59, no privacy", "depth 5", "80.9 ± 1.0", "84.5"),
    ("LPGNN 02c60f1, Cora", "epsilon 1 and 1, 2 and 8 hops", "65.7 ± 0.8", "69.3 (same graph)"),
)
PEERS_SAY = (
    "Published code at the commits named, with the arguments of its own scripts and another school's name; calls of libraries "
    "that no longer exist were replaced, nothing else. Its node-level rows keep the best epoch by private validation labels. "
    "Printed are tables 4.2, 5.2 and 3.4. No command here produces these rows: they need that code.",
    "The loop of graph splits, run as published (benchmarks/graph_split_published.py), reaches 38.9 ± 3.7 on Cora at a stated "
    "epsilon of 6.16. With the clip that was meant and noise for a stated 2, the published code reaches 13.0 (one seed).",
)
SETTINGS_TITLE = "Test accuracy at the setting with the best mean accuracy on validation nodes"
SETTINGS_SAY = (
    "GraphSAGE by sums has 16 units and SELU, two layers before message passing and one after, and true arcs: it is the "
    "network of edgerand without privacy.",
    "Public test nodes: the 1,000 of the public split, with all nodes but its 500 validation nodes for training; one split, so "
    "the interval covers initialization alone. Random test nodes: 45/18/37 percent, drawn anew for each seed.",
)
SPLITS_TITLE = "LPGNN with Drop as published, Cora, epsilon of features 1: fits with fresh reports on three splits"
SPLITS_SAY = (
    "Epochs are chosen on reported labels of validation users. At epsilon 0.5 that choice is nearly a draw: with the corrected "
    "choice, table 3.4 here has 48.0.",
)


@dataclass(frozen=True)
class Below:
    """A row of a page whose number is more than 2 points below the printed one."""

    page: str
    run: str
    at: str
    ours: float
    printed: float


def below(folder: Path) -> Iterator[Below]:
    """Read such rows from the pages of specifications."""
    for path in sorted(folder.glob("*.md")):
        names: list[str] = []
        for line in path.read_text().splitlines():
            cells = [cell.strip() for cell in line.strip("|").split("|")] if line.startswith("|") else []
            if not cells or "Published" in cells:
                names = cells
            elif {"Ours", "Published"} <= set(names):
                row = dict(zip(names, cells, strict=True))
                ours, printed = (re.match(r"[\d.]+", row[name]) for name in ("Ours", "Published"))
                at = [
                    f"{name.lower()} {row[name]}".replace("\\", "")
                    for name in names[1 : names.index("Ours")]
                    if row[name] != "-"
                ]
                if ours and printed and float(ours[0]) < float(printed[0]) - LEAST:
                    yield Below(path.stem, cells[0].replace("\\", ""), ", ".join(at), float(ours[0]), float(printed[0]))


def reason(row: Below) -> str:
    """Why a row is below print; raises ValueError if nothing was written about it."""
    for page, run, text in REASONS:
        if re.fullmatch(page, row.page) and re.match(run, row.run):
            return text
    raise ValueError(f"Expected a reason for {row}, got none. Find one by an experiment and add it to REASONS.")


def page(found: list[dict[str, Any]], folder: Path) -> Page:
    """The page of what the log and the pages hold."""
    rows = tuple(
        (f"{row.page}: {row.run}", row.at or "-", f"{row.ours:.1f}", f"{row.printed:.1f}", reason(row))
        for row in below(folder)
    )
    peers = Table("peers", PEERS_TITLE, PEER_COLUMNS, PEERS)
    settings = Table("settings", SETTINGS_TITLE, ("network", "setting", "test accuracy", "seeds"), tuple(chosen(found)))
    reported = Table(
        "splits", SPLITS_TITLE, ("epsilon of labels", "split", "test accuracy", "fits"), tuple(drawn(found))
    )
    return Page(
        "Rows below print, and why",
        "Every row of a page here whose mean is more than 2 points below the printed number, with the reason. Figures are in "
        "percent. Nothing here changes a default.",
        (
            Section("rows", "The rows", (Table("below", "Ours and printed", ROWS, rows, text=("at", "why")),)),
            Section("peers", "The published code on our stand-in", (peers, *PEERS_SAY)),
            Section("settings", "Settings that the source chose or left out", (settings, Items(SETTINGS_SAY))),
            Section("splits", "One split and another", (reported, Items(SPLITS_SAY))),
            Section("again", "Run it again", (Code("python benchmarks/below_print.py"),)),
        ),
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--log", type=Path, default=Path("docs/results/below-print.jsonl"))
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--out", type=Path, default=Path("docs/results"))
    parser.add_argument("--data-dir", default=os.environ.get("SFUMATO_DATA", "../shared/data"))
    options = parser.parse_args()
    torch.set_num_threads(1)
    warnings.simplefilter("ignore", SfumatoWarning)
    work(options)
    text = stamped(to_markdown(page(lines(options.log), options.out)))
    (options.out / "below-print.md").write_text(text)


if __name__ == "__main__":
    main()
