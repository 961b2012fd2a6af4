r"""A device: it holds its user's keys and lifetime budget, draws one report for each schema, and sends the same bytes for ever.

The folder of a device has three files. ``device.json`` holds its secret keys, and ``codes.json`` the code with which it enrolled
for each schema. ``ledger.jsonl`` has one line for each charge, for each report that was drawn and for each that was taken back
(:mod:`~sfumato.collect._journal`); a line is on disk before anything that follows from it happens:

1. the charge is written, 2. coins are drawn, 3. the report is written, 4. the report is sent.

To enrol tells the server nothing of a value, so a device does it before 1: what the server refuses then costs nothing.

A process that dies before 1 leaves nothing. Between 1 and 3 it leaves a charge without a report. No byte of a report has left the
device then, so whatever was drawn is as if it never was: the next call draws afresh under the same charge. From 3 on the stored
report is the only one there will ever be. A folder that is copied, or restored from an older copy, is two devices of one user:
that can cost the user a second report, which the server refuses and tells of.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sfumato._validate import check_real
from sfumato.collect._checks import check_open
from sfumato.collect._connection import JSON, Connection, RefusedError
from sfumato.collect._folder import keep_code, read_codes, read_device, write_device
from sfumato.collect._journal import (
    append_entry,
    charge_line,
    check_budget,
    drawn_message,
    found_entry,
    is_withdrawn_under,
    locked,
    read_entries,
    spent,
    standing_withdrawal,
    synced_entries,
    withdrawal_line,
)
from sfumato.collect._keys import DeviceKeys
from sfumato.collect._sentences import CLOSED, TAKEN_BACK
from sfumato.collect._spending import named, spend
from sfumato.collect._tables import check_roster
from sfumato.collect._ticks import Ticks
from sfumato.collect._wire import check_user
from sfumato.errors import InputError

if TYPE_CHECKING:
    from sfumato.collect._contract import Contract
    from sfumato.collect._drawing import Values
    from sfumato.collect._schema import Schema

DELTA_CAP = 1e-6


@dataclass(frozen=True)
class Device:
    r"""The device of one user, in a folder of its own.

    **Formal guarantee.** Over its whole life a device releases reports of at most :math:`\epsilon` = ``epsilon_cap`` and
    :math:`\delta` = ``delta_cap`` together, by basic composition of the exact costs of their schemas, each of which is charged
    once. The unit of each is that of its schema. It holds for this folder: another folder of the same user adds up.

    Args:
        folder: made by :meth:`create`; without it the device can only make statements.
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

    def __post_init__(self) -> None:
        check_user(self.user)
        check_real(low=0, open_low=True, epsilon_cap=self.epsilon_cap)
        check_real(low=0, high=1, delta_cap=self.delta_cap)

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
        device = cls(folder, user, DeviceKeys.new(), epsilon_cap, delta_cap)
        write_device(folder, device._about, device.keys)
        return device

    def keep(self, *, new: bool) -> Device:
        """Return the device that is in the folder now, which is that of the same user with the same caps.

        Whoever asks a question calls this after the answer, so that no key leaves that is on no disk.

        Args:
            new: whether this device was never stored; then it is stored now, unless another process stored one before.

        Raises:
            InputError: the folder holds something else, or the device of another user or with another cap.
            LedgerError: the ledger of the device in the folder is damaged.
            OSError: folder or disk refuses it.
        """
        if new:
            write_device(self.folder, self._about, self.keys, unless_there=True)
        found = Device.open(self.folder)
        if replace(found, keys=self.keys) != self:
            raise self._another(found)
        return found

    @classmethod
    def open(cls, folder: Path) -> Device:
        """Open the folder of a device.

        Raises:
            InputError: there is no device, or its file is damaged.
            LedgerError: its ledger is damaged or belongs to another device.
        """
        about, keys = read_device(folder)
        try:
            return cls(folder, keys=keys, **about)
        except InputError:
            raise InputError("Expected device.json to hold the user and the caps of a device. Restore it.") from None

    def spent(self) -> tuple[float, float]:
        """Return epsilon and delta of all charges so far."""
        epsilon, delta = spent(read_entries(self.folder))
        return float(epsilon), float(delta)

    def statement(self, schema: Contract) -> str:
        """Return what the user has to know before a report, in plain words: the schema's statement, and this device's budget."""
        entries = read_entries(self.folder)
        if found_entry(entries, "charge", schema):
            return f"{schema.statement()}\nThis device was charged for it already: nothing is added."
        epsilon, _ = spent(entries)
        after = float(epsilon + Fraction(schema.epsilon))
        return (
            f"{schema.statement()}\nOver its life this device has spent epsilon {float(epsilon):.6g} of at most "
            f"{self.epsilon_cap:.6g}. With this report it will have spent {after:.6g}."
        )

    @property
    def is_fresh(self) -> bool:
        """Whether nothing was charged, and no server knows the keys: to remove the folder loses nothing."""
        return len(read_entries(self.folder)) == 1 and not read_codes(self.folder)

    def has_report(self, schema: Contract) -> bool:
        """Tell whether the report for a schema was drawn."""
        return found_entry(read_entries(self.folder), "report", schema) is not None

    def took_back(self, schema: Schema) -> bool:
        """Tell whether the user took the report for a schema back, and neither a new code nor a closed server ended that."""
        return standing_withdrawal(read_entries(self.folder), schema) is not None

    def check(
        self,
        schema: Schema,
        values: Mapping[str, Any],
        *,
        roster: Sequence[str] = (),
        now: datetime | None = None,
    ) -> None:
        """Refuse what :meth:`report` would refuse. Nothing is drawn or charged.

        Args:
            schema: what is asked.
            values: as for :meth:`report`.
            roster: the ids that links are reported about, in order.
            now: the time, with a time zone; None asks the clock.

        Raises:
            InputError: names do not fit the schema, or the collection is not open.
            SchemaError: the roster is not that of the schema.
            BudgetExceededError: the report would cost more than is left.
            LedgerError: the ledger is damaged.
        """
        entries = read_entries(self.folder)
        if not found_entry(entries, "report", schema):
            self._checked(entries, schema, values, roster, now)

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
            InputError: names do not fit the schema, the collection is not open, or its token is missing.
            SchemaError: the roster is not that of the schema.
            BudgetExceededError: the report would cost more than is left. Nothing was drawn.
            LedgerError: the ledger is damaged.
        """
        with locked(self.folder):
            self._check_stored()
            entries = synced_entries(self.folder)
            if found := found_entry(entries, "report", schema):
                return bytes.fromhex(found["message"])
            from sfumato.collect._drawing import draw
            from sfumato.noise.coins import SecretWords

            ticks = Ticks()
            own = named(self.folder, schema, self._checked(entries, schema, values, roster, now))
            ticks.wait()
            if not found_entry(entries, "charge", schema):
                append_entry(self.folder, entries, charge_line(schema))
            (message,) = draw(schema, own, SecretWords())
            ticks.wait()
            append_entry(self.folder, entries, {"kind": "report", "schema": schema.sha256, "message": message.hex()})
            return message

    def code(self, schema: Schema) -> str | None:
        """Return the code with which this device enrolled for a schema, or None.

        Raises:
            InputError: the file of the codes is damaged.
        """
        return read_codes(self.folder).get(schema.sha256)

    def enrol(self, schema: Schema, server: Connection, code: str) -> None:
        """Tell the server the public keys, and keep the code for a server that loses them.

        After a withdrawal a user begins again with a new code, under which the report may be sent.

        Args:
            schema: what will be answered; codes are for one schema.
            server: where the device enrols.
            code: the user's enrolment code.

        Raises:
            InputError: the folder no longer holds this device, or the report was taken back under this code. Nothing was sent.
            RefusedError: the server refuses the code, or has other keys of this user.
            CollectionError: the server does not answer.
        """
        with locked(self.folder):
            self._check_stored()
            standing = standing_withdrawal(synced_entries(self.folder), schema)
        if standing and is_withdrawn_under(standing, code, self.code(schema)):
            raise InputError(TAKEN_BACK)
        server.post("/users", json.dumps(enrolment(self.user, self.keys, code)).encode(), JSON)
        keep_code(self.folder, schema.sha256, code)
        if standing:
            self._end_withdrawal(schema, "enrolled")

    def send(self, schema: Schema, server: Connection, code: str | None = None) -> bool:
        """Send the stored report; return whether the server had it already.

        A server that does not know the device, as after a loss of its store, is told its keys again. An anonymous report goes
        with its token alone: better through another connection, and later, than what the device asked for under its name.

        Args:
            schema: what was answered.
            server: where the report goes.
            code: the user's enrolment code; it may be left out once the device is enrolled.

        Raises:
            InputError: there is no report for this schema yet, or it was taken back.
            RefusedError: the server refuses the code or the report.
            CollectionError: the server does not answer.
        """
        with locked(self.folder):
            self._check_stored()
            entries = synced_entries(self.folder)
        message = drawn_message(entries, schema, "Draw it first.")
        if schema.anonymous:
            return spend(self.folder, schema, server, message)
        if code is None and standing_withdrawal(entries, schema):
            raise InputError(TAKEN_BACK)
        if code is not None:
            self.enrol(schema, server, code)
        signed = message + self.keys.sign(message)
        try:
            return server.post("/reports", signed).status_code == 200
        except RefusedError as error:
            if error.status != 403 or code is not None:
                raise
            code = self.code(schema)
            if code is None:
                error.add_note("Add --code CODE, your enrolment code: the operator has it.")
                raise
        try:
            self.enrol(schema, server, code)
        except RefusedError as error:
            if error.status == 403:
                error.add_note("If your code was revoked, add --code CODE, the new one: the operator has it.")
            raise
        return server.post("/reports", signed).status_code == 200

    def take_back(self, schema: Schema, server: Connection) -> bool:
        """Make the server delete the report for a schema, and return whether it had done so before.

        The ledger says so first, with a hash of the code: under that code this device never sends the report again. If the
        server answers that the collection is closed, the ledger says that, too. What it cost stays spent.

        Args:
            schema: what was answered.
            server: where the report was sent.

        Raises:
            InputError: no report was drawn for this schema, or the device never enrolled for it.
            RefusedError: the collection is closed, or the server does not know this device, and so has no report of it.
            CollectionError: the server does not answer.
        """
        if schema.anonymous:
            raise InputError(
                "Expected a report under a name, got an anonymous one: no server can tell which report is yours."
            )
        with locked(self.folder):
            self._check_stored()
            entries = synced_entries(self.folder)
            message, code = drawn_message(entries, schema, "There is nothing to take back."), self.code(schema)
            standing = standing_withdrawal(entries, schema)
            if standing is None or not is_withdrawn_under(standing, code, code):
                append_entry(self.folder, entries, withdrawal_line(schema, code))
        if code is None:
            raise InputError(
                "Expected codes.json to hold the code of this device, got none. Ask the operator to withdraw it."
            )
        signed = message + self.keys.sign_withdrawal(message, code)
        try:
            return server.post("/withdrawals", signed).status_code == 200
        except RefusedError as error:
            if error.status == 410 and error.said == CLOSED:
                self._end_withdrawal(schema, "closed")
            raise

    def _end_withdrawal(self, schema: Schema, why: str) -> None:
        with locked(self.folder):
            entries = synced_entries(self.folder)
            if standing_withdrawal(entries, schema):
                append_entry(self.folder, entries, {"kind": "end of withdrawal", "schema": schema.sha256, "why": why})

    @property
    def _about(self) -> dict[str, Any]:
        return {"user": self.user, "epsilon_cap": float(self.epsilon_cap), "delta_cap": float(self.delta_cap)}

    def _another(self, found: Device) -> InputError:
        return InputError(
            f"Expected {self.folder} to hold the device of {self.user} that this command began with, got that of {found.user} "
            f"with a cap of {found.epsilon_cap:g}. Nothing was drawn or sent. Start the command again."
        )

    def _check_stored(self) -> None:
        """Refuse to draw or send where the disk does not hold these keys: nobody could ever use them again."""
        if (found := Device.open(self.folder)) != self:
            raise self._another(found)

    def _checked(
        self,
        entries: Sequence[Mapping[str, Any]],
        schema: Schema,
        values: Mapping[str, Any],
        roster: Sequence[str],
        now: datetime | None,
    ) -> Values:
        """The user's values, unless something public is wrong."""
        from sfumato.collect._drawing import values_of

        check_open(schema.opens, schema.closes, now)
        own = values_of(schema, self.user, values, check_roster(schema.links, roster) if schema.links else {})
        if not found_entry(entries, "charge", schema):
            check_budget(schema, entries, epsilon=self.epsilon_cap, delta=self.delta_cap)
        return own


def enrolment(user: str, keys: DeviceKeys, code: str) -> dict[str, str]:
    return {"user": user, "sign_key": keys.sign_key.hex(), "agree_key": keys.agree_key.hex(), "code": code}
