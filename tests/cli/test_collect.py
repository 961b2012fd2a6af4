"""`sfumato collect`: from questions to a schema, codes, one device and many, against a server on loopback."""

import io
import json
import shutil
import stat

import pytest
from collect_fake import LABEL, FakeServer, schema_of

from sfumato.collect._client import Device
from sfumato.collect._keys import ServerKey
from sfumato.collect._schema import Schema
from sfumato.collect._wire import decode

QUESTIONS = """
collection = "reading-2026"
purpose = "Learn which kinds of books readers like."
opens = 2026-01-01T00:00:00Z
closes = 2126-01-01T00:00:00Z

[features]
epsilon = 1.0
columns = [{ name = "books a year", min = 0, max = 100 }, { name = "age", min = 0, max = 120 }]

[label]
name = "genre"
classes = ["crime", "poetry", "science"]
epsilon = 1.0
"""
LINKS = QUESTIONS[: QUESTIONS.index("[features]")] + "[links]\nepsilon = 8.0\n"
VALUES = 'label = "poetry"\n[features]\n"books a year" = 30\nage = 56.06133713\n'


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """An empty folder as the current one, with questions, a roster and values."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("sfumato.collect._ticks.SECONDS", 0.0)
    (tmp_path / "questions.toml").write_text(QUESTIONS)
    (tmp_path / "users.txt").write_text("".join(f"u{i}\n" for i in range(30)))
    (tmp_path / "values.toml").write_text(VALUES)
    return tmp_path


@pytest.fixture
def served(folder, sfumato, monkeypatch):
    """A collection that is open: its address and its server; the key is the one that init drew."""
    assert sfumato("collect", "init", "questions.toml").code == 0
    monkeypatch.setattr("collect_fake.KEY", ServerKey.read(folder / "server.key"))
    assert sfumato("collect", "codes", "schema.json", "--users", "users.txt").code == 0
    server = FakeServer(Schema.read(folder / "schema.json"))
    with server.listening() as url:
        yield url, server


def code_of(folder, user):
    return dict(line.split(",") for line in (folder / "codes.csv").read_text().split())[user]


ANSWERS = ("--values", "values.toml")


def of_u3(folder):
    """Options of a first report of u3, whose device is not made yet."""
    return ("--state", "device", *ANSWERS, "--user", "u3", "--cap", "3", "--code", code_of(folder, "u3"))


@pytest.fixture
def device(folder, sfumato, served):
    """Options that name the device of u3, which has sent its report."""
    assert sfumato("collect", "report", served[0], *of_u3(folder), "--yes").code == 0
    return ("schema.json", "--server", served[0], "--state", "device")


def test_init_writes_schema_and_key(folder, sfumato):
    done = sfumato("collect", "init", "questions.toml")
    schema = Schema.read(folder / "schema.json")
    assert done.code == 0
    assert schema.statement() in done.out
    assert schema.sha256 in done.out
    key = folder / "server.key"
    assert ServerKey.read(key).public.hex() == schema.server_key
    assert stat.S_IMODE(key.stat().st_mode) == 0o600


def test_init_never_replaces_key_or_schema(folder, sfumato):
    sfumato("collect", "init", "questions.toml")
    before = {name: (folder / name).read_bytes() for name in ("server.key", "schema.json")}
    assert sfumato("collect", "init", "questions.toml").code == 0
    (folder / "questions.toml").write_text(QUESTIONS.replace("epsilon = 1.0", "epsilon = 2.0"))
    done = sfumato("collect", "init", "questions.toml")
    assert (done.code, "Expected out to be a new file" in done.err) == (2, True)
    assert {name: (folder / name).read_bytes() for name in before} == before


def test_wrong_questions_leave_nothing(folder, sfumato):
    (folder / "questions.toml").write_text(QUESTIONS.replace("epsilon = 1.0", "epsilon = -1.0"))
    done = sfumato("collect", "init", "questions.toml")
    assert (done.code, done.out) == (2, "")
    assert not (folder / "server.key").exists()
    assert not (folder / "schema.json").exists()


def test_links_need_a_roster_and_nothing_else_does(folder, sfumato):
    assert sfumato("collect", "init", "questions.toml", "--roster", "users.txt").code == 2
    (folder / "questions.toml").write_text(LINKS)
    assert sfumato("collect", "init", "questions.toml").code == 2
    assert not (folder / "server.key").exists()
    done = sfumato("collect", "init", "questions.toml", "--roster", "users.txt")
    assert (done.code, "your links to 29 other users" in done.out) == (0, True)
    assert Schema.read(folder / "schema.json").links.users == 30


def test_codes_are_for_the_operator_alone(folder, sfumato, served):
    assert stat.S_IMODE((folder / "codes.csv").stat().st_mode) == 0o600
    assert len((folder / "codes.csv").read_text().splitlines()) == 31
    (folder / "one.txt").write_text("ada\n")
    for users, said in (
        ("users.txt", "The codes of 30 users are in d.\n"),
        ("one.txt", "The codes of 1 user are in d.\n"),
    ):
        assert sfumato("collect", "codes", "schema.json", "--users", users, "--out", "d").out == said
    ServerKey.new().write(folder / "other.key")
    done = sfumato("collect", "codes", "schema.json", "--server-key", "other.key", "--users", "users.txt", "--out", "c")
    assert (done.code, (folder / "c").exists()) == (2, False)


def test_one_device_reports_once(folder, sfumato, served):
    url, server = served
    about = ("--state", "device", *ANSWERS, "--yes")
    first = sfumato("collect", "report", url, *of_u3(folder), "--yes")
    assert (first.code, first.err) == (0, "")
    assert server.schema.statement() in first.out
    assert first.out.endswith("The server has your report.\n")
    kept = dict(server.reports)
    (folder / "values.toml").write_text(VALUES.replace("poetry", "crime"))
    again = sfumato("collect", "report", "schema.json", "--server", url, *about)
    assert (again.code, again.out.splitlines()[-1]) == (0, "The server had this report already.")
    assert server.reports == kept
    assert set(kept) == {"u3"}
    assert not [body for _, body in server.requests if b"56.06" in body]
    assert "56.06" not in first.out + again.out


def test_what_counts_as_something_else_is_shown_before_consent(folder, sfumato, served, monkeypatch):
    url, server = served
    values = f'label = "x"\n[features]\n"books a year" = "many"\nage = {"9" * 5000}\n'
    (folder / "values.toml").write_text(values)
    monkeypatch.setattr("sys.stdin", io.StringIO("n\n"))
    about = (url, *of_u3(folder))
    done = sfumato("collect", "report", *about)
    assert done.code == 1
    for line in (
        "books a year: 'many' is no number and counts as 50.",
        "age: inf is outside 0 to 120 and counts as 120.",
        "genre: 'x' is no class and counts as crime.",
    ):
        assert line in done.out.splitlines()
    assert sfumato("collect", "report", *about, "--yes").code == 0
    again = sfumato("collect", "report", *about, "--yes")
    assert (again.code, "'many' is no number" in again.out) == (0, False)
    assert not [body for _, body in server.requests if b"many" in body]


def test_without_consent_nothing_is_drawn(folder, sfumato, served, monkeypatch):
    url, server = served
    about = (url, "--state", "device", "--values", "values.toml", "--code", code_of(folder, "u3"), "--cap", "3")
    for said in ("n\n", "", "\n"):
        monkeypatch.setattr("sys.stdin", io.StringIO(said))
        done = sfumato("collect", "report", *about, "--user", "u33")
        assert (done.code, "it will have spent 2." in done.out) == (1, True)
        assert not (folder / "device").exists()
    assert not server.reports
    monkeypatch.setattr("sys.stdin", io.StringIO("y\n"))
    assert sfumato("collect", "report", *about, "--user", "u3").code == 0
    assert set(server.reports) == {"u3"}


def test_device_refuses_what_exceeds_its_cap(folder, sfumato, served):
    url, server = served
    done = sfumato(
        "collect", "report", url, *of_u3(folder), "--yes", "--cap", "1.5"
    )  # the last one of an option counts
    assert (done.code, "epsilon 1.5 at most" in done.err) == (1, True)
    assert (server.users, (folder / "device").exists()) == ({}, False)


def test_code_is_asked_for_before_anything_is_drawn(folder, sfumato, served):
    url, server = served
    done = sfumato("collect", "report", url, *of_u3(folder)[:-2])
    assert (done.code, "--code with a device that is not enrolled" in done.err) == (2, True)
    assert (server.users, (folder / "device").exists()) == ({}, False)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("schema.json",), "--server with a schema file"),
        (("schema.json", "--server", "http://example.org"), "begin with https://"),
        (("schema.json", "--server", "URL"), "--user and --cap with a new device"),
        (("schema.json", "--server", "URL", "--user", "u3", "--cap", "-1"), "epsilon_cap"),
        (("schema.json", "--server", "https://127.0.0.1:1", "--ca", "absent.pem"), "absent.pem"),
        (("missing.json", "--server", "URL"), "missing.json"),
        (("questions.toml", "--server", "URL"), "schema in JSON"),
    ],
)
def test_bad_input_of_a_device_leaves_nothing(folder, sfumato, served, arguments, message):
    given = (served[0] if word == "URL" else word for word in arguments)
    done = sfumato("collect", "report", *given, "--state", "device", "--values", "values.toml", "--yes")
    assert (done.code, message in done.err) == (2, True), done.err
    assert not (folder / "device").exists()


def test_a_wrong_code_costs_nothing(folder, sfumato, served):
    url, server = served
    about = ("--state", "device", "--values", "values.toml", "--yes")
    done = sfumato("collect", "report", url, *about, "--user", "u4", "--cap", "3", "--code", code_of(folder, "u3"))
    assert (done.code, server.users) == (1, {})
    assert done.err == "Error: The server refuses POST /users with 403: Wrong code. Nothing was drawn.\n"
    assert (folder / "device" / "ledger.jsonl").read_text().count("\n") == 1
    right = ("--code", code_of(folder, "u3"))
    done = sfumato("collect", "report", url, *about, *right, "--user", "u3")
    assert (done.code, "or remove the folder device to begin again" in done.err) == (2, True)
    assert sfumato("collect", "report", url, *about, "--code", code_of(folder, "u4")).code == 0
    for option in (("--user", "u3"), ("--cap", 4)):
        done = sfumato("collect", "report", url, *about, *option)
        assert (done.code, "Leave them out" in done.err) == (2, True)


def test_refusals_do_not_promise_that_the_same_command_goes_on(folder, sfumato, served, device):
    report, server = ("collect", "report", *device, *ANSWERS, "--yes"), served[1]
    server.users.clear()
    assert sfumato(*report).code == 0, "the device kept its code"
    server.users.clear()
    (folder / "device" / "codes.json").unlink()
    done = sfumato(*report)
    assert (done.code, "Enrol the device. Add --code CODE" in done.err) == (1, True)
    assert sfumato(*report, "--code", code_of(folder, "u3")).code == 0
    for status in (409, 410):
        server.failures = [status]
        done = sfumato(*report)
        assert (done.code, "goes on" in done.err) == (1, False)


def test_a_private_authority_is_handed_on(folder, sfumato, served, monkeypatch):
    """Each connection of both commands gets the file."""
    from sfumato.collect._connection import Connection

    given = []
    monkeypatch.setattr(
        "sfumato.collect._connection.Connection",
        lambda url, *, ca, tell: given.append(ca) or Connection(url, tell=tell),
    )
    (folder / "values.csv").write_text("user,books a year,age,genre\nu1,1,2,crime\n")
    assert sfumato("collect", "report", served[0], *of_u3(folder), "--yes", "--ca", "ca.pem").code == 0
    many = ("--codes", "codes.csv", "--values", "values.csv", "--ca", "ca.pem")
    assert sfumato("collect", "simulate", "schema.json", "--server", served[0], *many).code == 0
    assert [str(ca) for ca in given] == ["ca.pem"] * 3


def test_many_devices(folder, sfumato, served):
    url, server = served
    rows = "".join(f"u{i},{i},{2 * i},{'crime' if i % 2 else ''}\n" for i in range(30))
    (folder / "values.csv").write_text(f"user,books a year,age,genre\n{rows}")
    about = ("schema.json", "--server", url, "--codes", "codes.csv", "--values", "values.csv", "--json")
    done = sfumato("collect", "simulate", *about, "--batch", 7)
    assert json.loads(done.out) == {"users": 30, "accepted": 30, "stored": 30, "repeated": 0, "refused": 0}
    assert done.code == 0
    labelled = {user for user, message in server.reports.items() if "label" in decode(server.schema, message).answers}
    assert labelled == {f"u{i}" for i in range(1, 30, 2)}
    server.reports["u5"] = b"other"
    assert sfumato("collect", "simulate", *about, "--state", "second.sqlite").code == 1


def test_a_wrong_table_draws_nothing(folder, sfumato, served):
    rows = [f"u{i},{i},{2 * i},crime\n" for i in range(30)]
    about = ("schema.json", "--server", served[0], "--codes", "codes.csv", "--values", "values.csv")
    for wrong, message in (
        ("u29,many,1,crime\n", "row 30 of values.csv"),
        ("u0,1,1,crime\n", "two for 'u0'"),
        ("zoe,1,1,crime\n", "none for 'zoe'"),
    ):
        (folder / "values.csv").write_text("user,books a year,age,genre\n" + "".join(rows[:-1]) + wrong)
        done = sfumato("collect", "simulate", *about)
        assert (done.code, message in done.err) == (2, True), done.err
        assert not (folder / "devices.sqlite").exists()
    (folder / "values.csv").write_text("user,books a year,age,genre\nu0,101,-1,crime\nu1,-1,5,crime\n")
    done = sfumato("collect", "simulate", *about)
    assert (done.code, "3 numbers are outside the range and counted as its nearest end." in done.err) == (0, True)
    (folder / "values.csv").write_text("user,books a year,age,genre\nu2,101,1,crime\n")
    done = sfumato("collect", "simulate", *about, "--state", "one.sqlite")
    assert (done.out, "1 number is outside" in done.err) == ("The server has 1 of 1 report; it refused 0.\n", True)


def test_many_devices_with_links(folder, sfumato, served):
    (folder / "edges.csv").write_text("source,target\nu0,u1\n")
    (folder / "questions.toml").write_text(LINKS)
    assert sfumato("collect", "init", "questions.toml", "--roster", "users.txt", "--out", "links.json").code == 0
    assert sfumato("collect", "codes", "links.json", "--users", "users.txt", "--out", "c.csv").code == 0
    served[1].schema = Schema.read(folder / "links.json")
    about = ("links.json", "--server", served[0], "--codes", "c.csv")
    done = sfumato("collect", "simulate", *about, "--edges", "edges.csv", "--roster", "users.txt")
    assert (done.code, done.out) == (0, "The server has 30 of 30 reports; it refused 0.\n")
    assert sfumato("collect", "simulate", *about, "--values", "values.csv").code == 2
    assert sfumato("collect", "simulate", *about).code == 2


def test_a_stop_says_how_to_go_on(folder, sfumato, served, monkeypatch):
    def stop(*_):
        raise KeyboardInterrupt

    (folder / "values.csv").write_text("user,books a year,age,genre\nu1,1,2,crime\n")
    about = ("schema.json", "--server", served[0], "--codes", "codes.csv", "--values", "values.csv")
    with monkeypatch.context() as patched:
        patched.setattr("sfumato.collect._simulate.Devices.enrol", stop)
        done = sfumato("collect", "simulate", *about)
        assert (done.code, "same command goes on, with the same bytes" in done.err) == (130, True)
        patched.setattr("sfumato.collect._client.Device.send", stop)
        done = sfumato("collect", "report", served[0], *of_u3(folder), "--yes")
        assert (done.code, "goes on, without another charge" in done.err) == (130, True)
    assert sfumato("collect", "simulate", *about).code == 0


class Meanwhile(io.StringIO):
    """An answer "y", before which something happens."""

    def __init__(self, happens):
        super().__init__("y\n")
        self.happens = happens

    def readline(self, *size):
        self.happens()
        return super().readline(*size)


def test_what_is_on_disk_after_the_question_is_what_the_server_gets(folder, sfumato, served, monkeypatch):
    """Another process stores the device while its user is asked: it is no other key, and there are no keys on no disk."""
    url, server = served
    about = of_u3(folder)
    monkeypatch.setattr("sys.stdin", Meanwhile(lambda: Device.create(folder / "device", "u3", 3.0)))
    assert sfumato("collect", "report", url, *about).code == 0
    kept = Device.open(folder / "device").keys
    assert server.users == {"u3": (kept.sign_key, kept.agree_key)}


def test_the_same_command_may_run_twice_at_once(folder, sfumato, served, monkeypatch):
    about = ("collect", "report", served[0], *of_u3(folder))
    monkeypatch.setattr("sys.stdin", Meanwhile(lambda: sfumato(*about, "--yes")))
    done = sfumato(*about)
    assert (done.code, done.out.splitlines()[-1]) == (0, "The server had this report already.")
    assert Device.open(folder / "device").spent() == (2.0, 0.0)


@pytest.mark.parametrize("change", ["user", "cap", "charge", "gone"])
def test_a_device_that_changed_while_its_user_was_asked_draws_and_sends_nothing(
    folder, sfumato, served, monkeypatch, change
):
    url, server = served
    state = folder / "device"

    def happens():
        if change == "gone":
            shutil.rmtree(state)
            return
        device = Device.create(state, "u4" if change == "user" else "u3", 4.0 if change == "cap" else 3.0)
        if change == "charge":
            device.report(schema_of(label=LABEL), {"label": "crime"})

    if change == "gone":
        Device.create(state, "u3", 3.0)
    about = of_u3(folder)
    monkeypatch.setattr("sys.stdin", Meanwhile(happens))
    done = sfumato("collect", "report", url, *about)
    assert (done.code, server.users, server.reports) == (2, {}, {})
    assert (
        "Make one first" in done.err if change == "gone" else "Nothing was drawn or sent. Start the command" in done.err
    )
    assert change == "gone" or not Device.open(state).has_report(server.schema)


def test_a_user_takes_the_report_back(folder, sfumato, served, device):
    url, server = served
    report, code = ("collect", "report", *device, *ANSWERS, "--yes"), code_of(folder, "u3")
    assert "Nothing was changed" in sfumato("collect", "take-back", *device).err
    assert server.reports.keys() == {"u3"}
    said = sfumato("collect", "take-back", *device, "--yes")
    assert (said.code, said.out) == (0, "The server has deleted your report.\n")
    assert server.reports == {}
    assert sfumato("collect", "take-back", url, *device[3:], "--yes").out.startswith("The server had deleted")
    asked = len(server.requests)
    for more in ((), ("--code", code)):
        refused = sfumato(*report, *more)
        assert (refused.code, "take back" in refused.err) == (2, True), "it is no new code"
        assert (server.reports, len(server.requests)) == ({}, asked)
    server.revoked.append("u3")
    assert sfumato(*report, "--code", server.code("u3")).code == 0, "a new code lets the user back in"
    assert sfumato(*report).code == 0
    assert server.reports.keys() == {"u3"}
    assert Device.open(folder / "device").spent()[0] == server.schema.epsilon


def test_a_server_that_lost_its_store_has_no_report(sfumato, served, device):
    server = served[1]
    server.users.clear()
    refused = sfumato("collect", "take-back", *device, "--yes")
    assert (refused.code, "has no report under them" in refused.err) == (1, True)
    server.failures.append(403)
    assert "under them" not in sfumato("collect", "take-back", *device, "--yes").err, (
        "that was not the server's sentence"
    )


def test_what_is_on_no_disk_is_not_promised(folder, sfumato, served, device, monkeypatch):
    def full(*_):
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr("sfumato.collect._client.append_entry", full)
        failed = sfumato("collect", "take-back", *device, "--yes")
    assert (failed.code != 0, "does not send" in failed.err) == (True, False)
    assert not Device.open(folder / "device").took_back(served[1].schema)


def test_what_was_never_drawn_is_not_taken_back(folder, sfumato, served):
    url, server = served
    Device.create(folder / "ada", "u1", epsilon_cap=5.0)
    refused = sfumato("collect", "take-back", "schema.json", "--server", url, "--state", "ada", "--yes")
    assert (refused.code, "nothing to take back" in refused.err) == (2, True)
    assert server.requests == []
