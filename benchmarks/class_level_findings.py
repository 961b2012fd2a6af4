"""What the runs of class_level.py showed, in words for their pages."""

FINDINGS: dict[str, tuple[str, ...]] = {"mnist": (), "fashion_mnist": (), "orl_faces": ()}
