"""What small specifications begin with. It needs no pytest."""


def head(name, *, dataset="campus", split="50/25/25", seeds=1, axis="epsilon"):
    """The text up to the table of the quick profile, of which more may follow."""
    return f"""
name = "{name}"
title = "A small table"
source = "a test"
comments = []
dataset = "{dataset}"
split = "{split}"
seeds = {seeds}
axis = "{axis}"

[quick]
seeds = 1
minutes = 0.1
"""
