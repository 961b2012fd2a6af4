r"""The release folder of a PATE run is written here with its certificate, and the student is loaded back from it.

**Formal guarantee.** Student, queries, answers and which queries were refused together are (claim epsilon, claim
delta)-differentially private for one record: replaced under its id, added, or removed.

*Proof.* One id reaches one teacher, by a hash of that id alone (:mod:`sfumato.pate._teachers`). So in each of the three cases
every teacher but that one learns from the same records, and the same number of teachers votes: on each query at most one vote
moves from one class to another. Counts n, n' then differ by :math:`e_k - e_j` or not at all: :math:`\|n - n'\|_2 \le \sqrt 2`,
:math:`\|n - n'\|_1 \le 2`, and :math:`|\max n - \max n'| \le 1`. With noise of deviation :math:`\sigma_2` on each count an
answer is post-processing of a Gaussian mechanism of multiplier :math:`\sigma_2 / \sqrt 2`, with Laplace noise of scale b of a
Laplace mechanism of multiplier :math:`b / 2`; whether the noisy maximum reaches the threshold is post-processing of a Gaussian
one of multiplier :math:`\sigma_1`. Queries are public and fixed; every query put, refused or not, is one threshold event, and
answers stop at a public cap. So all events, at most as many as the caps, compose to the claim's epsilon at the claim's delta less
the share :math:`(1 + e^\epsilon) \tau A` of the noise sampler, A draws. The student reads public images and answers alone:
post-processing.
"""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
from numpy.typing import NDArray

from sfumato._validate import fail
from sfumato._version import __version__
from sfumato.errors import DataError, SfumatoError
from sfumato.pate._aggregation import LNMax
from sfumato.pate._plan import UNIT, Settings, VotePlan, student_class
from sfumato.privacy.units import unit_to_dict
from sfumato.record._certificate import Certificate, Statement, certify
from sfumato.record._release_folder import Arrays, read_release, write_release

if TYPE_CHECKING:
    from sfumato.pate._images import Images
    from sfumato.record.ledger import Ledger

WHO_MAY_SEE = {
    "anyone": ["student", "queries and answers"],
    "the node itself": [],
    "never": ["teachers", "votes before noise"],
}
ASSUMPTIONS = (
    "Every record reaches exactly one teacher, by a hash of its id; no other teacher reads it.",
    "The public pool holds no private record, and which of its rows were asked about was chosen without looking at votes.",
)
LIMITS = (
    "Epsilon is what the caps on queries and answers cost, whatever the votes are. An epsilon that depends on votes is not in "
    "the claim, and must not be told without noise of its own.",
    "A record that is added or removed is protected alike, if no other changes its id (of named images: the row in the published "
    "file, which a removed one leaves vacant). Who has records under several ids is protected less: epsilon adds up.",
)
NO_CERTIFICATE = (
    "This release has no certificate: its epsilon was told afterwards, from votes and noise, and cannot be derived again without "
    "the votes."
)


class Student(Protocol):
    """A trained student predicts classes and probabilities. It may leave only as the accounting of its run allows."""

    def predict_proba(self, x: NDArray[np.floating], /) -> NDArray[np.float32]: ...
    def predict(self, x: NDArray[np.floating], /) -> NDArray[np.int64]: ...


def spec_of(settings: Settings, plan: VotePlan, student: Any, images: Images, num_public: int) -> dict[str, Any]:
    """Describe what the release says of the run: settings, unit, budget and public facts, JSON-ready."""
    chosen = {name: value for name, value in asdict(student).items() if name != "num_classes"}
    spec = {
        "format": 1,
        "method": "pate",
        "settings": {
            "dataset": images.name,
            "num_teachers": settings.num_teachers,
            "teacher": settings.teacher,
            "num_queries": settings.num_queries,
            "max_answers": settings.answers,
            "mechanism": {"name": plan.mechanism.name, **asdict(plan.mechanism)},
            "student": {"name": settings.student, **chosen},
            "quick": settings.quick,
            "seed": settings.seed,
        },
        "unit": unit_to_dict(UNIT),
        "budget": {"epsilon": settings.epsilon, "delta": settings.delta},
        "public": {
            "num_classes": images.num_classes,
            "num_public": num_public,
            "image_shape": images.test_x.shape[1:],
            "assumed": [],
        },
    }
    plain: dict[str, Any] = json.loads(json.dumps(spec))
    return plain


def write_folder(
    run: Path,
    spec: dict[str, Any],
    plan: VotePlan,
    ledger: Ledger,
    student: Any,
    released: Arrays,
    privacy: dict[str, Any],
    sign_key: Path | None,
) -> None:
    """Write ``run/release/``, with a certificate where the cost was fixed beforehand, or else with what was told of it."""
    weights = weights_of(student)
    if not all(np.isfinite(value).all() for value in weights.values()):
        raise SfumatoError(
            "The student's training diverged: its weights are no finite numbers. The answers are kept and paid for; a student "
            "of a lower learning rate may learn from them."
        )
    certificate = _certify(spec, plan, ledger) if privacy["certificate"] else None
    if certificate is None:
        spec = {**spec, "privacy": privacy, "note": NO_CERTIFICATE}
    write_release(run, certificate, ledger, spec, weights, released, sign_key)


def load_student(path: str | Path) -> Student:
    """Load the student of a PATE run: its run folder, or the release folder in it. Predicting costs nothing.

    Raises:
        InputError: no folder, or a run of another method.
        DataError: the folder is not a finished run, or was altered.

    >>> load_student("no-such-run")
    Traceback (most recent call last):
    ...
    sfumato.errors.InputError: Expected path to be a run folder, got 'no-such-run'. Pass what `sfumato pate run --out` wrote.
    """
    path = Path(path)
    if not path.is_dir():
        raise fail("path", str(path), "to be a run folder", "Pass what `sfumato pate run --out` wrote.")
    stored = read_release(path, certified=False)
    spec = stored.spec
    if spec.get("method") != "pate":
        raise fail("path", str(path), "to be a run of method 'pate'", "Use sfumato.load for other runs.")
    if stored.certificate and stored.certificate.get("settings") != spec.get("settings"):
        raise DataError(f"The settings in spec.json of {str(path)!r} are not the certificate's. See `sfumato verify`.")
    try:
        return _rebuilt(spec["settings"]["student"], spec["public"], stored.weights)
    except (KeyError, TypeError, ValueError, RuntimeError) as error:
        raise DataError(f"The student of {str(path)!r} cannot be read: {error}. See `sfumato verify`.") from error


def weights_of(student: Any) -> dict[str, NDArray[Any]]:
    """Return the networks of a trained student by name, as a release holds them."""
    return {
        f"{name}.{key}": value.detach().cpu().numpy()
        for name, network in _networks(student).items()
        for key, value in network.state_dict().items()
    }


def _networks(student: Any) -> dict[str, Any]:
    if hasattr(student, "network"):
        return {"network": student.network}
    return {f"discriminator/{i}": network for i, network in enumerate(student.discriminators)}


def _certify(spec: dict[str, Any], plan: VotePlan, ledger: Ledger) -> Certificate:
    stated = Statement(
        ledger,
        version=__version__,
        settings=spec["settings"],
        unit=UNIT,
        budget=spec["budget"],
        accounting="pld" if spec["settings"]["mechanism"]["name"] == LNMax.name else "gaussian",
        public_facts={name: value for name, value in spec["public"].items() if name != "assumed"},
        assumed_public=(),
        who_may_see=WHO_MAY_SEE,
        assumptions=ASSUMPTIONS,
        limits=LIMITS,
        doubts=plan.caveats(spec["settings"]["num_teachers"]),
    )
    return certify(stated)


def _rebuilt(chosen: dict[str, Any], public: dict[str, Any], weights: Arrays) -> Student:
    """The student that these settings, facts and weights make."""
    import torch

    from sfumato.nn._gan import Discriminator
    from sfumato.students._consistency import NetworkStudent, edge_network
    from sfumato.students._gan import TrainedStudent
    from sfumato.students._histograms import EDGES

    values = {key: tuple(value) if isinstance(value, list) else value for key, value in chosen.items() if key != "name"}
    settings = student_class(chosen["name"])(num_classes=public["num_classes"], **values)
    if chosen["name"] == "consistency":
        student: Any = NetworkStudent(edge_network(settings.width, settings.num_classes), settings.slanted)
    else:
        shape = (EDGES,) if settings.network == "edges" else tuple(public["image_shape"])
        networks = (
            Discriminator(shape, settings.widths, settings.num_classes, settings.network)
            for _ in range(settings.discriminators)
        )
        student = TrainedStudent(tuple(networks), None, "cpu")
    for name, network in _networks(student).items():
        start = f"{name}."
        own = {
            key.removeprefix(start): torch.from_numpy(value) for key, value in weights.items() if key.startswith(start)
        }
        network.load_state_dict(own)
        network.eval().requires_grad_(False)
    return student
