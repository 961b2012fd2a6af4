"""A town over time: people join and leave, friends are made, and each month is a pair of tables."""

import csv
from pathlib import Path

import numpy as np

MONTHS = 12


class Town:
    """People with ids that never come back, a class and two features each, and friendships mostly within classes."""

    def __init__(self, people: int, seed: int = 0):
        self.chance, self.next = np.random.default_rng(seed), 0
        self.people: dict[int, tuple[int, list[float]]] = {}
        self.friends: set[tuple[int, int]] = set()
        self._join(people)

    def _join(self, count: int) -> None:
        for _ in range(count):
            of, new = int(self.chance.integers(2)), self.next
            self.next += 1
            for other, (theirs, _) in self.people.items():
                if self.chance.random() < (0.12 if of == theirs else 0.02):
                    self.friends.add((other, new))
            self.people[new] = of, self.chance.normal(of, 1.5, 2).round(3).tolist()

    def live(self, joining: float, leaving: float) -> None:
        """Let a month pass: shares of the people join and leave, with their friendships."""
        size = len(self.people)
        for gone in self.chance.choice(list(self.people), round(leaving * size), replace=False).tolist():
            del self.people[gone]
            self.friends = {pair for pair in self.friends if gone not in pair}
        self._join(round(joining * size))

    def write(self, folder: Path) -> list[str]:
        """Write the tables of today; the options that name them."""
        folder.mkdir()
        with (folder / "nodes.csv").open("w", newline="") as file:
            csv.writer(file).writerows(
                [["id", "a", "b", "kind"], *([f"p{v}", *x, f"k{y}"] for v, (y, x) in self.people.items())]
            )
        with (folder / "edges.csv").open("w", newline="") as file:
            csv.writer(file).writerows([["source", "target"], *([f"p{u}", f"p{v}"] for u, v in sorted(self.friends))])
        return ["--nodes", str(folder / "nodes.csv"), "--edges", str(folder / "edges.csv"), "--label", "kind"]
