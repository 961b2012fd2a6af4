"""The verifier reads what two servers opened itself: every near miss is found, whoever holds which key."""

import hashlib
import json
import shutil
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest
from collect_made import CLASSES, GRAPH, USERS, write_tables
from contracts_forgery import problems, rewrite, seal, setting, with_tensors
from opened_made import opened_file
from safetensors.numpy import load_file, save_file
from two_made import OPERATORS

from sfumato.collect._graph import Tables
from sfumato.collect._keys import ServerKey
from sfumato.collect.two._files import OPENED
from sfumato.collect.two._opening import LEFT_OUT
from sfumato.collect.two._signed import Operator
from sfumato.collect.two._training import prepare
from sfumato.local._cells import cells_of
from sfumato.local._collection import topology
from sfumato.local._shared_counts import SharedCounts
from sfumato.noise._geometric import zero_sum_laplace
from sfumato.noise.coins import SecretWords
from sfumato.record.ledger import canonical_json
from sfumato.shares._field import MODULUS
from sfumato.verify import describe, verify
from sfumato.verify._openings import read
from sfumato.verify._servers import Opened as Kind

FILE = "collection.bin"
CELLS = dict(zip(USERS[:120], map(int, cells_of(topology(GRAPH), np.arange(150) < 120, 16)), strict=False))
LABELS = {user: CLASSES[GRAPH.y[place]] for place, user in enumerate(USERS[:120]) if place % 6}
LOST = dict.fromkeys(LEFT_OUT, 0)
STRANGERS = tuple(Operator(ServerKey(bytes([77 + server]) * 32)) for server in (0, 1))


@pytest.fixture(scope="module")
def edges(tmp_path_factory):
    return Tables(str(write_tables(tmp_path_factory.mktemp("tables")) / "edges.csv"))


@pytest.fixture(scope="module")
def opened():
    return opened_file(CELLS, LABELS, CLASSES, epsilon=2.0)


@pytest.fixture(scope="module")
def honest(edges, opened, tmp_path_factory):
    return prepare(opened, edges, "shared-counts").fit().save(tmp_path_factory.mktemp("honest") / "run")


@pytest.fixture
def run(honest, tmp_path):
    return shutil.copytree(honest, tmp_path / "run")


def test_the_honest_run_is_valid_and_says_what_was_not_checked(run, opened):
    result = verify(run)
    assert result.problems == ()
    told = describe(run, result)
    for words in (
        "two-1, 100 reports of 120 users",
        OPERATORS[0].sign_key.hex(),
        OPERATORS[1].sign_key.hex(),
        f"agreement: SHA-256 {opened.agreed.agreement.sha256}",
        f"SHA-256 {opened.sha256}",
        "not checked: that each server drew its noise, opened once",
        "do not collude, is the word of the servers",
    ):
        assert words in told
    assert (run / "release" / FILE).read_bytes() == opened.content
    assert "schema: " not in told


def test_both_readers_agree_on_the_counts(opened):
    """The verifier shares no code with the package: field, signatures and cells are its own."""
    for key in range(20):
        made = opened_file(CELLS, LABELS, CLASSES, epsilon=[0.01, 0.5, 20.0][key % 3], key=key)
        found, joined = read(made.content), made.join()
        np.testing.assert_array_equal(found.counts, joined.counts)
        assert found.cells == CELLS
        assert [*found.digests] == joined.about["openings"]


@pytest.mark.parametrize("noise", [1.0, 0.1])
def test_noise_is_looked_for_where_there_are_reports(noise):
    """1,600 of 2,000 cells hold zeros, and the others the noise that they should, or a tenth of it."""
    cells, heard = np.arange(4000) // 2, 400
    drawn = sum(zero_sum_laplace(SecretWords(bytes([key]) * 32), Fraction(20), heard, 3) for key in (1, 2))
    counts = np.zeros((2000, 3), np.int64)
    counts[:heard] = np.rint(noise * drawn)
    counts[:heard, 2] = 2 - counts[:heard, :2].sum(axis=1)
    rows = np.concatenate((cells[:, None], counts[cells]), axis=1)

    class Stored:
        dtype, shape = "I64", list(rows.shape)

        def array(self):
            return rows

    kind = Kind("cell-counts", list(rows.shape), 0, None, None, 0.1, True)
    found = [*kind.value_faults({"cell-counts": Stored()})]
    assert len(found) == (noise < 1)
    assert all("holds less noise than was charged" in one for one in found)
    assert any(
        "do not sum to the users" in one
        for one in replace(kind, collected=False).value_faults({"cell-counts": Stored()})
    )


class Forged:
    """What a forger changes: agreement, cells, what both servers say, and with whose keys that is signed."""

    def __init__(self, data):
        body = json.loads(data.split(b"\n")[1])
        self.agreement, self.rows = json.loads(body["agreement"]), body["cells"].splitlines()
        self.said = [json.loads(one.split("\n")[0]) for one in body["openings"]]
        self.signers, self.heads = list(OPERATORS), [True, True]
        self.turned, self.partition = False, True

    def counts(self, server):
        data = bytes.fromhex(self.said[server]["sums"])
        return [int.from_bytes(data[i : i + 16], "little") for i in range(0, len(data), 16)]

    def put(self, server, values):
        self.said[server]["sums"] = b"".join((one % MODULUS).to_bytes(16, "little") for one in values).hex()

    @property
    def content(self):
        cells = "".join(f"{row}\n" for row in self.rows)
        if self.partition:
            self.agreement["partition"] = hashlib.sha256(cells.encode()).hexdigest()
        text = canonical_json(self.agreement)
        for said, kept in zip(self.said, self.heads, strict=True):
            said.update({"agreement": hashlib.sha256(text.encode()).hexdigest()} if kept else {})
        openings = [one.signed(said).decode() for one, said in zip(self.signers, self.said, strict=True)]
        signatures = [one.signature(text.encode()).hex() for one in self.signers]
        body = {"agreement": text, "cells": cells, "signatures": signatures}
        body["openings"] = openings[::-1] if self.turned else openings
        return f"{OPENED}\n{canonical_json(body)}\n".encode()


def name(run, data):
    """Let the certificate name this file, with all that it says of it, and the rows the users of its agreement."""
    (run / "release" / FILE).write_bytes(data)
    body = json.loads(data.split(b"\n")[1])
    text = body["agreement"].encode()
    agreement, openings = json.loads(text), [one.encode() for one in body["openings"]]
    facts = {"sha256": hashlib.sha256(data).hexdigest(), "agreement": hashlib.sha256(text).hexdigest()}
    facts |= {"openings": [hashlib.sha256(one).hexdigest() for one in openings], "servers": agreement["parties"]}
    path = run / "release" / "releases.safetensors"
    held = load_file(path)
    digest = hashlib.sha256(text).digest()
    for place, user in enumerate(USERS[:120]):
        number = int.from_bytes(hashlib.sha256(digest + user.encode()).digest()[:8], "big") >> 1
        held["users"][place] = number
    save_file(held, path)
    rewrite(run, lambda certificate, _: certificate["collection"].update(facts))


def forge(run, change):
    forged = Forged((run / "release" / FILE).read_bytes())
    change(forged)
    name(run, forged.content)


def test_a_file_that_both_servers_sign_anew_is_valid(run):
    """So what follows is found for what was changed, and not for how."""
    forge(run, lambda _: None)
    assert verify(run).problems == ()


def more_of_a_class(forged):
    values = forged.counts(0)
    values[0] += 1
    forged.put(0, values)


def moved(forged):
    """One more of a class and one less of another, which still adds up."""
    values = forged.counts(1)
    values[0], values[1] = values[0] + 1, values[1] - 1
    forged.put(1, values)


def wrapped(forged):
    values = forged.counts(0)
    values[0], values[1] = values[0] + (1 << 40), values[1] - (1 << 40)
    forged.put(0, values)


def beyond(forged):
    values = forged.counts(0)
    forged.put(0, values)
    forged.said[0]["sums"] = "ff" * 16 + forged.said[0]["sums"][32:]


def report_less(forged):
    for said in forged.said:
        said["counted"][0] -= 1


def reports_of_nobody(forged):
    """More reports than users of the cell, and counts that add up to them."""
    values = forged.counts(0)
    values[0] += 40
    forged.put(0, values)
    for said in forged.said:
        said["counted"][0] += 40


def half_a_report(forged):
    for said in forged.said:
        said["counted"][0] += 0.5


def shut(forged):
    """Nobody counts in a cell, whose counts sum to zero, and one server opens what it likes."""
    for said in forged.said:
        said["counted"][0] = 0
    for server in (0, 1):
        forged.put(server, [0, 0, 0, *forged.counts(server)[3:]])
    forged.put(1, [5, -5, 0, *forged.counts(1)[3:]])


def far_away(forged):
    """A cell whose number is larger than any list of cells that fits into memory."""
    forged.rows[0] = f"{10**17} u000"


def in_two_cells(forged):
    forged.rows.insert(1, f"{1 + int(forged.rows[0].split()[0])} u000")


def no_zero(forged):
    forged.rows[0] = "0" + forged.rows[0]


def missing(forged):
    forged.rows = [row for row in forged.rows if not row.endswith("u000")]


def out_of_order(forged):
    forged.rows[0], forged.rows[1] = forged.rows[1], forged.rows[0]


def only_one_says(forged):
    forged.said[1]["counted"][0] -= 1


def said(**values):
    return lambda forged: [one.update(values) for one in forged.said]


def one_said(place, **values):
    return lambda forged: forged.said[place].update(values)


def in_capitals(forged):
    """The case of digits could tell of reports what no count shows."""
    forged.said[0]["sums"] = forged.said[0]["sums"].upper()


def apart(forged):
    forged.said[0]["sums"] = forged.said[0]["sums"][:32] + " " + forged.said[0]["sums"][32:]


def as_floats(forged):
    forged.said[1]["counted"] = [float(one) for one in forged.said[1]["counted"]]


def asked(**values):
    return lambda forged: forged.agreement.update(values)


def held(**values):
    return lambda forged: vars(forged).update(values)


def other_keys(forged):
    """Two strangers sign it all, and are the servers that agreement and certificate name."""
    forged.signers = list(STRANGERS)
    for party, one in zip(forged.agreement["parties"], STRANGERS, strict=True):
        party["sign"] = one.sign_key.hex()


def one_key(forged):
    forged.agreement["parties"][1]["sign"] = forged.agreement["parties"][0]["sign"]
    forged.signers = [OPERATORS[0]] * 2


def weak(forged):
    forged.agreement["parties"][1]["sign"] = (b"\1" + bytes(31)).hex()


FORGED = {
    "a count more": (more_of_a_class, "counts of a cell do not add up to its reports"),
    "another class": (moved, "cell-counts: row "),
    "counts that no noise gives": (wrapped, "a count is beyond 2^31"),
    "no element of the field": (beyond, "a sum is no element of the field"),
    "a report less": (report_less, "counts of a cell do not add up to its reports"),
    "reports of nobody": (reports_of_nobody, "a cell has more reports than users"),
    "a report that one alone counts": (only_one_says, "the servers say different things"),
    "a user in two cells": (in_two_cells, "a user is in two cells, or a line is malformed"),
    "a cell far away": (far_away, "a cell has no users"),
    "a cell with a zero before it": (no_zero, "a user is in two cells, or a line is malformed"),
    "a user less": (missing, "asked: 119 differs from 120"),
    "users in another order": (out_of_order, "its users are not in ascending order"),
    "swapped openings": (held(turned=True), "server 0 did not sign what it opened"),
    "one server that signs for both": (held(signers=[OPERATORS[0]] * 2), "its agreement is not signed by both servers"),
    "strangers that sign": (held(signers=list(STRANGERS)), "its agreement is not signed by both servers"),
    "an opening of another agreement": (held(heads=[True, False]), None),
    "cells that nobody signed": (held(partition=False, rows=["0 u000"]), "its cells are not those of the agreement"),
    "another step": (said(step="list"), "server 0 signed something else than its opening"),
    "another server": (one_said(1, server=0), "server 1 signed something else than its opening"),
    "a server that is no number": (one_said(0, server=False), "server 0 signed something else than its opening"),
    "a server that is 1.0": (one_said(1, server=1.0), "server 1 signed something else than its opening"),
    "the same numbers in another form": (as_floats, "the servers say different things"),
    "sums in capitals": (in_capitals, "the sums are not digits in small letters"),
    "sums with a space": (apart, "the sums are not digits in small letters"),
    "other proofs": (one_said(1, proofs=["2" * 64] * 2), "the servers say different things"),
    "a field more in an opening": (said(note="u000 a"), "the opening of server 0 holds other fields or words"),
    "words in place of a hash": (said(accepted="u000 a"), "the opening of server 0 holds other fields or words"),
    "a hash more": (said(proofs=["2" * 64] * 3), "the opening of server 0 holds other fields or words"),
    "half a report": (half_a_report, "numbers of reports are no numbers"),
    "half a report that does not count": (said(left_out=LOST | {"failed": 0.5}), "do not count have other reasons"),
    "another reason": (said(left_out={**LOST, "late": 1}), "do not count have other reasons"),
    "too many left out": (said(left_out=LOST | {"few": 21}), "there are more reports than users"),
    "left out in the file alone": (said(left_out=LOST | {"failed": 3}), "collection.left_out.failed: 3 differs from 0"),
    "a cell that should be shut": (asked(least=5), "a cell is open that should have stayed shut"),
    "a shut cell that is open": (shut, "a cell without reports is not zero"),
    "another epsilon": (asked(epsilon=1.0), "settings.epsilon_y: 2.0 differs from 1.0"),
    "other classes": (asked(classes=["a", "b", "d"]), "graph.classes[2]: 'c' differs from 'd'"),
    "a class twice": (asked(classes=["a", "b", "b"]), "fewer than two, too many, or alike"),
    "another name": (asked(collection="other"), "collection.name: 'other' differs from 'two-1'"),
    "another time": (asked(closes="2119-01-01T00:00:00Z"), "collection.closes"),
    "closed before it opened": (asked(closes="2019-01-01T00:00:00Z"), "closes before it opens"),
    "a field more": (asked(note="x"), "agreement.note: is not a known field"),
    "a verdict as a purpose": (asked(purpose="x\nVALID"), "agreement.purpose: expected printable"),
    "another format": (asked(format=2), "agreement.format"),
    "one key for both": (one_key, "both servers have one key"),
    "a key for which anybody can sign": (weak, "anybody can sign under the key of a server"),
}  # fmt: skip


@pytest.mark.parametrize(("change", "named"), FORGED.values(), ids=FORGED)
def test_a_consistent_forgery_of_the_file_is_found(run, change, named):
    if named is None:
        forge(run, asked(purpose="Another one."))
        assert verify(run).problems == ()  # a new agreement alone, with openings of its own
        forged = Forged((run / "release" / FILE).read_bytes())
        change(forged)
        forged.agreement["purpose"] = "A third one."
        name(run, forged.content)
        named = "server 1 signed something else than its opening"
    else:
        forge(run, change)
    found = problems(run)
    assert f"{FILE}: " in found
    assert named in found


def test_keys_of_strangers_are_shown_for_comparison(run):
    """Whoever signs both sides is valid for a verifier, which does not know who the servers are: it names the keys."""
    forge(run, other_keys)
    result = verify(run)
    assert result.valid
    told = describe(run, result)
    assert OPERATORS[0].sign_key.hex() not in told
    assert all(one.sign_key.hex() in told for one in STRANGERS)


def test_other_keys_in_the_certificate_are_found(run):
    facts = [{"seal": "0" * 64, "sign": one.sign_key.hex()} for one in STRANGERS]
    rewrite(run, lambda certificate, _: certificate["collection"].update(servers=facts))
    found = problems(run)
    for server in (0, 1):
        assert f"collection.servers[{server}].sign: '{OPERATORS[server].sign_key.hex()}' differs from" in found
    rewrite(run, lambda certificate, _: certificate["collection"].update(servers=facts[:1]))
    assert "collection.servers: holds 2 items, expected 1" in problems(run)


def test_a_changed_row_is_found(run):
    def change(tensors):
        rows = tensors["cell-counts"]
        same = rows[:, 0] == 3
        rows[same, 1], rows[same, 2] = rows[same, 1] + 1, rows[same, 2] - 1

    assert "differs from what both servers opened of the cell of its user" in with_tensors(run, "releases", change)


def test_a_row_for_somebody_who_was_not_asked_is_found(run):
    def change(tensors):
        tensors["cell-counts"][140] = tensors["cell-counts"][0]

    assert "cell-counts: " in with_tensors(run, "releases", change)


def test_users_who_change_places_are_found(run):
    def change(tensors):
        other = np.flatnonzero(tensors["cell-counts"][:120, 0] != tensors["cell-counts"][0, 0])[0]
        tensors["users"][[0, other]] = tensors["users"][[other, 0]]

    assert "cell-counts: row 0 differs" in with_tensors(run, "releases", change)

    def forget(tensors):
        tensors["users"][5] = -1

    assert "users: the users with a row are not those who were asked" in with_tensors(run, "releases", forget)


def test_another_epsilon_than_that_of_the_agreement_is_found(edges, opened, tmp_path, run):
    """A model that takes the noise for smaller than it is, with a claim that is: its claim is not what the servers signed."""
    training = prepare(opened, edges, "shared-counts")
    method = SharedCounts(1.0)
    plan = method.calibrate(None, method.unit, training.graph.public_facts(method.unit))
    found = problems(replace(training, plan=plan).fit().save(tmp_path / "less"))
    assert "settings.epsilon_y: 1.0 differs from 2.0 (compared with the agreement)" in found
    assert "claim.epsilon: 1.0 differs from 2.0" in found
    rewrite(run, setting(epsilon_y=1.5))
    assert "expected 1.5, as the settings ask" in problems(run)


def test_the_file_must_be_there_and_whole(run):
    path = run / "release" / FILE
    data = path.read_bytes()
    path.write_bytes(data[:-1])
    seal(run / "release")
    assert "its SHA-256 is not collection.sha256" in problems(run)
    for broken, why in (
        (data[:-1], "it is not canonical JSON after its first line"),
        (data.replace(b"opened by two", b"opened by 2"), "it does not begin as what two servers opened"),
        (data.replace(b'"cells":', b'"cells":"","cells":'), "is malformed"),
        (data.split(b"\n")[0] + b"\n[1]\n", "is malformed"),
        (b"SFRC\1" + data, "it does not begin as what two servers opened"),
    ):
        path.write_bytes(broken)
        digest = hashlib.sha256(broken).hexdigest()
        rewrite(run, lambda certificate, _, digest=digest: certificate["collection"].update(sha256=digest))
        assert why in problems(run)
    path.unlink()
    seal(run / "release")
    assert f"{FILE}: is missing, but the certificate names it" in problems(run)


def test_facts_of_one_server_do_not_fit(run):
    facts = {"name": "two-1", "sha256": "0" * 64, "schema": "0" * 64, "reports": 100}
    facts |= {"opens": "2020-01-01T00:00:00Z", "closes": "2120-01-01T00:00:00Z"}
    data = (run / "release" / FILE).read_bytes()
    facts["sha256"] = hashlib.sha256(data).hexdigest()
    rewrite(run, lambda certificate, _: certificate.update(collection=facts))
    assert "collection.servers: is not expected" in problems(run)


def test_broken_files_are_refused_and_break_nothing(opened):
    """500 files with changed, missing or repeated parts: each is refused by an error that a verdict tells."""
    rng, data = np.random.default_rng(3), opened.content
    for _ in range(500):
        start, kind = int(rng.integers(len(data))), rng.integers(3)
        stop = start + int(rng.integers(1, 40))
        part = {0: rng.bytes(stop - start), 1: b"", 2: data[start:stop] * 2}[int(kind)]
        broken = data[:start] + part + data[stop:]
        with pytest.raises((ValueError, TypeError, LookupError, AttributeError)):
            read(broken if broken != data else data[:-1])
