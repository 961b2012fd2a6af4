"""Why rows are below print; below_print_page.py puts them beside the rows."""

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
