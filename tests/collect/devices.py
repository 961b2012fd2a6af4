"""A collection about one label, its devices, and a server in the test's own process."""

import subprocess
from dataclasses import dataclass, field
from functools import cached_property, partial

from starlette.testclient import TestClient

from sfumato.collect import _keys as keys
from sfumato.collect import _wire as wire
from sfumato.collect._batch import encode_batch
from sfumato.collect._keys import DeviceKeys, ServerKey
from sfumato.collect._schema import Schema
from sfumato.collect._server import create_app
from sfumato.collect._store import Enrolment, Keys, Upload
from sfumato.web._limits import Buckets

SERVER_KEY = ServerKey(bytes(range(32)))
TOKEN = "0123456789abcdef" * 4
BEARER = {"Authorization": f"Bearer {TOKEN}"}
OPEN = 1_796_100_000.0  # between the times of the schema


def label_schema(
    collection: str = "test", opens: str = "2026-11-01T00:00:00Z", closes: str = "2027-01-01T00:00:00Z"
) -> Schema:
    """A schema that asks for one of four classes."""
    return Schema.from_dict(
        {
            "collection": collection,
            "purpose": "A test.",
            "opens": opens,
            "closes": closes,
            "server_key": SERVER_KEY.public.hex(),
            "label": {"classes": ["a", "b", "c", "d"], "epsilon": 1.0, "mechanism": "randomized-response"},
        }
    )


def certify(folder, key="tls.key", chain="tls.pem"):
    """Write a key, and a certificate for this machine that it has signed itself; the files of both."""
    command = "openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -days 2 -subj /CN=x"
    names = ["-addext", "subjectAltName=IP:127.0.0.1", "-keyout", key, "-out", chain]
    subprocess.run([*command.split(), *names], cwd=folder, check=True, capture_output=True)
    return folder / chain, folder / key


def app_of(store, **settings):
    """The application of a store, open unless its clock says otherwise."""
    return create_app(store.schema, store, SERVER_KEY, TOKEN, **{"clock": lambda: OPEN, **settings})


def stop_buckets(monkeypatch):
    """Give no bucket of a server a token back, so that no slow machine changes what is refused."""
    for module in ("_server", "_operator"):
        monkeypatch.setattr(f"sfumato.collect.{module}.Buckets", partial(Buckets, clock=lambda: 0.0))


def client_of(store, **settings):
    """A client of such an application, which sees a fault as status 500."""
    return TestClient(app_of(store, **settings), raise_server_exceptions=False)


@dataclass(frozen=True)
class FakeDevice:
    """A device with keys that follow from its user id."""

    user: str
    schema: Schema = field(default_factory=label_schema)

    @cached_property
    def keys(self) -> DeviceKeys:
        seed = self.user.encode().ljust(32, b".")[:32]
        return DeviceKeys(seed, seed[::-1])

    @property
    def enrolment(self) -> Enrolment:
        return Enrolment(self.user, Keys(self.keys.sign_key, self.keys.agree_key))

    @property
    def code(self) -> dict[str, str]:
        """What it sends to enrol."""
        return {
            "user": self.user,
            "sign_key": self.keys.sign_key.hex(),
            "agree_key": self.keys.agree_key.hex(),
            "code": SERVER_KEY.code(self.schema, self.user),
        }

    def message(self, label: int = 0) -> bytes:
        return wire.encode(self.schema, self.user, {"label": (label,)})

    def upload(self, label: int = 0) -> Upload:
        return Upload(self.user, self.message(label), self.keys.sign(self.message(label)))

    def body(self, label: int = 0) -> bytes:
        """What it sends to report."""
        return self.message(label) + self.keys.sign(self.message(label))

    def withdrawal(self, label: int = 0, generation: int = 0) -> bytes:
        """What it sends to take its report back."""
        code = SERVER_KEY.code(self.schema, self.user, generation)
        return self.message(label) + self.keys.sign_withdrawal(self.message(label), code)

    def coded(self, label: int = 0) -> tuple[bytes, bytes]:
        """What it hands to a device that sends batches."""
        message = self.message(label)
        return message, keys.mac(self.keys.mac_key(SERVER_KEY.public, self.user), message)

    def batch(self, *others: tuple[bytes, bytes]) -> bytes:
        """A batch that it sends for others."""
        return encode_batch(self.schema, self.user, self.keys, others)
