"""Why rows are below print; below_print_page.py puts them beside the rows."""

LAYERWISE = (
    "Another graph, as far as is known. From print to Berkeley13 the published code falls by 4.6, 4.9 and 3.6 points in its"
    " progressive form (published code, below), and the layer-wise form here by 3.9, 3.8 and 2.7. The published code was "
    "not run layer by layer."
)
SUMS = (
    "The source sums over neighbors, in a network with layers before and after the hops; here are means, without them. With"
    " sums in such a network, at the depth that validation chooses, the distance is less than 2 points (settings, below); "
    "means in it reach 80.1."
)
DEPTH = (
    "Another graph, as far as is known. The source chooses 1 to 5 layers on validation nodes, this row has 2. With depth "
    "and rate chosen so (settings, below), means over neighbors reach 80.1 and sums 81.3, which is 4.6 and 3.4 points below"
    " print; ProGAP's published code falls by 3.6 on this graph without privacy (published code, below). The published "
    "network itself was not run."
)
EDGERAND = (
    "The thesis prints sums over neighbors, and so has this row; the stored version of the published code takes "
    "means. At this epsilon released arcs are nearly all noise: their sum drowns the row of a node, their mean leaves"
    " it. With means (settings, below) the distance is less than 2 points. Neither is better than a network that "
    "reads no arc."
)
RATES = (
    "The published code stops where the loss of validation nodes no longer falls; this row makes 500 steps and learns "
    "training nodes by heart. With steps and rate chosen on validation nodes, and the public test nodes of the source "
    "(settings, below), it is within 2 points of print."
)
PUBLIC = (
    "The source has the public test nodes and rows that are not scaled, learns at a rate of 0.01 and stops early. Its"
    " loop, without noise, at that rate and for all 2,000 passes, reaches 77.4 ± 0.5, as printed (python "
    "benchmarks/graph_split_published.py --noise 0 --splits 1 --epochs 2000 --seeds 3; on Cora 78.8 ± 5.6, printed "
    "77). At rates chosen on validation nodes (settings, below) ours is above print on these test nodes, and below it"
    " on random ones."
)
DRAWN = (
    "Print has one split, and results spread with splits and reports. Fitted again with fresh reports (last two "
    "tables), the mean of all fits is within 2 points of print at this setting. The published code itself reaches "
    "65.7 where 69.3 is printed (published code, below)."
)
DRAWN_LOW = (
    "Explained in part. Print has one split, and results spread with splits and reports. Fitted again with fresh "
    "reports (last two tables), the mean of all fits is still more than 2 points below print, and the best of three "
    "splits within 2 points; a best of three flatters. The published code itself reaches 65.7 where 69.3 is printed "
    "(published code, below)."
)
FIVE_HOPS = (
    "Another graph, explained in part. The published code reaches 77.3 ± 0.3 on Berkeley13 without privacy, in the "
    "form of its example, with 5 hops (published code, below); the script of the printed table has 4, as has this "
    "row, and was not run there."
)
BERKELEY_ONLY = (
    "Another graph: the published code with its own script reaches {} on Berkeley13 (published code, below), so this "
    "distance is that of the graph."
)
UNCLIPPED = "Their loop clips nothing and sends messages across the cuts, so that no unit has the printed epsilon. "
STATED = UNCLIPPED + (
    "Explained in part. Trained so, at the rate that is best on validation nodes, it reaches what is printed to within {} "
    "(settings, below): without a guarantee, with the public test nodes, and with neighbors at prediction. With a "
    "guarantee, in one graph or in 10 splits{} and at fixed rates, these rows stay below the most frequent answer. At epsilon 2 "
    "the default, 1,000 groups, is above print."
)
STATED_IN_PART = UNCLIPPED + (
    "Explained in part. Trained so, at the rate that is best on validation nodes, it reaches 38 to 40 (settings, below); "
    "the published code itself reaches 40.9 ± 1.8 with 10 splits by SGD (published code, below). From there to print is not "
    "explained. Ten times as many steps did not help (35.1 and 34.8: graph_split_published.py with --epochs 2000, noise 12 "
    "and 35, one seed each)."
)
STATED_ON_TEXTS = UNCLIPPED + (
    "Explained in part. Trained so on the words of these texts, with noise for a stated 2, it reaches 63 (settings, below),"
    " which is what is printed for the words of Pokec; other epsilons were not tried. With a guarantee, one graph of 597 "
    "papers at a fixed rate stays near a guess. The default, 1,000 groups, is above print at the same epsilon."
)
STARTS = (
    "Not explained. Of the five recorded fits two end below 60 %, the others near 77 %. Fitted again with fresh reports, no"
    " fit of 20 ends below 66 % (python benchmarks/vgae_starts.py): those with the recorded starts have 75.3 on average, "
    "all together 76.6, which is still 2.2 points below print."
)
NOTHING = (
    "Explained in part. Columns that tell nothing, and no hops: accuracy is below the share of the largest class "
    "(30.6 %), and print spreads by 5.6; three seeds. The same columns, standardized, with the hops, rate and decay "
    "of the reports and the corrected choice of epoch are 58 points higher on the same page, so they are no worse as "
    "input."
)
FEWER = "Columns that tell nothing, and no hops. The data here have no features, and made-up ones have 256 columns. "
COLUMNS = FEWER + "With as many as print, 500, the same settings reach 55.1 (settings, below)."
LOTS = (
    "Explained in part. The authors' code (mnist_baseline.py, commit 29b5a9f) takes the gradient of the mean loss of a lot,"
    " clips nothing, and adds the noise to that mean. Trained so (second table of the page, one seed), lots of 600 and "
    "6,000 come within 2 points of print, and lots of 60,000 are 8 and 14 points above it at noise 4 and 50. At noise 100 "
    "print has 10, and this 53."
)
PIXELS = (
    "500 steps on raw pixels. With 60 noisy principal components and up to 40,000 steps, as in print, the next rows of the "
    "page are within 2 points of print (five seeds)."
)
OTHER_IMAGES = (
    "Other images: 40 people of ORL with 7 training images each. Print has 153 people of Faces94, 20 photographs each, from"
    " which 220 changed copies are made before they are divided into 190 and 30: its test images are copies of what was "
    "learned. "
)
PLAIN_FACES = OTHER_IMAGES + "Explained in part: no experiment tells what each difference costs."
FACES = OTHER_IMAGES + (
    "Explained in part. Without noise the same network reaches 95.8 %, so most of the distance comes with noise "
    "and its number of steps: the published numbers of steps would have larger epsilons than printed (page). A class step "
    "sums over a third of 40 people here and of 153 there, under the same noise."
)
ATTACKED = (
    "Explained in part. The attack finds more where a model has learned more by heart: the last step of 100 in place of the"
    " best on validation labels has 72.0 (GAP) and 74.4 (MLP), and 1,000 steps have 77.1 (GAP) and 74.1 (MLP) on the same "
    "page. How long the printed ones were trained is not known, and the graph is another."
)
REDUCED = (
    "Explained in part: two seeds. Reduced for two cores: images of 14 x 14 pixels and a twelfth of the channels. The "
    "printed size was not run. Our own students (table 3.1) are above print on the whole images."
)
UNSOUND = (
    "Printed for a form whose predictions read neighbors in the clear, with an accounting that does not hold (the page says"
    " why). "
)
CLEAR = UNSOUND + (
    "Read so, these weights reach 48.9 ± 1.0, and trained without noise on 1, 3 and 10 arcs an owner 58.6, 61.2 and "
    "68.3 (python benchmarks/dpgnn.py, Berkeley13): most of the distance is that of the noise. Explained in part: the"
    " graph is another, and the published code was not run on it."
)
STATED_ON_HASHES = (
    "Explained in part, by the same loop on bags of words (the page of bag-of-words); on hashed words it was not run. Print"
    " has word vectors here. The default, 1,000 groups, is above print at the same epsilon."
)
CLEAR_ELSEWHERE = UNSOUND + (
    "Explained in part: on Berkeley13 alone (the row of table 5.2 without FB-100): on these schools nothing else was run."
)
MANY_COLUMNS = FEWER + (
    "Explained in part. With as many as print, 7,842, fits with the same settings reach from 21.3 to 52.7 (settings, below), a "
    "range that holds print."
)
REASONS = (
    (".*", "GAP, one node", BERKELEY_ONLY.format("57.4 ± 0.5")),
    (".*", "GAP without privacy", FIVE_HOPS),
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
    (
        "graph-split-table-1-citeseer",
        "(One graph|10 splits)",
        STATED.format("4 points", " (of which 7 are left out, page)"),
    ),
    ("graph-split-table-1-cora", "One graph, SGD", STATED.format("1 point", "")),
    ("graph-split-table-1-cora", "(One graph|10 splits)", STATED_IN_PART),
    ("graph-split-table-2-bag-of-words", "One graph", STATED_ON_TEXTS),
    ("graph-split-table-2-hashing", "One graph", STATED_ON_HASHES),
    ("lpgnn-table-3-3-pubmed", "LPGNN, random features", COLUMNS),
    ("lpgnn-table-3-3-lastfm", "LPGNN, random features", MANY_COLUMNS),
    ("lots", ".*", LOTS),
    ("dpsgd", ".*", PIXELS),
    ("class-level-faces", "vanilla", PLAIN_FACES),
    ("class-level-faces", ".*", FACES),
    ("membership", ".*", ATTACKED),
    ("pate-figure-3-3", "PATE", REDUCED),
    ("progap-table-5-2", "DP-GNN", CLEAR),
    ("progap-table-5-2-fb100", "DP-GNN", CLEAR_ELSEWHERE),
    ("pgc-table-2-3-citeseer-links", "VGAE, Piecewise", STARTS),
    ("lpgnn-table-3-4-cora", "LPGNN, Drop.*epsilon of labels 0.5", DRAWN_LOW),
    ("lpgnn-table-3-2-cora", "LPGNN, analytic Gaussian.*epsilon of features 1$", DRAWN_LOW),
    ("lpgnn-(table|figure)-3-[2345]-(.*-)?cora", "LPGNN", DRAWN),
    ("lpgnn-table-3-3-facebook", "LPGNN, random features", NOTHING),
)
"""Page, run, and why: the first that fits."""
