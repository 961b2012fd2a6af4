r"""A device: it holds its user's keys and lifetime budget, draws one report for each schema, and sends the same bytes for ever.

The folder of a device has two files. ``device.json`` holds its secret keys. ``ledger.jsonl`` is a hash chain with one line for
each charge and one for each report that was drawn; a line is on disk before anything that follows from it happens:

1. the charge is written, 2. coins are drawn, 3. the report is written, 4. the report is sent.

A process that dies before 1 leaves nothing. Between 1 and 3 it leaves a charge without a report. No byte of a report has left the
device then, so whatever was drawn is as if it never was: the next call draws afresh under the same charge. From 3 on the stored
report is the only one there will ever be. A folder that is copied, or restored from an older copy, is two devices of one user:
that can cost the user a second report, which the server refuses and tells of.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING, Any

from filelock import FileLock, Timeout

from sfumato._files import PARTIAL, append_line, cut_file, make_folders, sync_folder, whole_file
from sfumato._validate import check_real, fail
from sfumato.collect.checks import moment
from sfumato.collect.connection import JSON, Connection
from sfumato.collect.keys import DeviceKeys
from sfumato.collect.roster import check_roster
from sfumato.collect.wire import check_user
from sfumato.errors import BudgetExceededError, InputError, LedgerError
from sfumato.record.ledger import Chain, canonical_json, chained

if TYPE_CHECKING:
    from sfumato.collect.schema import Schema

DELTA_CAP = 1e-6
_DEVICE, _LEDGER, _LOCK = "device.json", "ledger.jsonl", ".lock"
_WAIT_SECONDS = 60.0


@dataclass(frozen=True)
class Device:
    r"""The device of one user, in a folder of its own.

    **Formal guarantee.** Over its whole life a device releases reports of at most :math:`\epsilon` = ``epsilon_cap`` and
    :math:`\delta` = ``delta_cap`` together, by basic composition of the exact costs of their schemas, each of which is charged
    once. The unit of each is that of its schema. It holds for this folder: another folder of the same user adds up.

    Args:
        folder: made by :meth:`create`.
        user: the public id of the user.
        keys: the secret keys.
        epsilon_cap: the most that all reports together may cost.
        delta_cap: the most that their failure probabilities may add up to.

    Raises:
        InputError: an argument is out of range.
    """

    folder: Path
    user: str
    keys: DeviceKeys = field(repr=False)
    epsilon_cap: float
    delta_cap: float = DELTA_CAP

    @classmethod
    def create(cls, folder: Path, user: str, epsilon_cap: float, delta_cap: float = DELTA_CAP) -> Device:
        """Make a new device with keys of its own.

        Args:
            folder: is made, and must be empty if it exists; only its owner may look into it.
            user: the public id of the user.
            epsilon_cap: the most that all reports of this device may cost together, > 0.
            delta_cap: the most that their failure probabilities may add up to, from 0 to 1.

        Raises:
            InputError: the folder is not empty, or an argument is out of range.
            OSError: folder or disk refuses it.
        """
        epsilon = check_real(low=0, open_low=True, epsilon_cap=epsilon_cap)
        device = cls(
            folder, check_user(user), DeviceKeys.new(), epsilon, check_real(low=0, high=1, delta_cap=delta_cap)
        )
        about = {"user": user, "epsilon_cap": device.epsilon_cap, "delta_cap": device.delta_cap}
        keys = {"signing": device.keys.signing.hex(), "agreeing": device.keys.agreeing.hex()}
        _check_unused(folder)
        made = make_folders(folder)
        folder.chmod(0o700)
        with _locked(folder):
            _check_unused(folder)
            (folder / _LEDGER).unlink(missing_ok=True)
            _append(folder, [], {"kind": "device", **about})
            with whole_file(folder / _DEVICE, 0o600) as file:
                file.write(json.dumps({"format": 1, **about, **keys}, indent=1).encode() + b"\n")
        for one in made:
            sync_folder(one.parent)
        return device

    @classmethod
    def open(cls, folder: Path) -> Device:
        """Open the folder of a device.

        Raises:
            InputError: there is no device, or its file is damaged.
            LedgerError: its ledger is damaged or belongs to another device.
        """
        try:
            values = json.loads((folder / _DEVICE).read_bytes())
            keys = DeviceKeys(bytes.fromhex(values["signing"]), bytes.fromhex(values["agreeing"]))
            about = {"user": values["user"], "epsilon_cap": values["epsilon_cap"], "delta_cap": values["delta_cap"]}
            device = cls(folder, keys=keys, **about)
        except FileNotFoundError as error:
            raise fail("state", str(folder), "to be the folder of a device", "Make one first.") from error
        except (ValueError, KeyError, TypeError):
            raise InputError(f"Expected {_DEVICE} to hold the keys of a device. Restore it.") from None
        head = (device._read() or [{}])[0]
        if any(head.get(name) != value for name, value in {"kind": "device", **about}.items()):
            raise LedgerError(f"Expected {_LEDGER} to be the ledger of this device, got another or none. Restore it.")
        return device

    def spent(self) -> tuple[float, float]:
        """Return epsilon and delta of all charges so far."""
        epsilon, delta = _spent(self._read())
        return float(epsilon), float(delta)

    def statement(self, schema: Schema) -> str:
        """Return what the user has to know before a report, in plain words: the schema's statement, and this device's budget."""
        entries = self._read()
        if _found(entries, "charge", schema):
            return f"{schema.statement()}\nThis device was charged for it already: nothing is added."
        epsilon, _ = _spent(entries)
        after = float(epsilon + Fraction(schema.epsilon))
        return (
            f"{schema.statement()}\nOver its life this device has spent epsilon {float(epsilon):.6g} of at most "
            f"{self.epsilon_cap:.6g}. With this report it will have spent {after:.6g}."
        )

    def report(
        self,
        schema: Schema,
        values: Mapping[str, Any],
        *,
        roster: Sequence[str] = (),
        now: datetime | None = None,
    ) -> bytes:
        """Draw the report for a schema once, and return its message; later calls return the same bytes, whatever the values.

        Only what is public is refused, and before the charge: names, the time, the roster, the budget.

        Args:
            schema: what is asked; it was checked when it was read.
            values: ``features`` (numbers by name), ``label`` (the name of a class) and ``links`` (a list of user ids), as asked.
                A user who has no label leaves it out.
            roster: the ids that links are reported about, in order.
            now: the time, with a time zone; None asks the clock.

        Raises:
            InputError: names do not fit the schema, or the collection is not open.
            SchemaError: the roster is not that of the schema.
            BudgetExceededError: the report would cost more than is left. Nothing was drawn.
            LedgerError: the ledger is damaged.
        """
        with _locked(self.folder):
            entries = _synced(self.folder)
            if found := _found(entries, "report", schema):
                return bytes.fromhex(found["message"])
            from sfumato.collect.drawing import draw, values_of
            from sfumato.noise.coins import SecretWords

            check_open(schema, now)
            places = check_roster(schema.links, roster) if schema.links else {}
            own = values_of(schema, self.user, values, places)
            if not _found(entries, "charge", schema):
                self._charge(schema, entries)
            (message,) = draw(schema, own, SecretWords())
            _append(self.folder, entries, {"kind": "report", "schema": schema.sha256, "message": message.hex()})
            return message

    def send(self, schema: Schema, server: Connection, code: str | None = None) -> bool:
        """Send the stored report; return whether the server had it already.

        Args:
            schema: what was answered.
            server: where the report goes.
            code: the user's enrolment code; it may be left out once the device is enrolled.

        Raises:
            InputError: there is no report for this schema yet.
            CollectionError: the server refuses, or does not answer.
        """
        with _locked(self.folder):
            found = _found(_synced(self.folder), "report", schema)
        if found is None:
            raise fail("schema", schema.sha256[:16], "to have a report on this device", "Draw it first.")
        if code is not None:
            server.post("/users", json.dumps(enrolment(self.user, self.keys, code)).encode(), JSON)
        message = bytes.fromhex(found["message"])
        return server.post("/reports", message + self.keys.sign(message)).status_code == 200

    def _charge(self, schema: Schema, entries: list[dict[str, Any]]) -> None:
        epsilon, delta = _spent(entries)
        for name, spent, cost, cap in (
            ("epsilon", epsilon, schema.epsilon, self.epsilon_cap),
            ("delta", delta, schema.delta, self.delta_cap),
        ):
            if spent + Fraction(cost) > Fraction(cap):
                raise BudgetExceededError(
                    f"Expected this device to spend {name} {cap:.6g} at most over its life, got {float(spent):.6g} spent and "
                    f"{cost:.6g} asked for. Nothing was drawn or charged. This device cannot answer this schema."
                )
        charge = {
            "kind": "charge",
            "schema": schema.sha256,
            "collection": schema.collection,
            "epsilon": schema.epsilon,
            "delta": schema.delta,
            "time": datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ"),
        }
        _append(self.folder, entries, charge)

    def _read(self) -> list[dict[str, Any]]:
        return _entries(self.folder)


def enrolment(user: str, keys: DeviceKeys, code: str) -> dict[str, str]:
    """Return what a device sends to enrol: the id of its ``user``, its public ``keys``, and the ``code`` of this user."""
    return {"user": user, "sign_key": keys.sign_key.hex(), "agree_key": keys.agree_key.hex(), "code": code}


def check_open(schema: Schema, now: datetime | None = None) -> None:
    """Refuse a collection that takes no reports at this time; None asks the clock.

    Raises:
        InputError: the collection is not open yet, or closed.
    """
    time = (now or datetime.now(UTC)).astimezone(UTC).replace(tzinfo=None)
    if time < moment("opens", schema.opens):
        raise InputError(f"Expected an open collection, got one that opens at {schema.opens}. Answer it then.")
    if time >= moment("closes", schema.closes):
        raise InputError(f"Expected an open collection, got one that closed at {schema.closes}. Nothing was drawn.")


@contextmanager
def _locked(folder: Path) -> Iterator[None]:
    """Hold the folder for this process alone; another one waits, for a minute at most."""
    try:
        with FileLock(folder / _LOCK, timeout=_WAIT_SECONDS, mode=0o600):
            yield
    except Timeout as error:
        raise InputError(
            f"Expected {folder} to be free, got a process that works in it. Wait for it to end."
        ) from error


def _check_unused(folder: Path) -> None:
    """Refuse a folder that holds anything but what a process left that died while it made a device."""
    if not folder.exists():
        return
    if {path.name for path in folder.iterdir()} - {_LOCK, _LEDGER, _DEVICE + PARTIAL} or _entries(folder)[1:]:
        raise fail("state", str(folder), "to be a new or empty folder", "Name another one.")


def _chain(folder: Path) -> Chain:
    path = folder / _LEDGER
    chain = Chain.parse(path.read_bytes() if path.exists() else b"")
    if chain.problem:
        raise LedgerError(f"{_LEDGER}: {chain.problem}. Nothing was drawn. Restore a copy made after the last report.")
    return chain


def _entries(folder: Path) -> list[dict[str, Any]]:
    """The whole lines of the ledger. A last line without its end was never synced, so nothing followed from it."""
    return list(_chain(folder).entries)


def _synced(folder: Path) -> list[dict[str, Any]]:
    """The whole lines of the ledger, on disk: a process that was killed may have written the last one without syncing it."""
    chain = _chain(folder)
    cut_file(folder / _LEDGER, chain.size)
    return list(chain.entries)


def _append(folder: Path, entries: list[dict[str, Any]], body: dict[str, Any]) -> None:
    entry = chained(entries, body)
    append_line(folder / _LEDGER, canonical_json(entry), new=not entries)
    entries.append(entry)


def _found(entries: Sequence[Mapping[str, Any]], kind: str, schema: Schema) -> Mapping[str, Any] | None:
    return next((one for one in entries if one["kind"] == kind and one["schema"] == schema.sha256), None)


def _spent(entries: Sequence[Mapping[str, Any]]) -> tuple[Fraction, Fraction]:
    charges = [one for one in entries if one["kind"] == "charge"]
    epsilon, delta = (sum((Fraction(one[name]) for one in charges), Fraction()) for name in ("epsilon", "delta"))
    return epsilon, delta
