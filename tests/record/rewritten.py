"""A ledger as whoever keeps the file can rewrite it: other lines, with a chain and a head that fit them."""

import json
from pathlib import Path

from sfumato.record.ledger import canonical_json, chained


def rewrite(path: Path, change) -> None:
    """Change the bodies of all lines, and write chain and head anew."""
    entries = []
    bodies = [json.loads(line) for line in path.read_text().splitlines()]
    for body in change([{k: v for k, v in body.items() if k not in ("index", "previous", "hash")} for body in bodies]):
        entries.append(chained(entries, body))
    path.write_text("".join(canonical_json(entry) + "\n" for entry in entries))
    head = {"entries": len(entries), "hash": entries[-1]["hash"]}
    path.with_name(f"{path.name}.head").write_text(canonical_json(head) + "\n")
