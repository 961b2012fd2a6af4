"""`sfumato collect init` and `codes`: a schema, or an agreement of two servers, and what each user enrols with."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import typer

from sfumato._files import whole_file
from sfumato._optional import check_installed
from sfumato._validate import fail
from sfumato.cli import _collect_two as two
from sfumato.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from sfumato.collect._schema import Schema
    from sfumato.collect._tokens import TokenKey

_SERVED = typer.Argument(..., help="The schema, as `collect init` writes it; of two servers, the folder of this one.")
_KEY = typer.Option("server.key", "--server-key", help="The secret key of the server; keep it from everybody else.")
_TOKEN_KEY = typer.Option(
    "token.key", "--token-key", help="The secret key of one-time tokens, of a collection with anonymous uploads."
)
_ROSTER = typer.Option(None, "--roster", help="The roster that links are reported about: user ids, one a line.")


def init(
    context: typer.Context,
    questions: Path = typer.Argument(..., help="What is asked, as TOML: see the documentation of collections."),
    out: Path = typer.Option("schema.json", "--out", help="The public schema to write. Another one is never replaced."),
    server_key: Path = _KEY,
    token_key: Path = _TOKEN_KEY,
    roster: Path | None = _ROSTER,
    servers: int = typer.Option(1, "--servers", min=1, max=2, help="2: users split their label between two servers."),
    folder: Path | None = typer.Option(
        None, "--folder", help="Of two servers: the folder of yours, a new one at first."
    ),
    edges: Path | None = typer.Option(
        None,
        "--edges",
        help="Of two servers: the table of public links, which the groups that are counted follow from.",
    ),
    users: Path | None = typer.Option(
        None, "--users", help="Of two servers: the ids of who is asked, one a line (default: everybody in --edges)."
    ),
    theirs: Path | None = typer.Option(
        None, "--theirs", help="Of two servers: the file that the other operator gave you."
    ),
) -> None:
    """Write the public schema of a collection, and print the statement that its users are shown.

    The key of the server is made if the file is not there. That of tokens, where uploads are anonymous, is made new for each
    survey: who signs does not see what for, so under one key a token that one survey gives could be spent in another. A schema
    that asks for links gets their roster from --roster.

    With --servers 2 two operators agree, each with questions, --edges and a --folder of its own: one begins, each gives the other
    the file that the command names, and runs it again with --theirs, until both have an agreement that both signed. The key of a
    server lasts, so --server-key may name one from before (default: server.key in the folder).
    """
    if servers == 2:
        two.check_own(context, "out", "token_key", "roster")
        two.init(questions, folder, edges, users, theirs, two.own_key(context, server_key))
        return
    two.check_pair((folder, edges, users, theirs), ("--folder", "--edges", "--users", "--theirs"))
    from sfumato.collect._keys import ServerKey
    from sfumato.collect._schema import Schema
    from sfumato.collect._tables import read_roster

    tokens: list[TokenKey] = []

    def public() -> str:
        tokens.append(_token_key(token_key, out))
        return f"{tokens[0].public:x}"

    key = ServerKey.read(server_key) if server_key.exists() else ServerKey.new()
    known = read_roster(roster) if roster else None
    schema = Schema.from_toml(questions, key.public.hex(), known, token_key=public)
    if roster and schema.links is None:
        raise InputError("Expected --roster with questions that ask for links, got others. Leave it out.")
    if out.exists() and out.read_text(encoding="utf-8").strip() != schema.text:
        raise InputError(
            f"Expected out to be a new file, got {str(out)!r}, which is there. Devices may know it: name another."
        )
    if not server_key.exists():
        key.write(server_key)
    if tokens and not token_key.exists():
        tokens[0].write(token_key)
    with whole_file(out) as file:
        file.write(f"{schema.text}\n".encode())
    typer.echo(f"{schema.statement()}\n\nSchema {schema.sha256} is in {out}.")


def _token_key(path: Path, out: Path) -> TokenKey:
    """A new key of tokens, or that of a file if the schema in ``out`` names it already."""
    from sfumato.collect._schema import Schema
    from sfumato.collect._tokens import TokenKey

    if not path.exists():
        return TokenKey.new()
    key, known = TokenKey.read(path), Schema.read(out).anonymous if out.exists() else None
    if known is None or known.public != key.public:
        raise fail(
            "--token-key",
            str(path),
            "to be a new file, as a key is for one survey",
            "It is of another one, where its tokens could be spent: name a new file.",
        )
    return key


def codes(
    context: typer.Context,
    schema: Path = _SERVED,
    server_key: Path = _KEY,
    users: Path | None = typer.Option(None, "--users", help="The ids of all users, one a line; of two servers, none."),
    out: Path = typer.Option(
        "codes.csv", "--out", help="The table of codes to write (user, code), for your eyes only."
    ),
    store: str | None = typer.Option(
        None,
        "--store",
        help="The store, which knows whose code was revoked: of these the codes that count are written.",
    ),
) -> None:
    """Write the enrolment code of every user. Hand each user its own code, and nobody else's."""
    if schema.is_dir():
        two.check_own(context, "users", "store")
        two.codes(schema, two.own_key(context, server_key), out)
        return
    two.check_one(schema)
    if users is None:
        raise InputError("Expected --users with a schema, got none. Name the file of all user ids, one a line.")
    from sfumato.collect._keys import ServerKey
    from sfumato.collect._schema import Schema
    from sfumato.collect._tables import read_roster, write_codes

    known, asked = read_roster(users), Schema.read(schema)
    write_codes(out, asked, ServerKey.read(server_key), known, _generations(asked, store, known))
    typer.echo(f"The codes of {len(known):,} user{'s' * (len(known) != 1)} are in {out}.")
    if asked.anonymous:
        typer.echo(f"Publish the SHA-256 of the schema where all users see the same one: {asked.sha256}")


def _generations(asked: Schema, where: str | None, known: Sequence[str]) -> dict[str, int]:
    """How often the code of each user was revoked in a store, which must be that of the schema."""
    if where is None:
        return {}
    check_installed("sqlalchemy")
    from sfumato.collect._store import Store

    store = Store.open(where)
    if store.schema.digest != asked.digest:
        raise fail("--store", store.name, "to be the store of this schema", "Name its own.")
    return {user: one.generation for user, one in store.standing(known).items()}
