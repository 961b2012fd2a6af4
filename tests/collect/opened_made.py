"""Files of what two servers opened, made in a moment: their keys sign sums that are exact counts with the noise of known keys."""

from fractions import Fraction

import numpy as np
from two_made import OPERATORS, agreed

from sfumato.collect.two._agreement import SERVERS, Partition
from sfumato.collect.two._files import Agreed, OpenedFile
from sfumato.collect.two._opening import LEFT_OUT
from sfumato.noise._geometric import zero_sum_laplace
from sfumato.noise.coins import SecretWords


def opened_file(cells, labels, classes, epsilon=1.0, key=0, name="two-1", **said):
    """What both servers open of these users' ``cells`` if those with ``labels`` answer; ``said`` replaces what both say."""
    partition = Partition(cells)
    agreement, signatures = agreed(partition, epsilon=epsilon, classes=tuple(classes), name=name)
    counts = np.zeros((partition.num_cells, len(classes)), np.int64)
    for user, label in labels.items():
        counts[cells[user], classes.index(label)] += 1
    nothing = np.zeros((len(counts), 16 * len(classes)), np.uint8)
    openings = []
    for server in SERVERS:
        source = SecretWords(bytes([key % 256, key // 256, server, 7] * 8))
        noise = zero_sum_laplace(source, Fraction(2) / Fraction(epsilon), *counts.shape)
        sums = agreement.prio.add_noise(nothing, noise + (counts if server == 0 else 0))
        sums[counts.sum(axis=1) == 0] = 0
        head = {"step": "opening", "agreement": agreement.sha256, "server": server, "proofs": ["0" * 64] * 2}
        body = {
            "accepted": "1" * 64,
            "counted": counts.sum(axis=1).tolist(),
            "left_out": dict.fromkeys(LEFT_OUT, 0),
            "sums": sums.tobytes().hex(),
        }
        openings.append(OPERATORS[server].signed({**head, **body, **said}))
    return OpenedFile(Agreed(agreement, partition, signatures), tuple(openings))
