"""A PostgreSQL server for the tests of the collection service."""

import itertools
import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
import sqlalchemy
from devices import label_schema

from sfumato.collect._store import Store

NUMBERS = itertools.count()


@pytest.fixture(scope="session")
def postgres_url() -> Iterator[str]:
    """SQLAlchemy URL of an empty cluster in a temporary folder; only through a socket in that folder does it answer."""
    homes = map(str, Path("/usr/lib/postgresql").glob("*/bin"))  # where Debian keeps them, outside PATH
    initdb = shutil.which("initdb", path=os.pathsep.join([*homes, os.environ.get("PATH", os.defpath)]))
    if initdb is None:
        pytest.skip("no PostgreSQL server is installed (Debian: apt-get install postgresql)")
    with tempfile.TemporaryDirectory(prefix="sfumato-postgres-") as folder:
        account = {}
        if os.geteuid() == 0:  # as which PostgreSQL refuses to run
            account = {"user": "postgres", "group": "postgres", "extra_groups": []}
            shutil.chown(folder, "postgres", "postgres")

        def run(*command: str) -> None:
            with Path(folder, "commands.log").open("a+") as log:
                done = subprocess.run(command, cwd=folder, stdout=log, stderr=log, **account)
                log.seek(0)
                assert done.returncode == 0, log.read()

        control = [str(Path(initdb).with_name("pg_ctl")), "--pgdata=data", "--wait"]
        run(initdb, "--pgdata=data", "--username=sfumato", "--auth=trust", "--encoding=UTF8", "--locale=C")
        run(*control, "--log=server.log", f"--options=-k {folder} -h ''", "start")
        yield f"postgresql+psycopg://sfumato@/postgres?host={folder}"
        run(*control, "--mode=fast", "stop")


@pytest.fixture(params=["sqlite", "postgresql"])
def where(request, tmp_path):
    """A new place for a store."""
    if request.param == "sqlite":
        yield str(tmp_path / "reports.sqlite")
        return
    url = sqlalchemy.make_url(request.getfixturevalue("postgres_url"))
    name = f"collection_{next(NUMBERS)}"
    engine = sqlalchemy.create_engine(url, isolation_level="AUTOCOMMIT")
    with engine.connect() as connection:
        connection.exec_driver_sql(f"create database {name}")
    yield url.set(database=name).render_as_string(hide_password=False)
    with engine.connect() as connection:
        connection.exec_driver_sql(f"drop database {name} with (force)")
    engine.dispose()


@pytest.fixture
def store(tmp_path):
    """An SQLite store of the collection about a label."""
    made = Store.create(str(tmp_path / "reports.sqlite"), label_schema())
    yield made
    made.dispose()


@pytest.fixture(autouse=True)
def _no_ticks(monkeypatch):
    """Devices of tests need not hide how long they take."""
    monkeypatch.setattr("sfumato.collect._ticks.SECONDS", 0.0)
