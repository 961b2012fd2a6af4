"""Where a store is: what names none is refused with what to write, and no text shows a secret of a URL."""

import pytest
from devices import label_schema

from sfumato.collect.address import Address
from sfumato.collect.database import StoreError
from sfumato.collect.store import Store
from sfumato.errors import InputError

IN_MEMORY = [
    "", " ", ":memory:", "sqlite://", "sqlite:///", "sqlite:///:memory:", "file::memory:", "file:reports.sqlite",
    "sqlite:///file::memory:?uri=true", "sqlite:///file:x?mode=memory&uri=true", "sqlite:///file:x",
]  # fmt: skip


@pytest.mark.parametrize("where", IN_MEMORY)
def test_a_store_that_would_be_gone_is_none(where, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(InputError, match=r"Write the path alone, such as reports\.sqlite"):
        Store.create(where, label_schema())
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    "where", ["mysql://", "mysql://ada:secret@host/name", "oracle://x", "nosuch://x", "postgresql+asyncpg://host/name",
              "postgres://ada:secret@host/name", "sqlite+aiosqlite:///x", "postgresql://host:port/secret", "://"],
)  # fmt: skip
def test_another_database_is_refused_with_what_to_write(where):
    with pytest.raises(InputError, match=r"postgresql\+psycopg://user@host/name, got") as caught:
        Address(where)
    assert "secret" not in str(caught.value)


def test_usual_places():
    assert Address("a/b.sqlite").path.name == "b.sqlite"
    assert Address("sqlite:///a.sqlite").name == "a.sqlite"
    assert Address("sqlite:///file:a.sqlite?mode=ro&uri=true").path is None
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
    with pytest.raises(StoreError, match="Check that the database runs") as caught:
        Store.open(where)
    assert "secret" not in str(caught.value)
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
