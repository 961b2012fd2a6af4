"""A device draws one report for each schema, whatever happens to it, and spends its lifetime budget before it draws."""

import json
import math
import os
import shutil
import stat
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from fractions import Fraction
from functools import partial

import pytest
from collect_fake import FEATURES, KEY, LABEL, FakeServer, schema_of

from sfumato._files import cut_file
from sfumato.collect._checks import roster_sha256
from sfumato.collect._client import Device
from sfumato.collect._connection import RefusedError
from sfumato.collect._journal import append_entry, read_entries
from sfumato.collect._keys import DeviceKeys, verify
from sfumato.collect._sentences import CLOSED
from sfumato.collect._wire import decode
from sfumato.errors import BudgetExceededError, CollectionError, InputError, LedgerError

SCHEMA = schema_of()
VALUES = {"features": {"age": 60, "books": 3}, "label": "poetry"}


@pytest.fixture
def device(tmp_path):
    return Device.create(tmp_path / "device", "ada", epsilon_cap=100.0)


def lines(device: Device) -> list[dict]:
    return [json.loads(line) for line in (device.folder / "ledger.jsonl").read_text().splitlines()]


def kinds(device: Device) -> list[str]:
    return [line["kind"] for line in lines(device)]


def test_report_is_a_message_of_the_schema(device):
    message = decode(SCHEMA, device.report(SCHEMA, VALUES))
    assert message.user == "ada"
    assert set(message.answers) == {"features", "label"}
    assert kinds(device) == ["device", "charge", "report"]
    assert device.spent() == (SCHEMA.epsilon, 0.0)


def test_same_bytes_for_ever(device):
    many = schema_of(features={"names": [f"f{i}" for i in range(40)], "epsilon": 40.0, "mechanism": "one-bit"})
    first = device.report(many, {"features": dict.fromkeys(many.features.columns, 0.0)})
    other = {"features": dict.fromkeys(many.features.columns, 1.0)}
    assert device.report(many, other) == first
    assert Device.open(device.folder).report(many, other) == first
    assert device.report(many, {"no": "sense"}) == first
    late = datetime(2200, 1, 1, tzinfo=UTC)
    assert device.report(many, other, now=late) == first
    assert kinds(device).count("charge") == 1


def test_another_schema_is_another_charge_and_another_report(device):
    one, other = schema_of(label=LABEL), schema_of(label={**LABEL, "epsilon": 2.0})
    assert device.report(one, {"label": "crime"})[5:37] == one.digest
    assert device.report(other, {"label": "crime"})[5:37] == other.digest
    assert device.spent() == (one.epsilon + other.epsilon, 0.0)


def test_cap_is_kept_before_a_coin_is_drawn(tmp_path, monkeypatch):
    device = Device.create(tmp_path / "d", "ada", epsilon_cap=2.0)
    for name in ("one", "two"):
        device.report(schema_of(label={**LABEL, "name": name}), {"label": "crime"})
    monkeypatch.setattr("sfumato.noise.coins.SecretWords", None)
    before = (device.folder / "ledger.jsonl").read_bytes()
    with pytest.raises(BudgetExceededError, match="epsilon 2 at most over its life, got 2 spent and 1 asked"):
        device.report(schema_of(label={**LABEL, "name": "three"}), {"label": "crime"})
    assert (device.folder / "ledger.jsonl").read_bytes() == before


def test_charges_are_added_without_rounding(tmp_path):
    """The exact sum of ten charges is above the cap, and the rounded sum is not."""
    asked = [schema_of(label={**LABEL, "name": f"n{i}", "epsilon": 0.1}) for i in range(10)]
    costs = [schema.epsilon for schema in asked]
    exact = sum(map(Fraction, costs))
    cap = float(exact) if Fraction(float(exact)) < exact else math.nextafter(float(exact), 0.0)
    assert sum(costs) <= cap < exact
    device = Device.create(tmp_path / "d", "ada", cap)
    for schema in asked[:9]:
        device.report(schema, {"label": "crime"})
    with pytest.raises(BudgetExceededError):
        device.report(asked[9], {"label": "crime"})


def test_delta_has_a_cap_of_its_own(device):
    asked = schema_of(features={**FEATURES, "mechanism": "gaussian", "delta": 1e-5})
    with pytest.raises(BudgetExceededError, match="delta 1e-06 at most"):
        device.report(asked, {"features": VALUES["features"]})
    assert kinds(device) == ["device"]


@pytest.mark.parametrize(("year", "word"), [(2025, "opens at 2026"), (2126, "closed at 2126")])
def test_only_an_open_collection_is_answered(device, year, word):
    with pytest.raises(InputError, match=word):
        device.report(SCHEMA, VALUES, now=datetime(year, 1, 1, tzinfo=UTC))
    assert kinds(device) == ["device"]


@pytest.mark.parametrize(
    "values",
    [
        {"features": {"age": float("nan"), "books": 10**400}, "label": "no such class"},
        {"features": {"age": "many", "books": -(10**400)}, "label": 10**5000},
        {"features": {"age": [1], "books": {}}, "label": ["crime"]},
        {"features": {"age": True, "books": float("-inf")}, "label": {"a": 1}},
    ],
)
def test_every_value_has_a_report(device, values):
    assert set(decode(SCHEMA, device.report(SCHEMA, values)).answers) == {"features", "label"}


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"features": {"age": 1, "height": 2}, "label": "crime"}, "'books' is missing and 'height' is unknown"),
        ({"features": {"age": 1, "books": 2}, "genre": "crime"}, "features and label"),
        ({"label": "crime"}, "features and label"),
        ({"features": [1, 2], "label": "crime"}, "table of numbers"),
    ],
)
def test_names_are_public_and_refused(device, values, message):
    with pytest.raises(InputError, match=message):
        device.report(SCHEMA, values)
    assert kinds(device) == ["device"]


def test_user_without_a_label_answers_the_rest_at_the_same_price(device):
    message = device.report(SCHEMA, {"features": VALUES["features"]})
    assert set(decode(SCHEMA, message).answers) == {"features"}
    assert device.spent() == (SCHEMA.epsilon, 0.0)


def test_user_with_nothing_to_answer_pays_nothing(device):
    for values in ({}, {"label": None}):
        with pytest.raises(InputError, match="to hold label"):
            device.report(schema_of(label=LABEL), values)
    assert kinds(device) == ["device"]


def test_statement_says_what_was_spent(device):
    said = device.statement(SCHEMA)
    assert SCHEMA.statement() in said
    assert "spent epsilon 0 of at most 100. With this report it will have spent 2." in said
    device.report(SCHEMA, VALUES)
    assert "charged for it already" in device.statement(SCHEMA)
    assert "spent epsilon 2 of at most 100. With this report it will have spent 3." in device.statement(
        schema_of(label=LABEL)
    )


def test_only_its_owner_looks_into_a_device(device):
    device.report(SCHEMA, VALUES)
    modes = {path.name: stat.S_IMODE(path.stat().st_mode) for path in (device.folder, device.folder / "device.json")}
    assert modes == {"device": 0o700, "device.json": 0o600}


def test_no_value_and_no_key_is_told_or_stored(device):
    values = {"features": {"age": 56.06133713, "books": 7.741903}, "label": "zebrafinch"}
    device.report(SCHEMA, values)
    kept = b"".join(path.read_bytes() for path in device.folder.iterdir())
    assert not [mark for mark in (b"56.06", b"7.7419", b"zebrafinch") if mark in kept]
    assert device.keys.signing.hex() not in repr(device)


def test_folder_of_something_else_is_refused(tmp_path, device):
    with pytest.raises(InputError, match="new or empty"):
        Device.create(device.folder, "ada", 1.0)
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "letter.txt").touch()
    (tmp_path / "full").chmod(0o755)
    with pytest.raises(InputError, match="new or empty"):
        Device.create(tmp_path / "full", "ada", 1.0)
    assert [path.name for path in (tmp_path / "full").iterdir()] == ["letter.txt"]
    assert stat.S_IMODE((tmp_path / "full").stat().st_mode) == 0o755
    with pytest.raises(InputError, match="folder of a device"):
        Device.open(tmp_path / "full")


@pytest.mark.parametrize(
    ("user", "cap", "delta"), [("", 1.0, 0.0), ("ada", 0.0, 0.0), ("ada", float("inf"), 0.0), ("ada", 1.0, 2.0)]
)
def test_wrong_settings_make_no_device(tmp_path, user, cap, delta):
    with pytest.raises(InputError):
        Device.create(tmp_path / "d", user, cap, delta)
    assert not (tmp_path / "d").exists()


def test_damaged_files_are_refused(tmp_path, device):
    device.report(SCHEMA, VALUES)
    ledger, about = device.folder / "ledger.jsonl", device.folder / "device.json"
    whole, kept = ledger.read_bytes(), about.read_bytes()
    ledger.write_bytes(whole.replace(b'"epsilon":2.0', b'"epsilon":1.0'))
    with pytest.raises(LedgerError, match="line 2"):
        device.report(schema_of(label=LABEL), {"label": "crime"})
    ledger.write_bytes(b"")
    with pytest.raises(LedgerError, match="of this device"):
        Device.open(device.folder)
    ledger.write_bytes(whole)
    about.write_bytes(kept.replace(b'"epsilon_cap": 100.0', b'"epsilon_cap": 900.0'))
    with pytest.raises(LedgerError, match="of this device"):
        Device.open(device.folder)
    about.write_bytes(b"{}")
    with pytest.raises(InputError, match="keys of a device"):
        Device.open(device.folder)


def test_links_are_reported_about_the_roster(tmp_path):
    roster = ["ada", "bob", "cid", "dan", "eve"]
    asked = schema_of(links={"users": 5, "roster": roster_sha256(roster), "epsilon": 400.0, "degree_share": 0.5})
    device = Device.create(tmp_path / "d", "cid", 400.0)
    with pytest.raises(InputError, match="roster"):
        device.report(asked, {"links": ["bob"]}, roster=sorted(roster, reverse=True))
    with pytest.raises(InputError, match="list of user ids"):
        device.report(asked, {"links": "bob"}, roster=roster)
    message = device.report(asked, {"links": ["eve", "bob", "a stranger", "cid", 7, "bob"]}, roster=roster)
    assert decode(asked, message).answers == {"links": (2, 0, 1, 0, 1)}
    stranger = Device.create(tmp_path / "e", "zoe", 400.0)
    with pytest.raises(InputError, match="on the roster"):
        stranger.report(asked, {"links": []}, roster=roster)


def test_a_ledger_that_was_cut_anywhere_never_gives_a_second_report(device):
    """Whole lines are what was synced. A cut inside the last lines is what a power loss can leave."""
    first = device.report(SCHEMA, VALUES)
    ledger = device.folder / "ledger.jsonl"
    whole = ledger.read_bytes()
    header = whole.index(b"\n") + 1
    charged = whole.index(b"\n", header) + 1
    ends = {end + near for end in (header, charged, len(whole)) for near in (-1, 0, 1)}
    for size in sorted({*range(header, len(whole), 9), *ends} & {*range(header, len(whole) + 1)}):
        ledger.write_bytes(whole)
        cut_file(ledger, size)
        message = device.report(SCHEMA, VALUES)
        found = lines(device)
        assert [line["kind"] for line in found] == ["device", "charge", "report"]
        assert bytes.fromhex(found[-1]["message"]) == message == device.report(SCHEMA, {})
        assert ledger.read_bytes()[:charged] == whole[:charged] or size < charged
        if size == len(whole):
            assert message == first


@pytest.mark.parametrize(("place", "kept"), [(1, ["device"]), (2, ["device"]), (3, ["device", "charge"])])
def test_a_full_disk_draws_nothing_that_leaves(device, monkeypatch, place, kept):
    calls, real = [], os.fsync

    def full(descriptor):
        calls.append(descriptor)
        if len(calls) == place:
            raise OSError(28, "No space left on device")
        real(descriptor)

    monkeypatch.setattr("os.fsync", full)
    with pytest.raises(OSError, match="No space"):
        device.report(SCHEMA, VALUES)
    assert kinds(device) == kept
    assert device.report(SCHEMA, VALUES) == device.report(SCHEMA, {})
    assert kinds(device) == ["device", "charge", "report"]


@pytest.fixture
def wide():
    """A schema of 64 bits, so that no two reports are the same by chance, and values for it."""
    asked = schema_of(features={"names": [f"f{i}" for i in range(64)], "epsilon": 1.0, "mechanism": "one-bit"})
    return asked, {"features": dict.fromkeys(asked.features.columns, 0.5)}


def live(folder, asked, values):
    """What reaches the wire in one life of a device, which may be stored or not."""
    if not (folder / "device.json").exists():
        Device.create(folder, "ada", 1.5)
    return Device.open(folder).report(asked, values)


def test_a_process_that_dies_anywhere_leaves_one_report(tmp_path, monkeypatch, wide):
    """What is on disk at a sync is what a process leaves that dies there; in any life the device has one report at one price."""
    lives, real, folder = [], os.fsync, tmp_path / "device"

    def dying(descriptor):
        lives.append(tmp_path / f"life {len(lives)}")
        shutil.copytree(folder, lives[-1])
        for path in lives[-1].glob(f"*.{os.getpid()}.partial"):
            path.rename(path.with_name(path.name.replace(str(os.getpid()), str(1 << 30))))
        real(descriptor)

    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", dying)
        sent = live(folder, *wide)
    assert len(lives) >= 7, "the deaths must reach past the last sync of a report"
    for place, left in enumerate([*lives, folder]):
        known = [one["message"] for one in read_entries(left) if one["kind"] == "report"]
        again = [live(left, *wide) for _ in range(2)]
        assert again[0] == again[1], place
        assert known in ([], [again[0].hex()]), place
        assert kinds(Device.open(left)) == ["device", "charge", "report"], place
    assert again[0] == sent, "what was sent was on disk before"


def test_devices_at_once_draw_one_report(tmp_path, monkeypatch, wide):
    monkeypatch.setattr("sfumato.collect._ticks.SECONDS", 0.01)  # others come between a charge and its report
    live_at_once = partial(live, Device.create(tmp_path / "race", "ada", 1.5).folder, *wide)
    with ThreadPoolExecutor(6) as pool:
        sent = [one.result() for one in [pool.submit(live_at_once) for _ in range(6)]]
    assert len(set(sent)) == 1
    assert kinds(Device.open(tmp_path / "race")) == ["device", "charge", "report"]


def test_sending_enrols_and_signs(device):
    server = FakeServer(SCHEMA)
    message = device.report(SCHEMA, VALUES)
    with server.connection() as connection:
        with pytest.raises(RefusedError, match="403: Expected an enrolled user") as caught:
            device.send(SCHEMA, connection)
        assert caught.value.__notes__ == ["Add --code CODE, your enrolment code: the operator has it."]
        assert device.send(SCHEMA, connection, KEY.code(SCHEMA, "ada")) is False
        assert device.send(SCHEMA, connection, KEY.code(SCHEMA, "ada")) is True
        assert device.send(SCHEMA, connection) is True
    assert server.reports == {"ada": message}
    assert verify(server.users["ada"][0], message, server.requests[-1][1][-64:])


def test_wrong_code_and_second_report_are_refused(tmp_path, device):
    server = FakeServer(SCHEMA)
    device.report(SCHEMA, VALUES)
    with server.connection() as connection:
        with pytest.raises(CollectionError, match="403: Wrong code"):
            device.send(SCHEMA, connection, "00" * 16)
        device.send(SCHEMA, connection, KEY.code(SCHEMA, "ada"))
        server.reports["ada"] = b"other bytes"
        with pytest.raises(CollectionError, match="409: Other bytes"):
            device.send(SCHEMA, connection)


def test_every_attempt_sends_the_same_bytes(device):
    import httpx

    server, waits = FakeServer(SCHEMA), []
    message = device.report(SCHEMA, VALUES)
    with server.connection(waits=waits) as connection:
        device.send(SCHEMA, connection, KEY.code(SCHEMA, "ada"))
        server.failures = [500, httpx.ConnectError("no route"), 503, 429]
        server.requests.clear()
        assert device.send(SCHEMA, connection) is True
    assert {body for _, body in server.requests} == {message + device.keys.sign(message)}
    assert (len(server.requests), len(waits)) == (5, 4)


def test_nothing_is_sent_that_is_not_stored(device):
    server = FakeServer(SCHEMA)
    with server.connection() as connection, pytest.raises(InputError, match="report on this device"):
        device.send(SCHEMA, connection, KEY.code(SCHEMA, "ada"))
    assert not server.requests


def test_enrolling_costs_nothing_and_keeps_the_code(device):
    server, code = FakeServer(SCHEMA), KEY.code(SCHEMA, "ada")
    with server.connection() as connection:
        with pytest.raises(RefusedError, match="403: Wrong code"):
            device.enrol(SCHEMA, connection, "00" * 16)
        assert (device.is_fresh, device.code(SCHEMA), server.users) == (True, None, {})
        device.enrol(SCHEMA, connection, code)
    kept = device.folder / "codes.json"
    assert json.loads(kept.read_text()) == {SCHEMA.sha256: code}
    assert stat.S_IMODE(kept.stat().st_mode) == 0o600
    assert (device.is_fresh, kinds(device)) == (False, ["device"])


def test_the_last_line_about_a_withdrawal_counts(device):
    """A new code begins again; a server that says that the collection is closed has kept the report."""
    schema, server = schema_of(), FakeServer(schema_of())
    connection = server.connection()
    device.report(schema, VALUES)
    first = server.code(device.user)
    device.send(schema, connection, first)
    server.failures.append((410, CLOSED))
    with pytest.raises(RefusedError, match="closed"):
        device.take_back(schema, connection)
    assert (kinds(device)[-1], device.took_back(schema)) == ("end of withdrawal", False)
    server.failures.append((410, "Gone."))
    with pytest.raises(RefusedError, match="Gone"):
        device.take_back(schema, connection)
    assert device.took_back(schema), "a proxy said so, and not the server"
    device.take_back(schema, connection)
    server.requests.clear()
    for refused in (
        lambda code: device.send(schema, connection, code),
        lambda code: device.enrol(schema, connection, code),
    ):
        with pytest.raises(InputError, match="take back"):
            refused(first)
    with pytest.raises(InputError, match="take back"):
        device.send(schema, connection)
    assert server.requests == []
    server.revoked.append(device.user)
    assert not device.send(schema, connection, server.code(device.user))
    server.users.clear()
    server.reports.clear()
    assert not device.send(schema, connection), "a server that lost its store gets it again"
    device.take_back(schema, connection)
    with pytest.raises(InputError, match="take back"):
        device.send(schema, connection, server.code(device.user))
    assert first not in (device.folder / "ledger.jsonl").read_text()


def test_a_withdrawal_without_a_code_is_for_the_own_one(device):
    schema, server = schema_of(), FakeServer(schema_of())
    device.report(schema, VALUES)
    device.send(schema, server.connection(), server.code(device.user))
    append_entry(device.folder, read_entries(device.folder), {"kind": "withdrawal", "schema": schema.sha256})
    with pytest.raises(InputError, match="take back"):
        device.send(schema, server.connection(), server.code(device.user))
    server.revoked.append(device.user)
    assert device.send(schema, server.connection(), server.code(device.user))


def test_codes_are_for_one_schema(device):
    asked = (SCHEMA, schema_of(label=LABEL))
    for schema in asked:
        assert device.code(schema) is None
        with FakeServer(schema).connection() as connection:
            device.enrol(schema, connection, KEY.code(schema, "ada"))
    assert [device.code(schema) for schema in asked] == [KEY.code(schema, "ada") for schema in asked]


def test_a_server_that_lost_its_users_gets_the_keys_again(device):
    server = FakeServer(SCHEMA)
    message = device.report(SCHEMA, VALUES)
    with server.connection() as connection:
        device.send(SCHEMA, connection, KEY.code(SCHEMA, "ada"))
        server.users.clear()
        server.reports.clear()
        assert Device.open(device.folder).send(SCHEMA, connection) is False
        assert server.reports == {"ada": message}
        server.users["ada"] = (DeviceKeys.new().sign_key, b"")
        with pytest.raises(RefusedError, match="409: Another key"):
            device.send(SCHEMA, connection)


@pytest.mark.parametrize("text", ["[]", "{", '{"a": 1}', "\xff", "[" * 100_000])
def test_damaged_codes_say_what_to_do(device, text):
    (device.folder / "codes.json").touch(0o600)
    (device.folder / "codes.json").write_text(text)
    with pytest.raises(InputError, match="Remove it, and add --code"):
        device.code(SCHEMA)


def test_check_refuses_what_report_refuses(device, tmp_path):
    device.check(SCHEMA, VALUES)
    for values, now in (({}, None), (VALUES, datetime(2025, 1, 1, tzinfo=UTC))):
        with pytest.raises(InputError):
            device.check(SCHEMA, values, now=now)
    with pytest.raises(BudgetExceededError):
        Device.create(tmp_path / "poor", "ada", 0.5).check(SCHEMA, VALUES)
    assert kinds(device) == ["device"]
    assert not device.has_report(SCHEMA)
    device.report(SCHEMA, VALUES)
    device.check(SCHEMA, {}, now=datetime(2200, 1, 1, tzinfo=UTC))
    assert device.has_report(SCHEMA)


@pytest.mark.parametrize("how", ["gone", "another"])
def test_nothing_is_drawn_or_sent_with_keys_that_are_on_no_disk(tmp_path, device, how):
    server = FakeServer(SCHEMA)
    device.report(SCHEMA, VALUES)
    before = (device.folder / "ledger.jsonl").read_bytes()
    if how == "another":
        device = Device(device.folder, "ada", DeviceKeys.new(), 100.0)
    else:
        device.folder.rename(tmp_path / "elsewhere")
    for use in (
        lambda: device.report(schema_of(label=LABEL), {"label": "crime"}),
        lambda: device.enrol(SCHEMA, server.connection(), KEY.code(SCHEMA, "ada")),
        lambda: device.send(SCHEMA, server.connection()),
    ):
        with pytest.raises(InputError, match="Start the command again" if how == "another" else "Make one first"):
            use()
    assert server.requests == []
    assert {path.read_bytes() for path in tmp_path.glob("*/ledger.jsonl")} == {before}
