"""`sfumato collect` with two servers: agree by files, hand out codes, report, simulate, open, and give up."""

import socket
import threading
from contextlib import contextmanager

import pytest

from sfumato.collect._journal import locked
from sfumato.collect._keys import ServerKey
from sfumato.collect.two._book import Book
from sfumato.collect.two._files import OpenedFile
from sfumato.collect.two._server import Server
from sfumato.collect.two._service import create_app
from sfumato.web._door import Door
from sfumato.web._http import WebServer

QUESTIONS = """
collection = "years"
purpose = "Count years among friends."
opens = 2020-01-01T00:00:00Z
closes = 2120-01-01T00:00:00Z
[label]
classes = ["2004", "2005", "2006"]
epsilon = 1.0
"""
USERS = [f"s{number}" for number in range(12)]
INIT = ("collect", "init", "questions.toml", "--servers", "2", "--edges", "edges.csv", "--folder")


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("sfumato.collect._ticks.SECONDS", 0.0)
    (tmp_path / "questions.toml").write_text(QUESTIONS)
    rows = [f"s{i},s{j}\n" for i in range(12) for j in range(i) if i // 3 == j // 3]
    (tmp_path / "edges.csv").write_text("source,target\n" + "".join(rows))
    (tmp_path / "values.toml").write_text('label = "2005"\n')
    (tmp_path / "values.csv").write_text("user,label\n" + "".join(f"{user},2006\n" for user in USERS[1:]))
    return tmp_path


@pytest.fixture
def agreed(folder, sfumato):
    steps = [("first",), ("second", "first/offer"), ("first", "second/answer"), ("second", "first/proof")]
    for name, *theirs in [*steps, ("first", "second/agreement")]:
        done = sfumato(*INIT, name, *(("--theirs", *theirs) if theirs else ()))
        assert done.code == 0, done.err
        assert "12 users in 4 groups of 3 to 3." in done.out
    for name in ("first", "second"):
        assert sfumato("collect", "codes", name, "--out", f"{name}.csv").code == 0
    return folder


@contextmanager
def served(folder):
    """Both servers on loopback; yields their addresses."""
    hosts, threads, listeners = [], [], []
    for name in ("first", "second"):
        server = Server(Book(folder / name / "book.sqlite"), ServerKey.read(folder / name / "server.key"))
        hosts.append(WebServer(lambda server=server: create_app(server), door=Door(100)))
        hosts[-1].config.load()
        listeners.append(socket.create_server(("127.0.0.1", 0)))
        threads.append(threading.Thread(target=hosts[-1].run, args=([listeners[-1]],)))
        threads[-1].start()
    try:
        yield [f"http://127.0.0.1:{one.getsockname()[1]}" for one in listeners]
    finally:
        for host, thread in zip(hosts, threads, strict=True):
            host.should_exit = True
            thread.join()


def code_of(folder, name, user):
    return dict(line.split(",") for line in (folder / f"{name}.csv").read_text().split())[user]


def test_from_questions_to_opened_counts(agreed, sfumato):
    codes = ("--code", code_of(agreed, "first", "s0"), "--second-code", code_of(agreed, "second", "s0"))
    with served(agreed) as (first, second):
        servers = ("--server", first, "--second-server", second)
        report = (
            "collect",
            "report",
            "first/agreement",
            "--state",
            "device",
            "--values",
            "values.toml",
            *servers,
            "--yes",
        )
        new = ("--user", "s0", "--cap", "1.5")
        none = sfumato(*report, *new)
        assert (none.code, "--second-code" in none.err) == (2, True)
        done = sfumato(*report, *new, *codes)
        assert (done.code, "Both servers have their part" in done.out, "spent epsilon 0" in done.out) == (0, True, True)
        assert "Both servers had your report already" in sfumato(*report).out
        many = sfumato(
            "collect", "simulate", "second/agreement", *servers, "--codes", "first.csv", "--second-codes", "second.csv",
            "--values", "values.csv",
        )  # fmt: skip
        assert (many.code, many.out) == (0, "Both servers have 11 of 11 reports; they refused 0.\n")
        asks = sfumato("collect", "open", "first", "--peer", second)
        assert (asks.code, "--yes" in asks.err) == (2, True)
        done = []
        other = threading.Thread(
            target=lambda: done.append(opened(agreed, "second", first))
        )  # the command of the other operator, without its output
        other.start()
        mine = sfumato("collect", "open", "first", "--peer", second, "--yes")
        other.join()
    assert (mine.code, "12 reports of 12 users are counted." in mine.out) == (0, True), mine.err
    found = OpenedFile.read(agreed / "opened.sfumato")
    assert found == done[0]
    assert found.join().counted.tolist() == [3, 3, 3, 3]
    assert (agreed / "first" / "agreement").read_text() == found.agreed.text
    gone = sfumato("collect", "abort", "first", "--yes")
    assert (gone.code, "did not open" in gone.err) == (2, True)


def test_swapped_addresses_get_no_codes(agreed, sfumato):
    """The first server could enrol at the second in the name of a user whose code for it came by mistake."""
    with served(agreed) as (first, second):
        swapped = ("--server", second, "--second-server", first)
        report = ("collect", "report", "first/agreement", "--state", "device", "--values", "values.toml", "--yes")
        codes = ("--code", code_of(agreed, "first", "s0"), "--second-code", code_of(agreed, "second", "s0"))
        done = sfumato(*report, *swapped, "--user", "s0", "--cap", "1.5", *codes)
        assert (done.code, "Swap the addresses" in done.err) == (1, True)
        many = ("--codes", "first.csv", "--second-codes", "second.csv", "--values", "values.csv")
        done = sfumato("collect", "simulate", "second/agreement", *swapped, *many)
        assert (done.code, "Swap the addresses" in done.err) == (1, True)
        done = sfumato("collect", "open", "first", "--peer", first, "--yes")
        assert (done.code, "Swap the addresses" in done.err) == (1, True)
        done = sfumato(*report, "--server", first, "--second-server", second, *codes)
        assert (done.code, "Both servers have their part" in done.out) == (0, True), done.err
    for name in ("first", "second"):
        with Book(agreed / name / "book.sqlite").reading() as connection:
            assert connection.execute("SELECT user FROM users").fetchall() == [("s0",)]


@pytest.mark.parametrize(
    ("value", "shown", "stored"),
    [
        ("2005", "", 1),
        ('"2005"', "", 1),
        ("2005.0", "counts as 2004", 0),
        ('["2005"]', "counts as 2004", 0),
        (None, "counts as 2004", 0),
    ],
)
def test_what_a_device_says_of_a_label_is_what_it_reports(agreed, sfumato, monkeypatch, value, shown, stored):
    drawn = []
    monkeypatch.setattr("sfumato.collect.two._device.drawn_all", lambda *given: drawn.append(given[2]) or [(b"", b"")])
    (agreed / "values.toml").write_text("" if value is None else f"label = {value}\n")
    with served(agreed) as (first, second):
        codes = ("--code", code_of(agreed, "first", "s0"), "--second-code", code_of(agreed, "second", "s0"))
        done = sfumato(
            "collect", "report", "first/agreement", "--state", "device", "--values", "values.toml", "--user", "s0",
            "--cap", "1.5", "--server", first, "--second-server", second, *codes, "--yes",
        )  # fmt: skip
    assert drawn == [[stored]], done.err
    assert ("counts as" in done.out) == bool(shown)


def test_an_output_that_is_there_stops_nothing_for_good(agreed, sfumato):
    (agreed / "opened.sfumato").write_text("of another collection")
    done = sfumato("collect", "open", "first", "--peer", "http://127.0.0.1:9", "--yes")
    assert (done.code, "--out" in done.err) == (2, True)
    with Book(agreed / "first" / "book.sqlite").reading() as connection:
        assert connection.execute("SELECT count(*) FROM steps").fetchone() == (0,)


def test_two_commands_in_one_folder_wait_for_each_other(folder, sfumato, monkeypatch):
    """Both would draw keys, and the file of one would name those of the other."""
    monkeypatch.setattr("sfumato.collect._journal._WAIT_SECONDS", 0.1)
    (folder / "first").mkdir()
    with locked(folder / "first"):
        done = sfumato(*INIT, "first")
    assert (done.code, "to be free" in done.err) == (2, True)
    assert not (folder / "first" / "server.key").exists()


def test_a_used_folder_is_refused_before_a_key_is_made(agreed, sfumato):
    (agreed / "questions.toml").write_text(QUESTIONS.replace("1.0", "0.5"))
    (agreed / "first" / "server.key").rename(agreed / "first" / "kept.key")
    done = sfumato(*INIT, "first")
    assert (done.code, "new folder" in done.err) == (2, True)
    assert not (agreed / "first" / "server.key").exists()


def opened(folder, name, peer):
    from sfumato.collect._connection import Connection
    from sfumato.collect.two._exchange import open_together

    server = Server(Book(folder / name / "book.sqlite"), ServerKey.read(folder / name / "server.key"))
    with Connection(peer) as connection:
        return open_together(server, connection, wait=lambda _: None)


def test_aborted_collections_take_and_open_nothing(agreed, sfumato):
    assert sfumato("collect", "abort", "first").code == 2
    assert sfumato("collect", "abort", "first", "--yes").out == "Aborted. No report can be opened any more.\n"
    done = sfumato("collect", "open", "first", "--peer", "http://127.0.0.1:9", "--yes")
    assert (done.code, "aborted" in done.err) == (2, True)


@pytest.mark.parametrize(
    ("words", "says"),
    [
        ((*INIT[:3], "--servers", "2"), "--folder"),
        ((*INIT[:3], "--folder", "x"), "no --folder"),
        ((*INIT, "first", "--theirs", "first/none"), "none"),
        (("collect", "codes", "nothing.json"), "which is not there"),
        (("collect", "serve", "."), "folder of one of two servers"),
        (("collect", "open", "nowhere", "--peer", "http://127.0.0.1:9"), "folder of one of two servers"),
        (
            ("collect", "report", "first/offer", "--state", "d", "--values", "values.toml", "--second-code", "x"),
            "--second-code",
        ),
        (
            ("collect", "simulate", "s.json", "--server", "x", "--codes", "c", "--second-server", "y"),
            "--second-server",
        ),
    ],
)
def test_options_that_do_not_fit_are_refused(folder, sfumato, words, says):
    done = sfumato(*words)
    assert (done.code, says in done.err) == (2, True), done.err


def test_agreement_needs_both_servers(agreed, sfumato):
    words = (
        "collect",
        "report",
        "first/agreement",
        "--state",
        "d",
        "--values",
        "values.toml",
        "--server",
        "http://127.0.0.1:9",
    )
    done = sfumato(*words)
    assert (done.code, "--second-server" in done.err) == (2, True)
    done = sfumato("collect", "simulate", "first/agreement", "--server", "http://127.0.0.1:9", "--codes", "first.csv")
    assert (done.code, "--second-codes" in done.err) == (2, True)


REPORT = ("collect", "report", "first/agreement", "--state", "device", "--values", "values.toml", "--server", "http://x",
    "--second-server", "http://y", "--user", "s0", "--cap", "2", "--code", "a", "--second-code", "b", "--yes")  # fmt: skip
SIMULATE = ("collect", "simulate", "first/agreement", "--server", "http://x", "--second-server", "http://y",
    "--codes", "first.csv", "--second-codes", "second.csv", "--values", "values.csv")  # fmt: skip
SERVE = ("collect", "serve", "first", "--port", "0")


@pytest.mark.parametrize(
    ("command", "said"),
    [
        ((*REPORT, "--schema-sha256", "00" * 32), "to be that of the schema"),
        ((*REPORT, "--relay", "http://z"), "Expected no --relay with two servers"),
        ((*REPORT, "--later"), "Expected no --later with two servers"),
        ((*REPORT, "--roster", "values.csv"), "Expected no --roster with two servers"),
        ((*REPORT[:2], "first", *REPORT[3:]), "the file 'agreement' in it"),
        ((*SIMULATE, "--edges", "edges.csv"), "Expected no --edges with two servers"),
        ((*SIMULATE, "--batch", "1"), "Expected no --batch with two servers"),
        (("collect", "codes", "first", "--users", "values.csv"), "Expected no --users with two servers"),
        (("collect", "codes", "first", "--store", "a.sqlite"), "Expected no --store with two servers"),
        (("collect", "codes", "first/agreement"), "Name the folder of your server"),
        (("collect", "codes", "nowhere"), "which is not there"),
        ((*SERVE, "--store", "a.sqlite"), "Expected no --store with two servers"),
        ((*SERVE, "--token-key", "a.key"), "Expected no --token-key with two servers"),
        (("collect", "serve", "first/agreement"), "Name the folder of your server"),
        (("collect", "serve", "nowhere"), "which is not there"),
        ((*INIT, "third", "--out", "a.json"), "Expected no --out with two servers"),
        (INIT[:-1], "got no --folder."),
        ((*INIT, "third", "--theirs", "edges.csv"), "Name it with --theirs"),
    ],
)
def test_options_and_paths_of_the_other_kind(agreed, sfumato, command, said):
    done = sfumato(*command)
    assert (done.code, said in done.err.replace("\n", " ")) == (2, True), done.err
    assert not (agreed / "device").exists()


def test_a_step_out_of_order_names_both_files(folder, sfumato):
    assert sfumato(*INIT, "first").code == 0
    done = sfumato(*INIT, "first", "--theirs", "first/offer")
    assert (done.code, "Expected the file 'answer' of the other operator, got the file 'offer'" in done.err) == (
        2,
        True,
    )


def test_a_least_that_no_group_reaches_is_refused_before_anybody_spends(folder, sfumato):
    (folder / "questions.toml").write_text(QUESTIONS.replace("[label]", "least = 4\n[label]"))
    done = sfumato(*INIT, "first")
    said = "Expected least to be at most 3, the users of the largest group, got 4"
    assert (done.code, said in done.err, (folder / "first").exists()) == (2, True, False), done.err


def test_the_fewest_reports_may_be_those_of_the_largest_group(folder, sfumato):
    (folder / "questions.toml").write_text(QUESTIONS.replace("[label]", "least = 3\n[label]"))
    assert sfumato(*INIT, "first").code == 0


def test_the_folder_of_a_server_is_no_collection(agreed, sfumato):
    for words in (("estimate", "first"), ("estimate", str(agreed))):
        done = sfumato("collect", *words)
        assert (done.code, "`sfumato collect open`" in done.err) == (2, True)
