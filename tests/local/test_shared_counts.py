"""Two servers open noisy counts of public cells: what is public, what one label moves, what one server knows, what is learned."""

from dataclasses import replace
from fractions import Fraction
from itertools import product

import numpy as np
import pytest
import scipy.sparse as sp

import sfumato as sf
from sfumato.errors import DataError, InputError, UnsupportedUnitError
from sfumato.graph._synthetic import stochastic_block_model
from sfumato.local import _shared_counts as module
from sfumato.local._cells import cells_of
from sfumato.local._collection import topology
from sfumato.local._shared_counts import COUNTS, SERVERS, SharedCounts
from sfumato.noise._geometric import zero_sum_laplace
from sfumato.noise.coins import SecretWords
from sfumato.shares._prio3 import Prio3Histogram
from sfumato.verify import verify

KEY = bytes(range(32))
GRAPH = stochastic_block_model(600, 3, mean_degree=12, num_features=0, seed=3).with_split((0.5, 0.25, 0.25), seed=0)


def asked_of(graph):
    return (graph.train_mask | graph.val_mask) & (graph.y >= 0)


@pytest.fixture
def without_noise(monkeypatch):
    monkeypatch.setattr(
        module, "zero_sum_laplace", lambda source, scale, rows, columns: np.zeros((rows, columns), np.int64)
    )


class TestCells:
    @pytest.mark.parametrize("size", [1, 5, 16, 64, 1000])
    def test_every_user_is_in_one_cell_of_at_most_so_many(self, size):
        asked = asked_of(GRAPH)
        cells = cells_of(topology(GRAPH), asked, size)
        assert ((cells >= 0) == asked).all()
        users = np.bincount(cells[asked])
        assert users.min() >= 1
        assert users.max() <= size

    @pytest.mark.parametrize("size", [2, 3, 8])
    def test_components_and_odd_graphs(self, size):
        """A star, pairs, isolated nodes, a clique: all are cut, and nobody is lost."""
        star = sp.lil_matrix((40, 40))
        star[0, 1:12] = star[1:12, 0] = 1
        star[12, 13] = star[13, 12] = 1
        star[20:40, 20:40] = 1 - np.eye(20)
        asked = np.ones(40, bool)
        cells = cells_of(sp.csr_matrix(star), asked, size)
        assert np.bincount(cells).max() <= size
        assert sorted(set(cells)) == list(range(cells.max() + 1))

    def test_no_label_decides(self):
        graphs = (GRAPH, with_labels((GRAPH.y + 1) % 3))
        cells = [SharedCounts(0.5).opened(graph, 3, KEY)[:, 0] for graph in graphs]
        assert (cells[0] == cells[1]).all()


class TestSensitivity:
    """All labelings of five users who are asked, and all others of one user: brute force of the joint L1 sensitivity."""

    users, classes = 5, 3

    def moved(self, cells):
        """The largest L1 distance of the exact counts of all cells together; ``cells`` lists the cells of each user."""
        rows = max(max(own) for own in cells) + 1

        def counts(labels):
            found = np.zeros((rows, self.classes), int)
            for own, label in zip(cells, labels, strict=True):
                for cell in own:
                    found[cell, label] += 1
            return found

        most = 0
        for labels in product(range(self.classes), repeat=self.users):
            for user, other in product(range(self.users), range(self.classes)):
                changed = [*labels]
                changed[user] = other
                most = max(most, int(np.abs(counts(labels) - counts(changed)).sum()))
        return most

    def test_a_label_moves_two_counts_by_one(self):
        path = sp.csr_matrix(np.eye(5, k=1) + np.eye(5, k=-1))
        for size in (1, 2, 3, 5):
            cells = cells_of(path, np.ones(5, bool), size)
            assert self.moved([[cell] for cell in cells]) == 2

    def test_near_miss_a_user_in_two_cells(self):
        assert self.moved([[0], [0, 1], [1], [1], [0]]) == 4

    def test_the_method_counts_so(self, without_noise):
        graph = GRAPH
        opened = SharedCounts(0.5).opened(graph, 3, KEY)
        asked = asked_of(graph)
        for cell in np.unique(opened[asked, 0]):
            inside = asked & (opened[:, 0] == cell)
            assert (opened[inside, 1:] == np.bincount(graph.y[inside], minlength=3)).all()


def law(scale, reach, classes, total=0):
    """Exact probabilities of vectors of one total under noise around a point, cut at ``reach``."""
    points = [x for x in product(range(-reach, reach + 1), repeat=classes - 1) if abs(total - sum(x)) <= reach]
    weights = {(*x, total - sum(x)): np.exp(-(np.abs(x).sum() + abs(total - sum(x))) / scale) for x in points}
    whole = sum(weights.values())
    return {x: weight / whole for x, weight in weights.items()}


class TestNoise:
    @pytest.mark.parametrize(("classes", "scale"), [(2, 4.0), (3, 2.0)])
    def test_the_law_of_the_sampler(self, classes, scale):
        from scipy import stats

        drawn = zero_sum_laplace(SecretWords(KEY), Fraction(scale), 40_000, classes)
        assert (drawn.sum(axis=1) == 0).all()
        expected = law(scale, 40, classes)
        names, seen = np.unique(drawn, axis=0, return_counts=True)
        counts = dict(zip(map(tuple, names), seen, strict=True))
        often = [x for x, p in expected.items() if p * 40_000 > 8]
        observed = np.array([counts.get(x, 0) for x in often] + [40_000 - sum(counts.get(x, 0) for x in often)])
        chances = np.array([expected[x] for x in often])
        assert stats.chisquare(observed, 40_000 * np.append(chances, 1 - chances.sum())).pvalue > 1e-4

    @pytest.mark.parametrize("classes", [2, 3, 4])
    def test_epsilon_of_one_server_by_enumeration(self, classes):
        """The ratio of outputs under neighboring counts is at most e^epsilon, and reaches it: no noise is wasted."""
        epsilon, reach = 0.7, 12
        noise = {x: -np.abs(x).sum() * epsilon / 2 for x in law(2 / epsilon, reach, classes)}
        move = np.zeros(classes, int)
        move[0], move[1] = 1, -1
        ratios = [noise[x] + np.abs(np.array(x) + move).sum() * epsilon / 2 for x in noise]
        assert max(ratios) == pytest.approx(epsilon)

    @pytest.mark.parametrize("scale", [1 / 0.7, 1.99 / 0.7])
    def test_near_miss_a_scale_for_one_count(self, scale):
        """A label leaves one count and enters another: noise for a change of one count costs up to twice as much."""
        noise = law(scale, 12, 3)
        worst = max(np.log(noise[x] / noise[y]) for x in noise if (y := (x[0] + 1, x[1] - 1, x[2])) in noise)
        assert worst > 0.7 * 1.001

    def test_near_miss_totals_that_differ(self):
        """Noise that sums to zero hides no total: if whether a user answers were private, nothing would be claimed."""
        assert not set(law(2.0, 9, 3, total=0)) & set(law(2.0, 9, 3, total=1))

    def test_one_server_sees_the_noise_of_the_other(self, monkeypatch):
        """What is opened less one server's noise is the exact counts and the other's noise: never the exact counts."""
        drawn = []
        real = zero_sum_laplace
        monkeypatch.setattr(module, "zero_sum_laplace", lambda *given: drawn.append(real(*given)) or drawn[-1])
        opened = SharedCounts(0.5).opened(GRAPH, 3, KEY)
        asked, cells = asked_of(GRAPH), opened[:, 0]
        exact = np.zeros_like(drawn[0])
        np.add.at(exact, (cells[asked], GRAPH.y[asked]), 1)
        counts = np.zeros_like(exact)
        counts[cells[asked]] = opened[asked, 1:]
        assert len(drawn) == len(SERVERS) == 2
        assert (drawn[0] != drawn[1]).any()
        for own, other in (drawn, drawn[::-1]):
            assert (counts - own == exact + other).all()
        assert SharedCounts(0.5).size == 64

    @pytest.mark.parametrize("epsilon", [0.5, 4.0])
    def test_noise_is_as_large_as_epsilon_asks(self, epsilon):
        """Fixed keys: the noise of both servers has the scale 2 / epsilon each; two thirds of it have 0.44 of the variance."""
        asked, ratios = asked_of(GRAPH), []
        for number in range(60):
            opened = SharedCounts(epsilon).opened(GRAPH, 3, bytes([number] * 32))
            exact = np.zeros((1 + opened[:, 0].max(), 3), np.int64)
            np.add.at(exact, (opened[asked, 0], GRAPH.y[asked]), 1)
            counts = np.zeros_like(exact)
            counts[opened[asked, 0]] = opened[asked, 1:]
            ratios.append((counts - exact).var() / (2 * module.zero_sum_variance(2 / epsilon, 3)))
        assert np.mean(ratios) == pytest.approx(1, abs=0.15)

    def test_a_key_serves_once(self):
        """The same key on other labels draws other noise, so that no difference of two runs is free of it."""
        changed = GRAPH.y.copy()
        changed[np.flatnonzero(asked_of(GRAPH))[0]] = (changed[np.flatnonzero(asked_of(GRAPH))[0]] + 1) % 3
        one, other = (SharedCounts(0.5).opened(with_labels(labels), 3, KEY) for labels in (GRAPH.y, changed))
        assert np.abs(one - other).sum() > 1000


def with_labels(labels):
    return replace(GRAPH, y=labels)


def test_shares_add_up_to_the_same_counts():
    """Prio3 reports of the users of a cell, added by two servers with their noises, open what the method computes."""
    rng = np.random.default_rng(0)
    labels, prio = rng.integers(0, 3, 20), Prio3Histogram(3, 2, b"cells")
    nonces = rng.integers(0, 256, (20, 16), dtype=np.uint8)
    reports = prio.shard(labels, nonces)
    steps = [prio.verify_init(KEY, s, nonces, reports.public_share, reports.input_shares[s]) for s in range(2)]
    message, valid = prio.verifier_shares_to_message([share for _, share in steps])
    accepted = np.all([prio.verify_next(state, message, valid) for state, _ in steps], axis=0)
    noises = [zero_sum_laplace(SecretWords(bytes([s] * 32)), Fraction(4), 1, 3) for s in range(2)]
    sent = [
        prio.add_noise(prio.aggregate(state, accepted), noise) for (state, _), noise in zip(steps, noises, strict=True)
    ]
    assert (prio.unshard(sent) == np.bincount(labels, minlength=3) + sum(noises)).all()


class TestMethod:
    def test_a_run_is_valid_and_says_who_is_trusted(self, tmp_path):
        method = SharedCounts(1.0)
        fitted = method.calibrate(None, method.unit, GRAPH.public_facts(method.unit)).fit(GRAPH)
        fitted.save(tmp_path / "run")
        assert verify(tmp_path / "run").valid
        values = fitted.certificate.values
        assert values["claim"]["epsilon"] == 1.0
        assert "two servers" in values["trust_model"]
        assert fitted.released[COUNTS].shape == (600, 4)

    def test_another_unit_and_odd_budgets_are_refused(self):
        method = SharedCounts(1.0)
        with pytest.raises(UnsupportedUnitError):
            method.calibrate(None, sf.LocalLevel(features=False), GRAPH.public_facts(sf.LocalLevel(features=False)))
        for epsilon in (0, 1e-7, -1, float("nan"), None, 1000):
            with pytest.raises(InputError):
                SharedCounts(epsilon)

    def test_cells_beyond_memory_are_refused_before_anybody_is_asked(self, monkeypatch):
        """Users who are alone share cells, so that many of them are no reason to refuse."""
        alone = replace(GRAPH, indptr=np.zeros_like(GRAPH.indptr), indices=GRAPH.indices[:0])
        monkeypatch.setattr(module, "_MOST_CELLS", 20)
        SharedCounts(1.0).check(alone)
        with pytest.raises(DataError, match="not fit into memory"):
            SharedCounts(4.0).check(GRAPH)

    def test_it_beats_local_reports_at_twice_the_budget(self):
        """Fixed keys: a graph of three blocks, mean of four draws."""
        from types import SimpleNamespace

        from sfumato.local import Hybrid
        from sfumato.local._collection import encode, received
        from sfumato.method.contract import Watch

        shared, local = SharedCounts(0.25), Hybrid(epsilon_x=0.0, epsilon_y=0.5)
        public, right = GRAPH.public_facts(local.unit), {"shared": 0.0, "local": 0.0}
        for number in range(4):
            key = bytes([number] * 32)
            scores = shared.learned(GRAPH, shared.opened(GRAPH, 3, key))
            read = received(local, GRAPH, public, encode(local, GRAPH, public, SecretWords(key)))
            other = local.predict(local.learn(read, 3, SimpleNamespace(seed=0, watch=Watch())), read)
            for name, found in (("shared", scores), ("local", other)):
                right[name] += (found.argmax(axis=1) == GRAPH.y)[GRAPH.test_mask].mean() / 4
        assert right["shared"] > right["local"] + 0.05, right


class TestVerifier:
    """What is released is held to its noise and to its cells; the certificate and its copies are left as they are."""

    def faults(self, opened, epsilon=1.0):
        from sfumato.verify._servers import COUNTS as NAME
        from sfumato.verify._servers import Opened

        class Stored:
            dtype, shape = "I64", list(opened.shape)

            def array(self):
                return opened

        return list(Opened(NAME, list(opened.shape), 0, None, None, epsilon).value_faults({NAME: Stored()}))

    @pytest.mark.parametrize("epsilon", [0.05, 0.5, 1.0, 4.0])
    def test_honest_counts_pass(self, epsilon):
        for number in range(5):
            assert not self.faults(SharedCounts(epsilon).opened(GRAPH, 3, bytes([number] * 32)), epsilon)

    def test_what_cannot_be_is_refused(self):
        graph = stochastic_block_model(6000, 3, mean_degree=6, num_features=0, seed=0).with_split(
            (0.5, 0.25, 0.25), seed=0
        )
        opened = SharedCounts(4.0).opened(graph, 3, KEY)
        assert not self.faults(opened, 4.0)
        assert any("less noise" in one for one in self.faults(opened, 0.1))
        wrapped, crowded, other = opened.copy(), opened.copy(), opened.copy()
        wrapped[wrapped[:, 0] == 0, 1:] += np.array([1 << 62, -(1 << 62), 0])
        assert any("2^31" in one for one in self.faults(wrapped, 4.0))
        crowded[:, 0] = np.where(crowded[:, 0] >= 0, crowded[:, 0] // 9, -1)
        assert self.faults(crowded, 4.0)
        other[np.flatnonzero(other[:, 0] == 0)[0], 1] += 1
        assert any("different counts" in one for one in self.faults(other, 4.0))

    def test_moments_are_those_of_the_method(self):
        from sfumato.verify._servers import moments

        for scale, classes in ((0.5, 2), (4.0, 7), (40.0, 3)):
            mean, square = moments(scale, classes)
            assert square == pytest.approx(2 * module.zero_sum_variance(scale, classes), rel=1e-9)
            assert 0.2 < mean / square**0.5 < 0.9


def test_pages_name_both_servers(tmp_path):
    """Who reads what the public and officers are shown learns whom they trust."""
    from sfumato.report import public_page
    from sfumato.report._run import read_run

    method = SharedCounts(1.0)
    fitted = method.calibrate(None, method.unit, GRAPH.public_facts(method.unit)).fit(GRAPH)
    fitted.save(tmp_path / "run")
    text = public_page(read_run(tmp_path / "run"))
    assert "two servers" in text
    assert "changed at random" not in text


def test_what_two_servers_open_is_learned_from(tmp_path):
    """Shares of all users of a graph, through both servers on disk, to predictions: what a run simulates, without simulation."""
    import hashlib

    from sfumato.collect import Device
    from sfumato.collect._keys import ServerKey
    from sfumato.collect.two._agreement import Agreement, Partition, Party
    from sfumato.collect.two._device import split
    from sfumato.collect.two._opening import join
    from sfumato.collect.two._server import Server
    from sfumato.collect.two._signed import Operator, SealKey, commitment, joint_key

    graph = stochastic_block_model(60, 2, mean_degree=12, homophily=0.95, num_features=0, seed=1)
    graph = graph.with_split((0.5, 0.25, 0.25), seed=0)
    method, names = SharedCounts(4.0), [f"user-{node}" for node in range(60)]
    asked = asked_of(graph)
    cells = cells_of(topology(graph), asked, method.size)
    partition = Partition.of_rows([(names[node], int(cells[node])) for node in np.flatnonzero(asked)])
    keys, halves = [ServerKey.new(), ServerKey.new()], (bytes([1] * 32), bytes([2] * 32))
    operators, seals = [Operator(key) for key in keys], [SealKey.new(), SealKey.new()]
    joint = joint_key(halves, tuple(commitment(server, half) for server, half in enumerate(halves)))
    parties = tuple(Party(seal.public.hex(), one.sign_key.hex()) for seal, one in zip(seals, operators, strict=True))
    agreement = Agreement(
        collection="two", purpose="Count.", opens="2026-01-01T00:00:00Z", closes="2036-01-01T00:00:00Z", classes=("a", "b"),
        epsilon=4.0, parties=parties,
        partition=partition.sha256, key=hashlib.sha256(joint).hexdigest(),
    )  # fmt: skip
    signatures = tuple(one.signature(agreement.text.encode()).hex() for one in operators)
    made = (agreement, partition, signatures)
    servers = [Server.create(tmp_path / f"{i}.db", i, *made, keys[i], joint, seals[i].secret) for i in (0, 1)]
    trusted = tuple(party.sign for party in agreement.parties)
    for node in np.flatnonzero(asked):
        device = Device.create(tmp_path / names[node], names[node], epsilon_cap=5)
        sent = split(device.folder, agreement, partition, signatures, trusted, agreement.classes[graph.y[node]])
        for server, message in zip(servers, sent, strict=True):
            server.enrol(device.user, device.keys.sign_key, server.code(device.user))
            server.take(message)
    files = [server.close() for server in servers]
    for step in ("proofs", "accepted", "opening"):
        files = [getattr(server, step)(theirs) for server, theirs in zip(servers, reversed(files), strict=True)]
    rows = join(agreement, partition, signatures, tuple(files)).rows(names)
    assert (rows[:, 0] == cells).all()
    assert np.abs(rows[asked, 1:].sum(axis=1) - np.bincount(cells[asked])[cells[asked]]).max() == 0
    predicted = method.learned(graph, rows).argmax(axis=1)
    assert (predicted == graph.y)[graph.test_mask].mean() > 0.6  # 200 keys of a simulated run had 1.0; chance is 0.5
