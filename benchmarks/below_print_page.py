"""The page of rows below print: which rows they are, why, and what the fits of below_print.py say about them."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from sfumato.evaluation.scores import Summary
from sfumato.report.page import Code, Items, Page, Section, Table

LEAST = 2.0  # points below print from which a row needs a reason
LAYERWISE = (
    "Not explained: the published code was not run layer by layer. Its progressive form falls from print to this graph by "
    "as much as ours does (second table)."
)
SUMS = (
    "The source sums over neighbors, here are means. The third table has sums, at the depth of 1 to 3 that validation "
    "chooses: within 2 points of print."
)
DEPTH = (
    "Not explained in full. A stored version of the published code takes means over neighbors, as this row does, and the "
    "source chooses 1 to 5 layers on validation nodes; this row has 2. Sums with 1 to 3 layers stay more than 3 "
    "points below print (third table). More layers were not tried."
)
EDGERAND = (
    "A stored version of the published code takes means over neighbors where this row has sums. At this epsilon released "
    "arcs are nearly all noise: their sum drowns the row of a node, their mean leaves it. With means (third table) the "
    "distance is less than 2 points. Neither is better than a network that reads no arc."
)
RATES = (
    "The published code stops where the loss of validation nodes no longer falls; this row makes 500 steps and learns "
    "training nodes by heart. With steps and rate chosen on validation nodes, and the public test nodes of the source "
    "(third table), it is within 2 points of print."
)
PUBLIC = (
    "The source has the public test nodes and chooses the rate on validation nodes. With both (third table) the row is above "
    "print; with that rate and random test nodes it is not."
)
DRAWN = (
    "Explained in part. The published runs share one split, and the published code itself reaches 65.7 where 69.3 is "
    "printed (second table). The last table has three splits, for epsilon of features 1 and two epsilons of labels alone: "
    "at 1 they differ by up to 5 points, at 0.5 all are below print. Other settings were not tried."
)
BERKELEY_ONLY = (
    "Another graph: the published code with its own script reaches {} on Berkeley13 (second table), so this distance is that "
    "of the graph."
)
STATED = (
    "Not explained. Their loop clips nothing and sends messages across the cuts, so that no unit has the printed epsilon. "
    "But as published, at its default rate, it reaches 38.9 on Cora at a stated 6.16 (below the second table), which is "
    "below print as well. The source chose a rate for each number, up to 100; that was not tried with their loop."
)
RANDOM = (
    "Another input and another task, by which the distance was not measured: the features of this graph are not in the data "
    "here, and random columns stand for them, for which users are asked nothing; print has the ten largest of 18 classes, "
    "here are all."
)
STARTS = (
    "Not explained. Of the five recorded fits two end below 60 %, the others near 77 %. Fitted again with fresh reports, no "
    "fit of 20 ends below 66 % ([starts](vgae-starts.md)): those with the recorded starts have 75.3 on average, all "
    "together 76.6, which is 2 points below print."
)
NOTHING = (
    "Explained in part. Columns that tell nothing, and no hops: accuracy is below the share of the largest class (30.6 %), "
    "and print spreads by 5.6; three seeds. The same columns with the hops and the choice of epoch of the reports are 58 "
    "points higher on the same page, so they are no worse as input."
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
    ("progap-.*", "GraphSAGE without privacy", DEPTH),
    (".*", "GraphSAGE without privacy", SUMS),
    ("perturbed-topology", "EdgeRand", EDGERAND),
    ("graph-split-table-1-.*", "No privacy, SGD", PUBLIC),
    ("graph-split-table-1-.*", "No privacy, Adam", RATES),
    ("graph-split-.*", "(One graph|10 splits)", STATED),
    ("pgc-table-2-3-citeseer-links", "VGAE, Piecewise", STARTS),
    ("lpgnn-(table|figure)-3-[2345]-(.*-)?cora", "LPGNN", DRAWN),
    ("lpgnn-table-3-3-facebook", "LPGNN, random features", NOTHING),
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
        "Every row of a specification whose mean is more than 2 points below the printed number, with the reason, or what is "
        "known of it. Figures are in percent. Pages that scripts write (digits by lot size, membership, DP-SGD, figure 3.3, "
        "faces) have printed numbers beside theirs and are not read here. Nothing here changes a default.",
        (
            Section("rows", "The rows", (Table("below", "Ours and printed", ROWS, rows, text=("at", "why")),)),
            Section("peers", "The published code on our stand-in", (peers, *PEERS_SAY)),
            Section("settings", "Settings that the source chose or left out", (settings, Items(SETTINGS_SAY))),
            Section("splits", "One split and another", (reported, Items(SPLITS_SAY))),
            Section("again", "Run it again", (Code("python benchmarks/below_print.py"),)),
        ),
    )


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
