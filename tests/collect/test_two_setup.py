"""Two operators agree by files: the same question, a key that neither chose, and the secrets in one book alone."""

import os
from itertools import count

import pytest
from two_setup import KEYS, agree, servers, sides, write_tables

from sfumato.collect._keys import ServerKey
from sfumato.collect.two import _setup
from sfumato.collect.two._files import Agreed
from sfumato.collect.two._questions import public_cells, read_terms
from sfumato.collect.two._setup import BOOK, SAID, WAITING
from sfumato.collect.two._signed import SealKey
from sfumato.errors import DataError, InputError, SchemaError


@pytest.fixture
def folder(tmp_path):
    write_tables(tmp_path)
    return tmp_path


def test_both_end_with_one_agreement_and_a_book_each(folder):
    first, second = sides(folder)
    mine, theirs = agree(first, second)
    assert mine.read_bytes() == theirs.read_bytes()
    agreed = Agreed.from_json(mine.read_text())
    assert (agreed.agreement.collection, agreed.agreement.classes) == ("years", ("2004", "2005", "2006"))
    for number, server in enumerate(servers(folder)):
        assert server.me == number
        with server.book.reading() as connection:
            secrets = server.book.secrets(connection)
        assert SealKey(secrets.seal).public.hex() == agreed.agreement.parties[number].seal
    assert not [*folder.glob(f"*/{WAITING}"), *folder.glob(f"*/{SAID}")]
    assert [first.begin(), second.go_on(b"anything")] == [mine, theirs]


def test_same_files_come_again_until_the_end(folder):
    first, second = sides(folder)
    offer = first.begin().read_bytes()
    assert first.begin().read_bytes() == offer
    answer = second.go_on(offer).read_bytes()
    (folder / "second" / "answer").unlink()
    assert second.go_on(offer).read_bytes() == answer
    proof = first.go_on(answer).read_bytes()
    assert first.go_on(answer).read_bytes() == proof
    assert (first.begin().read_bytes(), second.go_on(offer).read_bytes()) == (offer, answer)


@pytest.mark.parametrize(
    "change", [{"epsilon": 2.0}, {"classes": ["2004", "2005"]}, {"least": 3}, {"purpose": "Other."}]
)
def test_another_question_is_refused_before_anything_is_signed(folder, change):
    first, second = sides(folder, **change)
    with pytest.raises(SchemaError, match=f"another '{next(iter(change))}'"):
        second.go_on(first.begin().read_bytes())
    assert not (folder / "second" / "answer").exists()


def test_other_cells_are_refused(folder):
    first, second = sides(folder)
    (folder / "edges.csv").write_text("source,target\ns0,s1\ns2,s3\n")
    with pytest.raises(SchemaError, match="another 'cells'"):
        sides(folder)[1].go_on(first.begin().read_bytes())
    second.go_on(first.begin().read_bytes())


def test_files_out_of_order_or_of_strangers_are_refused(folder):
    first, second = sides(folder)
    offer = first.begin().read_bytes()
    answer = second.go_on(offer).read_bytes()
    (folder / "third").mkdir()
    write_tables(folder / "third")
    strange, odd = sides(folder / "third")
    other = odd.go_on(strange.begin().read_bytes()).read_bytes()
    for side, data in (
        (first, offer),
        (first, other),
        (second, answer),
        (second, b""),
        (first, b"{}\n"),
        (first, b"\xff"),
    ):
        with pytest.raises(InputError):
            side.go_on(data)
    with pytest.raises(InputError, match="who began"):
        second.begin()
    proof = first.go_on(answer).read_bytes()
    stranger = strange.go_on(other).read_bytes()
    for side, data in (
        (second, stranger),
        (first, proof),
        (first, Agreed.from_json(agree(*sides(folder / "third"))[0].read_text()).text.encode()),
    ):
        with pytest.raises(InputError):
            side.go_on(data)
    assert second.go_on(proof).exists()


def test_first_is_bound_to_its_half(folder, monkeypatch):
    """A first server that shows another half than it committed to, after it saw the other's, is refused."""
    first, second = sides(folder)
    answer = second.go_on(first.begin().read_bytes()).read_bytes()
    state = _setup._State.read(folder / "first")
    (folder / "first" / WAITING).unlink()
    _setup.replace(state, half="07" * 32).write(folder / "first")
    monkeypatch.setattr(_setup, "joint_key", lambda halves, commitments: bytes(32))
    proof = first.go_on(answer).read_bytes()
    monkeypatch.undo()
    with pytest.raises(InputError, match="committed"):
        second.go_on(proof)


def test_one_key_cannot_be_both_servers(folder):
    first, second = sides(folder)
    twin = _setup.replace(second, key=KEYS[0])
    with pytest.raises(SchemaError, match="keys of their own"):
        first.go_on(twin.go_on(first.begin().read_bytes()).read_bytes())


def test_process_that_dies_at_any_write_goes_on(folder, monkeypatch):
    """Every write of the second operator's last step fails once; the next attempt ends with the same agreement."""
    first, second = sides(folder)
    proof = first.go_on(second.go_on(first.begin().read_bytes()).read_bytes()).read_bytes()
    real, ends = os.replace, count()

    for fail_at in count():
        calls = count()

        def dying(*paths, calls=calls, fail_at=fail_at):
            if next(calls) == fail_at:
                raise KeyboardInterrupt
            return real(*paths)

        monkeypatch.setattr("pathlib.Path.replace", lambda path, target: dying(path, target))
        try:
            made = second.go_on(proof)
        except KeyboardInterrupt:
            next(ends)
            continue
        finally:
            monkeypatch.undo()
        break
    assert next(ends) >= 2
    assert first.go_on(made.read_bytes()).read_bytes() == made.read_bytes()


def test_a_second_book_of_one_agreement_is_refused(folder):
    first, second = sides(folder)
    proof = first.go_on(second.go_on(first.begin().read_bytes()).read_bytes()).read_bytes()
    waiting, said = ((folder / "second" / name).read_bytes() for name in (WAITING, SAID))
    second.go_on(proof)
    copy = _setup.replace(second, folder=folder / "copy")
    (folder / "copy").mkdir()
    (folder / "copy" / WAITING).write_bytes(waiting)
    (folder / "copy" / WAITING).chmod(0o600)
    (folder / "copy" / SAID).write_bytes(said)
    with pytest.raises(InputError, match="second book"):
        copy.go_on(proof)


def test_questions_of_two_servers(folder):
    text = (folder / "questions.toml").read_text()
    for other in (
        text + "[features]\nepsilon = 1\n",
        text.replace("[label]", "[labels]"),
        text + 'mechanism = "subset"\n',
        text.replace("1.0", '"1"'),
        text.replace("1.0", "true"),
        text.replace("1.0", "nan"),
        text.replace("1.0", "1" + "0" * 400),
        text.replace("1.0", "1e-9"),
        text.replace('"2004"', "2004"),
        text.replace('"2004"', "2004-01-01"),
        text.replace("2120", "2020"),
        text.replace("[label]", "least = true\n[label]"),
        text.replace('"years"', "7"),
        "[",
    ):
        (folder / "other.toml").write_text(other)
        with pytest.raises(InputError):
            read_terms(folder / "other.toml")


def test_cells_do_not_depend_on_the_order_of_rows(folder):
    rows = (folder / "edges.csv").read_text().splitlines()
    (folder / "turned.csv").write_text("\n".join([rows[0], *reversed(rows[1:])]) + "\n")
    assert public_cells(folder / "edges.csv", None, 8.0) == public_cells(folder / "turned.csv", None, 8.0)
    some = public_cells(folder / "edges.csv", ["s0", "s1", "alone"], 1.0)
    assert set(some.cells) == {"s0", "s1", "alone"}
    with pytest.raises(InputError, match="two users"):
        public_cells(folder / "edges.csv", ["x", "y"], 1.0)


def test_keys_of_setup_are_not_the_lasting_ones(folder):
    assert isinstance(KEYS[0], ServerKey)
    agree(*sides(folder))
    for number, server in enumerate(servers(folder)):
        assert server.agreement.parties[number].seal != KEYS[number].public.hex()


@pytest.mark.parametrize("steps", range(4))
def test_a_folder_is_for_one_question_and_one_key(folder, steps):
    """An operator who changes the question and goes on in the old folder would believe that the new one was agreed on."""
    first, second = sides(folder)
    files = [first.begin().read_bytes()] if steps else []
    for side in (second, first, second)[: steps - 1] if steps > 1 else ():
        files.append(side.go_on(files[-1]).read_bytes())
    if steps == 3:
        agree(first, second)
    begun = steps > 0
    for change in (
        {"terms": {**first.terms, "epsilon": 0.5}},
        {"partition": public_cells(folder / "edges.csv", [f"s{number}" for number in range(9)], 1.0)},
        {"key": ServerKey(bytes(32))},
    ):
        changed = _setup.replace(first, **change)
        if begun:
            for call in (changed.check_folder, changed.begin, lambda one=changed: one.go_on(files[-1])):
                with pytest.raises(DataError, match="new folder"):
                    call()
        else:
            changed.check_folder()
    first.check_folder()


@pytest.mark.parametrize("name", ["book.sqlite", "book.sqlite.opening", "book.sqlite.abort"])
def test_a_folder_of_another_book_is_refused_before_anything_is_said(folder, name):
    first, second = sides(folder)
    (folder / "second").mkdir()
    (folder / "second" / name).write_bytes(b"of before")
    with pytest.raises(DataError, match=name):
        second.go_on(first.begin().read_bytes())
    assert sorted(path.name for path in (folder / "second").iterdir()) == [name]


def test_an_agreement_without_its_book_is_refused(folder):
    first, second = sides(folder)
    agree(first, second)
    (folder / "first" / BOOK).unlink()
    with pytest.raises(DataError, match=BOOK):
        first.begin()


def test_secrets_of_a_setup_are_written_once_and_overwritten(folder):
    """A second version of the file would leave the first on free blocks, which nobody can erase."""
    first, second = sides(folder)
    offer = first.begin().read_bytes()
    answer = second.go_on(offer).read_bytes()
    held = [os.open(folder / name / WAITING, os.O_RDONLY) for name in ("first", "second")]
    size = len(os.pread(held[0], 1000, 0))
    proof = first.go_on(answer).read_bytes()
    assert all(b"seal" in os.pread(one, 1000, 0) for one in held)
    first.go_on(second.go_on(proof).read_bytes())
    for one in held:
        assert os.fstat(one).st_nlink == 0
        assert os.pread(one, 1000, 0) == bytes(size)
        os.close(one)


def test_a_setup_that_dies_at_its_first_write_begins_again(folder, monkeypatch):
    first, second = sides(folder)
    for fail_at in (0, 1, 2):
        calls = count()

        def dying(path, target, calls=calls, fail_at=fail_at, real=os.replace):
            if next(calls) == fail_at:
                raise KeyboardInterrupt
            return real(path, target)

        monkeypatch.setattr("pathlib.Path.replace", dying)
        with pytest.raises(KeyboardInterrupt):
            first.begin()
        monkeypatch.undo()
        assert first.begin().read_bytes()
        if fail_at < 2:
            for path in (folder / "first").iterdir():
                path.unlink()
    assert agree(first, second)[0].exists()
