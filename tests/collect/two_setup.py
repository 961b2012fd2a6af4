"""Two operators on one machine, who agree by files, and their users in groups of friends."""

from sfumato.collect._keys import ServerKey
from sfumato.collect.two._book import Book
from sfumato.collect.two._questions import public_cells, read_terms
from sfumato.collect.two._server import Server
from sfumato.collect.two._setup import BOOK, Setup

QUESTIONS = """
collection = "years"
purpose = "Count years among friends."
opens = 2020-01-01T00:00:00Z
closes = 2120-01-01T00:00:00Z
[label]
classes = ["2004", "2005", "2006"]
epsilon = 1.0
"""
KEYS = tuple(ServerKey(bytes([5 + number]) * 32) for number in (0, 1))


def write_tables(folder, users=12):
    """Questions, and links of friends in threes."""
    (folder / "questions.toml").write_text(QUESTIONS)
    rows = [f"s{i},s{j}\n" for i in range(users) for j in range(i) if i // 3 == j // 3]
    (folder / "edges.csv").write_text("source,target\n" + "".join(rows))


def sides(folder, **change):
    """The setups of both operators; ``change`` is what the second asks otherwise."""
    terms = read_terms(folder / "questions.toml")
    cells = public_cells(folder / "edges.csv", None, terms["epsilon"])
    asked = (terms, {**terms, **change})
    return [
        Setup(folder / name, KEYS[number], asked[number], cells, folder / f"{name}.books")
        for number, name in enumerate(("first", "second"))
    ]


def agree(first, second):
    """Let the files go to and fro; returns the agreement of each."""
    answer = second.go_on(first.begin().read_bytes())
    proof = first.go_on(answer.read_bytes())
    agreement = second.go_on(proof.read_bytes())
    return first.go_on(agreement.read_bytes()), agreement


def servers(folder):
    return [Server(Book(folder / name / BOOK), KEYS[number]) for number, name in enumerate(("first", "second"))]
