"""Why rows are below print; below_print_page.py puts them beside the rows."""

from __future__ import annotations

YES, PART, OTHER = "yes", "in part", "other data"

LEVEL = (
    "Another graph: the published code with its own script reaches {} on Berkeley13 (published code, below), and ours is "
    "level with it or above. What is left is the graph, or settings that print chose for each epsilon."
)
LAYERWISE = (
    "Another graph: training layer by layer differs from progressive training by at most 0.7 points here and 1.1 in print, at"
    " node level with the other sign, and the progressive form falls on this graph with the published code as with ours "
    "(published code, below). The published code was not run layer by layer."
)
FIVE_HOPS = (
    "Another graph: with 5 hops, as in the example of the published code, ours reaches 78.4 (settings, below), and the "
    "published code itself 77.3 ± 0.3 on this graph (published code, below). The script of the printed table has 4 hops, as "
    "has this row."
)
SUMS = (
    "Another network and another graph. The source sums over neighbors, in a network with layers before and after the hops; "
    "here are means, without them. On this graph sums in such a network, at the depth that validation chooses, reach 81.3, "
    "and means 80.6 (settings, below)."
)
DEPTH = (
    "Another network and another graph. The source chooses 1 to 5 layers on validation nodes, this row has 2. With depth "
    "chosen so, and for means the rate, too (settings, below), means over neighbors reach 80.6 and sums 81.3, which is 4.1 "
    "and 3.4 points below print; ProGAP's published code falls by 3.6 on this graph without privacy (published code, below). "
    "The published network itself was not run."
)
EDGERAND = (
    "The thesis prints sums over neighbors, and so has this row; the stored version of the published code takes means. With "
    "means (settings, below) the distance is less than 2 points, on another graph than print has. At this epsilon released "
    "arcs are nearly all noise, and a sum of them may drown the row of a node where a mean leaves it; that was not tested. "
    "Neither is better than a network that reads no arc."
)
RATES = (
    "The published code stops where the loss of validation nodes no longer falls; this row makes 500 steps and overfits. With"
    " steps and rate chosen on validation nodes, and the public test nodes of the source (settings, below), it is within 2 "
    "points of print."
)
PUBLIC = (
    "The source has the public test nodes and rows that are not scaled, and learns at a rate of 0.01. Its loop, without "
    "noise, at that rate and for all 2,000 passes, reaches 77.4 ± 0.5, as printed (python benchmarks/graph_split_published.py"
    " --noise 0 --splits 1 --epochs 2000 --seeds 3; on Cora 78.8 ± 5.6, printed 77). The source also stops early, which was "
    "not tried. At rates chosen on validation nodes (settings, below) ours is above print on these test nodes, and below it "
    "on random ones."
)
DRAWN = (
    "Print has one split, and results spread with splits and reports. This setting has {} here, and {} with fresh reports "
    "(last two tables). At epsilons 1 and 1 the published code itself has 65.7 on one split, printed 69.3."
)
UNCLIPPED = (
    "The loop of the source clips nothing and sends messages across the cuts, so that no unit has the printed epsilon. "
)
STATED = UNCLIPPED + (
    "Trained so, at the rate that is best on validation nodes, accuracy is at most {} below print (settings, below): without "
    "a guarantee, with the public test nodes, and with neighbors at prediction. {} With a guarantee, in one graph or in 10 "
    "splits{} and at fixed rates, these rows stay below the most frequent answer. At epsilon 2 the default, 1,000 groups, is "
    "above print."
)
CORA_ONCE = "The published code itself had 39.0, as printed, in one run at noise 112."
CITESEER_ONCE = (
    "The published code itself had 38.4 by SGD (two runs) and 29.3 by Adam (one) with 10 splits at a stated 6.16."
)
SPLIT_CORA = UNCLIPPED + (
    "Trained so, at the rate that is best on validation nodes, it reaches 38 to 42 (settings, below); the published code "
    "itself had 40.9 by SGD and 31.3 by Adam with 10 splits at a stated 6.16 (three runs each). SGD with 10 splits reaches "
    "54, as printed, at noise 1, whose stated epsilon is 46 and not 1 or 2; Adam does not reach print even at noise 0.3 (51)."
    " Ten times as many steps did not help (35.1 and 34.8: graph_split_published.py with --epochs 2000, noise 12 and 35, one "
    "seed each)."
)
TEXTS = (
    "Another data set: papers of Citeseer stand in for users of Pokec. The loop of the source clips nothing, so that no unit "
    "has the printed epsilon. On {} of these papers, without a guarantee and at the rate that is best on validation nodes, it"
    " reaches {} (settings, below). With a guarantee, one graph of 597 papers at a fixed rate stays at a guess or below it. "
    "The default, 1,000 groups, is above print at the same epsilon."
)
STARTS = (
    "One of ten fits ends at 60.8; the mean of the other nine is 84.3, as printed. Fitted again on the same ten splits "
    "(python benchmarks/vgae_starts.py --mechanism laplace --epsilon 9 --splits 10 --starts 3, page), the mean of 30 fits is "
    "84.5, and the lowest 80.8. Why one ended so low is not known."
)
LINKS = (
    "Some fits end low, and not because of their split: splits 0 and 2, with 70.2 and 68.9 in this row, have 75.7 and 79.7 "
    "with fresh reports (python benchmarks/vgae_starts.py --mechanism laplace --splits 10 --starts 2, page). These 20 fits "
    "have 75.6 on average; without two that end at 57.0 and 60.8, which validation edges show, 77.5. Why they end there is "
    "not known. An earlier record of this row on five of these splits had 77.7."
)
NOTHING = (
    "Random columns and no hops: accuracy depends on the rate. The row has 0.0001; at 0.001, which is better on validation "
    "nodes, three fits reach 30.2, 30.7 and 38.4 (settings, below). Print is 35.2, with an interval of 5.6 to each side; "
    "which rate it had is not known."
)
FEWER = "Random columns and no hops. The data here have no features, and made-up ones have 256 columns. "
COLUMNS = FEWER + "With as many as print, 500, the same settings reach 55.1 (settings, below)."
MANY_COLUMNS = FEWER + (
    "With as many as print, 7,842, five fits with the same settings reach 21.3 to 52.7, 38.5 on average (settings, below)."
)
LOTS = (
    "The authors' code (mnist_baseline.py, commit 29b5a9f) takes the gradient of the mean loss of a lot, clips nothing, and "
    "adds the noise to that mean. Trained so (second table of the page, one seed), {} That code also has a second hidden "
    "layer and stops by the test loss, which was not tried."
)
SMALL_LOTS = "lots of 600 and 6,000 come within 2 points of print."
LARGE_LOTS = (
    "lots of 60,000 reach 53 at every noise, where print falls from 45 to 39 and 10 as the noise grows: clipping explains "
    "that ours is below print, but not what print shows."
)
ONE_SEED = (
    "One seed. Six other fits of this row of the specification, on seeds 0 to 5, have 70.4 on average (67.0 to 72.7), which is "
    "above print (sfumato experiment run lpgnn-table-3-4-facebook --seeds 6 runs them among others)."
)
PIXELS = (
    "500 steps on raw pixels. With 60 noisy principal components and up to 40,000 steps, as in print, the next rows of the "
    "page are within 2 points of print (five seeds)."
)
OTHER_IMAGES = (
    "Other images: 40 people of ORL with 7 training images each, on raw pixels. Print has 153 people of Faces94, 20 "
    "photographs each, from which 220 changed copies are made before they are divided into 190 and 30, so that test images "
    "are copies of what was learned, and a record is one copy. "
)
PLAIN_FACES = OTHER_IMAGES + (
    "Plain training on as many copies of the people of ORL reaches 100.0, as printed, where copies are changed a little, and "
    "96.3 where they are changed as much as this library changes images; where other photographs test, unchanged, 96.2 and 98.8 "
    "(python benchmarks/faces_copies.py, page). So the number of copies and whose copies test both add to the distance."
)
RECORD_FACES = OTHER_IMAGES + (
    "With as many copies of the people of ORL, each a record, and the printed noise, softmax regression reaches 99 where copies "
    "are changed a little and pixels prepared, 90 to 93 on raw pixels, 80 to 82 where copies are changed as much as this library "
    "changes images, and 90 where other photographs test (python benchmarks/faces_copies.py, page). So most of the distance is "
    "the number of records; preparation and test images add to it. The mean image that is subtracted is not charged."
)
CLASS_FACES = OTHER_IMAGES + (
    "With as many copies of the people of ORL, prepared pixels, and the printed numbers of steps, whose exact epsilons are "
    "larger than printed, softmax regression reaches {} where copies are changed a little, {} on raw pixels, and {} where the"
    " copies are those of one photograph of each person (python benchmarks/faces_copies.py, page). The mean image that is "
    "subtracted is not charged."
)
ATTACKED = (
    "The attack finds more where a model overfits more: the last step of 100 in place of the best on validation labels has "
    "72.0 (GAP) and 74.4 (MLP), and 1,000 steps have 77.1 (GAP) and 74.1 (MLP) on the same page. How long the printed ones "
    "were trained is not known, and the graph is another."
)
REDUCED = (
    "Two seeds. Reduced for two cores: images of 14 x 14 pixels and a twelfth of the channels. The printed size was not run. "
    "Our own students (table 3.1) are above print on the whole images."
)
UNSOUND = (
    "Printed for a form whose predictions read neighbors in the clear, with an accounting that does not hold (the page says "
    "why). "
)
CLEAR = UNSOUND + (
    "With neighbors read at prediction, these weights reach 48.9 ± 1.0, and trained without noise on 1, 3 and 10 arcs an "
    "owner 58.6, 61.2 and 68.3 (python benchmarks/dpgnn.py, Berkeley13): most of the distance is that of the noise. The graph"
    " is another, and the published code was not run on it."
)
CLEAR_ELSEWHERE = (
    UNSOUND
    + "On these schools nothing else was run; the row of table 5.2 without FB-100 has experiments on Berkeley13 alone."
)

REASONS = (
    (".*", "GAP, one node", OTHER, LEVEL.format("57.4 ± 0.5")),
    (".*", "GAP without privacy", OTHER, FIVE_HOPS),
    (".*", "ProGAP, one arc .*layer-wise", OTHER, LAYERWISE),
    (".*", "ProGAP, one node .*layer-wise", OTHER, LAYERWISE),
    (".*", "ProGAP without privacy, layer-wise", OTHER, LAYERWISE),
    (".*", "ProGAP, one arc", OTHER, LEVEL.format("72.6 ± 0.2")),
    (".*", "ProGAP, one node", OTHER, LEVEL.format("64.4 ± 0.3")),
    (".*", "ProGAP without privacy", OTHER, LEVEL.format("80.9 ± 1.0")),
    ("progap-.*", "GraphSAGE without privacy", OTHER, DEPTH),
    (".*", "GraphSAGE without privacy", OTHER, SUMS),
    ("perturbed-topology", "EdgeRand", PART, EDGERAND),
    ("graph-split-table-1-.*", "No privacy, SGD", YES, PUBLIC),
    ("graph-split-table-1-.*", "No privacy, Adam", YES, RATES),
    (
        "graph-split-table-1-citeseer",
        "(One graph|10 splits)",
        PART,
        STATED.format("4 points", CITESEER_ONCE, " (of which 7 are left out, page)"),
    ),
    ("graph-split-table-1-cora", "One graph, SGD", YES, STATED.format("1 point", CORA_ONCE, "")),
    ("graph-split-table-1-cora", "(One graph|10 splits)", PART, SPLIT_CORA),
    ("graph-split-table-2-bag-of-words", "One graph", OTHER, TEXTS.format("the words", "62 to 65")),
    ("graph-split-table-2-hashing", "One graph", OTHER, TEXTS.format("hashed words", "58 to 61")),
    ("lpgnn-table-3-3-pubmed", "LPGNN, random features", YES, COLUMNS),
    ("lpgnn-table-3-3-lastfm", "LPGNN, random features", PART, MANY_COLUMNS),
    ("lots", "60,000", PART, LOTS.format(LARGE_LOTS)),
    ("lots", ".*", YES, LOTS.format(SMALL_LOTS)),
    ("dpsgd", ".*", YES, PIXELS),
    ("class-level-faces", "vanilla", PART, PLAIN_FACES),
    ("class-level-faces", "record-DP", PART, RECORD_FACES),
    ("class-level-faces", ".*sigma 0.8", PART, CLASS_FACES.format("85.4", "13.1", "99.0")),
    ("class-level-faces", ".*sigma 1.2", PART, CLASS_FACES.format("66.2", "7.4", "95.7")),
    ("class-level-faces", ".*sigma 1.6", PART, CLASS_FACES.format("61.0", "7.2", "90.9")),
    ("membership", ".*", PART, ATTACKED),
    ("pate-figure-3-3", "PATE", PART, REDUCED),
    ("progap-table-5-2", "DP-GNN", PART, CLEAR),
    ("progap-table-5-2-fb100", "DP-GNN", PART, CLEAR_ELSEWHERE),
    ("pgc-table-2-3-citeseer-links", "VGAE, Laplace.*features 9", YES, STARTS),
    ("pgc-table-2-3-citeseer-links", "VGAE, Laplace.*features 1", PART, LINKS),
    ("lpgnn-table-3-4-facebook", "LPGNN, forward correction", YES, ONE_SEED),
    ("lpgnn-table-3-3-facebook", "LPGNN, random features", PART, NOTHING),
    (
        "lpgnn-table-3-4-cora",
        "LPGNN, Drop.*epsilon of labels 0.5",
        PART,
        DRAWN.format("34.5 and, on the page of figure 3.5, 42.5", "38.5"),
    ),
    (
        "lpgnn-(table-3-4|figure-3-5-labels)-cora",
        "LPGNN",
        YES,
        DRAWN.format("66.7, 68.7 and 67.1 on the pages of tables 3.4 and 3.3 and figure 3.5", "67.6"),
    ),
    ("lpgnn-table-3-2-cora", "LPGNN, analytic Gaussian.*features 1$", PART, DRAWN.format("65.0", "65.3")),
    ("lpgnn-table-3-2-cora", "LPGNN, analytic Gaussian.*features 0.01$", PART, DRAWN.format("56.3", "59.3")),
    ("lpgnn-table-3-2-cora", "LPGNN, 1-bit", PART, DRAWN.format("41.6", "46.0")),
    (
        "lpgnn-figure-3-4-cora",
        "LPGNN, GraphSAGE, epsilon_y inf",
        YES,
        DRAWN.format("61.9 and, on the page of table 3.2, 64.4", "62.5"),
    ),
    (
        "lpgnn-figure-3-4-cora",
        "LPGNN, GraphSAGE, epsilon_y 1, epsilon of features 0.1$",
        YES,
        DRAWN.format("60.2 and, on the page of table 3.3, 63.6", "61.4"),
    ),
    (
        "lpgnn-(table-3-3|figure-3-4)-cora",
        "LPGNN, .*epsilon of features 0.01",
        PART,
        DRAWN.format("56.7 and 58.5 on the pages of table 3.3 and figure 3.4", "61.8"),
    ),
)
"""Page, run, how far it is explained, and why: the first that fits."""
