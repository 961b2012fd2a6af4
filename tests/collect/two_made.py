"""Two servers on disk, their agreement, and devices that split at once."""

import hashlib

import numpy as np

from sfumato.collect._keys import DeviceKeys, ServerKey
from sfumato.collect.two._agreement import SERVERS, Agreement, Partition, Party
from sfumato.collect.two._device import drawn
from sfumato.collect.two._message import nonce_of
from sfumato.collect.two._server import Server
from sfumato.collect.two._signed import Operator, SealKey, commitment, joint_key

KEYS = tuple(ServerKey(bytes([1 + server]) * 32) for server in SERVERS)
SEALS = tuple(SealKey(bytes([11 + server]) * 32) for server in SERVERS)
HALVES = (b"\1" * 32, b"\2" * 32)
JOINT = joint_key(HALVES, tuple(commitment(server, half) for server, half in enumerate(HALVES)))
OPERATORS = tuple(Operator(key) for key in KEYS)
SIGN_KEYS = tuple(one.sign_key.hex() for one in OPERATORS)
TIMES = ("2020-01-01T00:00:00Z", "2120-01-01T00:00:00Z")
CLASSES = ("red", "green", "blue")


def agreed(partition, epsilon=1.0, classes=CLASSES, name="colors", least=1):
    parties = tuple(Party(seal.public.hex(), one.sign_key.hex()) for seal, one in zip(SEALS, OPERATORS, strict=True))
    agreement = Agreement(
        name, "A test.", *TIMES, classes, epsilon, parties, partition.sha256, hashlib.sha256(JOINT).hexdigest(), least
    )
    return agreement, tuple(one.signature(agreement.text.encode()).hex() for one in OPERATORS)


class Pair:
    """Users u0, u1, ... in cells of a size, and both servers in a folder."""

    def __init__(self, folder, users=12, size=4, **options):
        self.users = [f"u{number}" for number in range(users)]
        self.partition = Partition.of_rows([(user, number // size) for number, user in enumerate(self.users)])
        self.agreement, self.signatures = agreed(self.partition, **options)
        made = (self.agreement, self.partition, self.signatures)
        self.servers = [
            Server.create(folder / f"{server}.sqlite", server, *made, KEYS[server], JOINT, SEALS[server].secret)
            for server in SERVERS
        ]
        self.devices = {user: DeviceKeys(hashlib.sha256(user.encode()).digest(), bytes(32)) for user in self.users}

    def enrol(self, users=None, servers=SERVERS):
        for server in servers:
            with self.servers[server].book.writing() as connection:
                rows = [(user, self.devices[user].sign_key) for user in users or self.users]
                connection.executemany("INSERT INTO users VALUES (?, ?)", rows)

    def drawn(self, user, label):
        return drawn(self.agreement, user, self.partition.cells[user], self.devices[user], label)

    def report(self, user, label):
        for server, message in zip(self.servers, self.drawn(user, label), strict=True):
            assert server.take(message) is False

    def stored(self, labels):
        """Store many reports in one transaction, past the door."""
        prio, cells = self.agreement.prio, [self.partition.cells[user] for user in self.users]
        salts = [hashlib.sha256(user.encode()).digest()[:16] for user in self.users]
        nonces = [nonce_of(self.agreement, *row) for row in zip(self.users, cells, salts, strict=True)]
        rows = np.frombuffer(b"".join(nonces), np.uint8).reshape(-1, 16)
        made = prio.shard(labels, rows)
        for server in SERVERS:
            kept = [
                (user, nonce, nonce, public.tobytes(), nonce, SEALS[server].shut(share.tobytes(), user))
                for user, nonce, public, share in zip(
                    self.users, nonces, made.public_share, made.input_shares[server], strict=True
                )
            ]
            with self.servers[server].book.writing() as connection:
                connection.executemany("INSERT INTO reports VALUES (?, ?, ?, ?, ?, ?)", kept)
        return made

    def exchange(self, upto="opening"):
        """The files of both servers in the last step."""
        first, second = self.servers
        files = [first.close(), second.close()]
        for step in ("proofs", "accepted", "opening"):
            if upto == "list":
                break
            files = [getattr(first, step)(files[1]), getattr(second, step)(files[0])]
            if step == upto:
                break
        return files

    def exact(self, labels, counted=None):
        counts = np.zeros((self.partition.num_cells, len(self.agreement.classes)), np.int64)
        for user, label in labels.items():
            counts[self.partition.cells[user], self.agreement.classes.index(label)] += 1
        return counts
