"""How many neighbors the suite has tried, and how close to each claim it came."""

import soundness_neighbors as neighbors
import soundness_steps as steps


def test_more_than_ten_thousand_neighbor_pairs(capsys):
    """Pairs are distinct, and their two sides differ; every operation and unit has its share."""
    measured = {case: module.result(case) for module in (neighbors, steps) for case in module.CASES}
    lines = [
        f"{case!s:72} {found.pairs:7,d} pairs, reached {found.worst / case.claim:.6f} of {case.claim:.6g}"
        for case, found in measured.items()
    ]
    total = sum(found.pairs for found in measured.values())
    with capsys.disabled():
        print("", *lines, f"{'all':72} {total:7,d} pairs", sep="\n")
    assert total >= 10_000
    assert min(found.pairs for found in measured.values()) >= 50
    assert min(found.worst / case.claim for case, found in measured.items()) >= 0.99
    assert max(found.worst / case.claim for case, found in measured.items()) <= 1 + 1e-12
