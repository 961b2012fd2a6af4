"""Votes of teachers, trained once a seed and kept for all cells that ask them.

``<results>/teachers/<digest>.npy`` holds the counts [pool, classes] of an ensemble on the public pool, and
``<results>/teachers/<digest>.key`` the noise key; the digest is of the images, their labels and the ensemble, so that other
images of the same name get votes of their own. All cells of a seed share both files, so that students under one mechanism
learn from the same answers: released once, charged once. Both are private (mode 600): whoever reads them reads clean votes.
Delete the folder to train anew; a new key draws new answers, whose cost no ledger adds.
"""

from __future__ import annotations

from dataclasses import asdict
from functools import lru_cache
from hashlib import sha256
from io import BytesIO
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from filelock import FileLock

from sfumato._validate import fail
from sfumato.experiments._pate_settings import OFFICIAL_TEACHERS, PateCell
from sfumato.noise.keys import Key, new_key
from sfumato.record._sealed import digest, write_private
from sfumato.record.ledger import canonical_json

if TYPE_CHECKING:
    from sfumato.pate._ensemble import Ensemble
    from sfumato.pate._images import Images
    from sfumato.pate._kernel import KernelEnsemble
    from sfumato.pate._votes import Votes


def banked(chosen: PateCell, images: Images, data_dir: str | Path, results: str | Path) -> tuple[Votes, Key]:
    """Return counts [pool, classes] on the public pool, and the key of their noise. Teachers are trained only once.

    One process trains at a time; another process that needs the same teachers waits for it.
    """
    from sfumato.pate._plan import pool_of
    from sfumato.pate._run import make_ensemble
    from sfumato.pate._votes import read_votes

    ensemble, pool = make_ensemble(chosen.plan, images.name, images.num_classes), pool_of(images.name)
    place = Path(results) / "teachers" / votes_digest(images, ensemble, official=not chosen.own)
    place.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    with FileLock(place.with_suffix(".lock")):
        path, held = place.with_suffix(".npy"), place.with_suffix(".key")
        if not chosen.own:
            path = Path(data_dir) / "pate_votes" / f"{images.name}_{OFFICIAL_TEACHERS}_teachers.npy"
        elif not path.exists():
            teachers = ensemble.fit(images.train_x, images.train_y, range(len(images.train_y)))
            content = BytesIO()
            np.save(content, teachers.votes(images.test_x[:pool]))
            write_private(path, content.getvalue())
        if not held.exists():
            write_private(held, new_key())
        counts, key = read_votes(path)[:pool], held.read_bytes()
    if counts.shape != (pool, images.num_classes) or counts[0].sum() != ensemble.num_teachers:
        found = f"{list(counts.shape)}, {counts[0].sum()} votes a row"
        expected = f"to hold {pool} rows of {images.num_classes} classes and {ensemble.num_teachers} votes"
        raise fail(str(path), found, expected, "Delete it: its teachers will be trained anew.")
    return counts, key


def votes_digest(images: Images, ensemble: Ensemble | KernelEnsemble, *, official: bool = False) -> str:
    """Return a digest that names the votes of an ensemble. It does not depend on the device of the training.

    >>> from sfumato.pate._ensemble import Ensemble
    >>> from sfumato.pate._images import Images
    >>> x, y = np.zeros((2, 1, 28, 28), np.float32), np.zeros(2, np.int64)
    >>> images, others = Images("mnist", x, y, x, y), Images("mnist", x, y + 1, x, y)
    >>> votes_digest(images, Ensemble(250, 10)) == votes_digest(images, Ensemble(250, 10, seed=1))
    False
    >>> votes_digest(images, Ensemble(250, 10)) == votes_digest(others, Ensemble(250, 10))
    False
    """
    settings = {**asdict(ensemble), "device": None}
    return sha256(canonical_json([images.name, _contents(images), official, settings]).encode()).hexdigest()


@lru_cache(maxsize=1)
def _contents(images: Images) -> str:
    """Digest of what votes depend on: all but the labels of test images."""
    return digest(images.train_x, images.train_y, images.test_x)
