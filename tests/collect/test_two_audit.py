"""One server gives its whole state and traffic to an attacker, who also has the other's files and every other user's class.

Each user stands alone in a cell, so the attacker knows everything but the user's class. Its best guess is the likelihood of the
opened vector once it has taken away its own share and noise. Shares and proofs of single users are attacked beside it.
"""

import json

import numpy as np
import pytest
from two_made import SERVERS, Pair

from sfumato.audit._bounds import epsilon_lower_bound
from sfumato.collect.two import _server as of_server
from sfumato.noise._geometric import zero_sum_laplace

USERS = 3000


def body(data):
    return json.loads(data.split(b"\n")[0])


def attacked(folder, attacker, epsilon=1.0):
    """For each user its class (0 or 1), the opened vector less all that the attacker knows, and its bytes about the user."""
    pair = Pair(folder, users=USERS, size=1, epsilon=epsilon)
    labels = np.random.default_rng(2).integers(0, 2, USERS)
    made = pair.stored(labels)
    lists = pair.exchange("list")
    proofs = [pair.servers[one].proofs(lists[1 - one]) for one in SERVERS]
    accepted = [pair.servers[one].accepted(proofs[1 - one]) for one in SERVERS]
    prio, rival = pair.agreement.prio, pair.servers[1 - attacker]
    own = pair.servers[attacker]
    with own.book.reading() as connection:
        fixed = own._fixed(connection, lists[1 - attacker])
        state = own._checked(connection, fixed).state
    order = [pair.users.index(one.user) for one in fixed]
    cells = pair.partition.rows([one.user for one in fixed])
    shares = prio.aggregate(state, np.ones(len(fixed), bool), cells, pair.partition.num_cells)
    opened = body(rival.opening(accepted[attacker]))["sums"]
    theirs = np.frombuffer(bytes.fromhex(opened), np.uint8).reshape(shares.shape)
    told = np.frombuffer(bytes.fromhex(body(proofs[1 - attacker])["shares"]), np.uint8).reshape(USERS, -1)
    traffic = np.concatenate([made.input_shares[attacker][order], made.public_share[order], told], axis=1)
    return labels, prio.unshard([shares, theirs]), labels[order], traffic


def bound(labels, left):
    """The epsilon that the attacker proves: it says class 0 where the opened vector has more of it."""
    scores = left[:, 0] - left[:, 1]
    yes, no = scores[labels == 0] > 0, scores[labels == 1] > 0
    return epsilon_lower_bound(int(yes.sum()), len(yes), int(no.sum()), len(no))


@pytest.mark.parametrize("attacker", SERVERS)
def test_one_servers_whole_view_proves_at_most_the_claim(tmp_path, attacker):
    labels, left, ordered, traffic = attacked(tmp_path, attacker)
    assert 0.5 < bound(labels, left) <= 1.0
    means = [traffic[ordered == one].astype(float) for one in (0, 1)]
    spread = np.sqrt(sum(part.var(axis=0) / len(part) for part in means)) + 1e-9
    apart = np.abs(means[0].mean(axis=0) - means[1].mean(axis=0)) / spread
    assert apart.max() < 5, "a byte of shares or proofs knows the class"


def test_audit_finds_noise_of_half_the_scale(tmp_path, monkeypatch):
    monkeypatch.setattr(
        of_server, "zero_sum_laplace", lambda words, scale, *shape: zero_sum_laplace(words, scale / 2, *shape)
    )
    labels, left, *_ = attacked(tmp_path, 0)
    assert bound(labels, left) > 1.0
