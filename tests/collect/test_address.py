"""Where a store is: what names none is refused with what to write, and no text shows a secret of a URL."""

import pytest
from devices import label_schema

from sfumato.collect._address import Address
from sfumato.collect._database import StoreError
from sfumato.collect._reading import read_closed
from sfumato.collect._store import Store
from sfumato.errors import InputError

IN_MEMORY = [
    "", " ", ":memory:", "sqlite://", "sqlite:///", "sqlite:///:memory:", "file::memory:", "file:reports.sqlite",
    "sqlite:///file:a.sqlite?mode=rw&uri=true",
    "sqlite:///file::memory:?mode=ro&uri=true", "sqlite:///file::memory:?uri=true", "sqlite:///file:x?mode=memory&uri=true", "sqlite:///file:x",
]  # fmt: skip


@pytest.mark.parametrize("where", IN_MEMORY)
def test_a_store_that_would_be_gone_is_none(where, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(InputError, match=r"Write the path alone, such as reports\.sqlite"):
        Store.create(where, label_schema())
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    "where", ["mysql://", "mysql://ada:secret@host/name", "oracle://x", "nosuch://x", "postgresql+asyncpg://host/name",
              "postgres://ada:secret@host/name", "sqlite+aiosqlite:///x", "postgresql://host:port/secret",
              "postgresql+psycopg://u:secret@h:x/n", "://"],
)  # fmt: skip
def test_another_database_is_refused_with_what_to_write(where):
    with pytest.raises(InputError, match=r"postgresql\+psycopg://user@host/name, got") as caught:
        Address(where)
    assert "secret" not in str(caught.value)


@pytest.mark.parametrize(
    "where", ["postgresql:u:secret@h/db", "postgresql:/u:secret@h/db", "host=h user=u password=secret", "//u:secret@h/db",
              "postgresql://u:p@secret/x@127.0.0.1:1/db", "postgresql://u:p@x:secret@127.0.0.1:1/db",
              "postgresql://u@127.0.0.1:1/postgresql%3A%2F%2Fa%3Asecret%40b%2Fc",
              "postgresql://u@127.0.0.1:1/db?dbname=password%3Dsecret", "sqlite:////tmp/x.sqlite?mode=memory&pw=secret",
              "sqlite://u:secret@h/x.db", "sqlite:///x.db?key=secret", "sqlite:///u:secret@h/x.db"],
)  # fmt: skip
def test_a_mistyped_address_is_refused_and_not_repeated(where, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for use in (Store.open, read_closed, lambda where: Store.create(where, label_schema())):
        with pytest.raises(InputError, match="Expected the path of") as caught:
            use(where)
        assert "secret" not in str(caught.value)
    assert list(tmp_path.iterdir()) == []


def test_a_file_that_is_there_is_named_although_its_name_is_strange(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Store.create("./day=1", label_schema()).dispose()
    store = Store.open("day=1")
    assert store.name == "day=1"
    store.dispose()


def test_what_the_driver_does_not_understand_is_explained():
    with pytest.raises(StoreError, match="to work as a store, got: ") as caught:
        Store.open("postgresql://u:secret@127.0.0.1/db?port=1&port=2&host=a&host=b&host=c")
    assert "secret" not in str(caught.value)


def test_usual_places():
    assert Address("a/b.sqlite").path.name == "b.sqlite"
    assert Address("sqlite:///a.sqlite").name == "a.sqlite"
    assert Address("sqlite:///file:a.sqlite?mode=ro&uri=true").path is None
    assert Address("/data/day=1/ada@host.sqlite").path.name == "ada@host.sqlite"
    assert Address("./a:b").path.name == "a:b"
    assert Address("postgresql://ada@host/name").name == "postgresql+psycopg://ada@host/name"


@pytest.mark.parametrize(
    "where",
    [
        "postgresql+psycopg://ada:secret@127.0.0.1:1/none",
        "postgresql+psycopg://ada@127.0.0.1:1/none?password=secret",
        "postgresql://ada@/none?host=127.0.0.1&port=1&password=secret&sslpassword=secret",
        "postgresql://ada@127.0.0.1:1/none?passfile=secret&krbsrvname=secret",
    ],
)
def test_no_secret_of_a_url_is_shown(where):
    address = Address(where)
    assert "secret" not in address.name
    assert "127.0.0.1" in address.name
    with pytest.raises(StoreError, match=r"127\.0\.0\.1.* Check that the database runs") as caught:
        Store.open(where)
    assert "secret" not in str(caught.value)
    assert "disk" not in str(caught.value)
    if "sslpassword" not in where and "passfile" not in where:
        assert address.cleaned("invalid dsn: password=secret") == "invalid dsn: password=***"


def test_a_database_that_repeats_a_password_shows_none(monkeypatch):
    """Drivers put connection strings into their messages."""
    import psycopg

    def refuse(*_args, **_how):
        raise psycopg.OperationalError("invalid connection string: password=geheim host=h")

    monkeypatch.setattr("psycopg.connect", refuse)
    with pytest.raises(StoreError, match=r"password=\*\*\*"):
        Store.open("postgresql://ada@h/none?password=geheim")
