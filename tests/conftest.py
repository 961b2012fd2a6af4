"""Fixtures shared by all tests."""

import hashlib
import os
import pkgutil
import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace

# Before torch is imported, which some tests do before the library: with several test processes, threads that wait for each
# other spin away every core.
os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")

import pytest


@pytest.fixture(scope="session", autouse=True)
def _no_disk_is_waited_for() -> Iterator[None]:
    """Syncs that reach no disk: what a killed process wrote stays, and no test cuts the power."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(os, "fsync", lambda descriptor: os.fstat(descriptor) and None)
        yield


@pytest.fixture(scope="session", autouse=True)
def _one_thread() -> None:
    """Many tiny graphs gain nothing from two threads, and several test processes lose by them."""
    import numba
    import torch

    torch.set_num_threads(1)
    numba.set_num_threads(1)


@pytest.fixture
def messages_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    """Runs use messages, whatever noise says: those that do not predict from features alone."""
    monkeypatch.setattr("sfumato.central._labels.log_loss", lambda *_: 0.0)
    monkeypatch.setattr("sfumato.central._piloted.messages_pay", lambda *_: True)


class _Keys:
    """Stands in for the operating system where the library draws keys: bytes follow from the name of a test or shared fixture.

    So a failure under some noise comes again, but for what helpers keep in a cache for several tests: their keys, and how many
    are left to the test, depend on which test asks first. A test that noise misleads now and then can stay hidden; ``make soak``
    runs all tests with fresh keys.
    """

    def __init__(self) -> None:
        self.name, self.drawn, self.lock = "", 0, threading.Lock()
        os.register_at_fork(after_in_child=self.after_fork)

    def after_fork(self) -> None:
        """Another name and lock in a forked process, or it would draw the keys of its parent."""
        self.name, self.lock = f"{self.name} {os.getpid()}", threading.Lock()

    @contextmanager
    def of(self, name: str) -> Iterator[None]:
        """Draw for one test or fixture, then go on where the other was."""
        before = self.name, self.drawn
        self.name, self.drawn = name, 0
        try:
            yield
        finally:
            self.name, self.drawn = before

    def urandom(self, count: int) -> bytes:
        """Never twice the same under one name."""
        with self.lock:
            self.drawn += 1
            return hashlib.shake_256(f"{self.name} {self.drawn}".encode()).digest(count)


_KEYS = _Keys()
_SETUPS: Counter[str] = Counter()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Iterator[None]:
    """Keys of a test and of its own fixtures follow from its name."""
    with _KEYS.of(item.nodeid):
        return (yield)


@pytest.hookimpl(wrapper=True)
def pytest_fixture_setup(fixturedef: pytest.FixtureDef[object], request: pytest.FixtureRequest) -> Iterator[None]:
    """Keys of a fixture that tests share follow from its own name: which test asks first is left to chance."""
    if fixturedef.scope == "function":
        return (yield)
    _SETUPS[name := f"{fixturedef.baseid} {fixturedef.argname} {getattr(request, 'param_index', 0)}"] += 1
    with _KEYS.of(f"{name} {_SETUPS[name]}"):
        return (yield)


@pytest.fixture(scope="session", autouse=True)
def _keys_are_repeatable() -> Iterator[None]:
    """Keys from ``_Keys``, unless ``SFUMATO_TEST_KEYS=fresh`` asks for those of the operating system, as long tests do."""
    from sfumato.noise import coins, keys

    with pytest.MonkeyPatch.context() as patch:
        if os.environ.get("SFUMATO_TEST_KEYS") != "fresh":
            for module in (keys, coins):
                patch.setattr(module, "os", SimpleNamespace(urandom=_KEYS.urandom))
        yield


@pytest.fixture(autouse=True)
def _no_data_unless_named(monkeypatch: pytest.MonkeyPatch) -> None:
    """Commands find data sets where a test says, not where the shell of the tests does."""
    monkeypatch.delenv("SFUMATO_DATA", raising=False)


@pytest.fixture(scope="session")
def data_dir() -> Path:
    """The folder of real data sets; tests that need it skip, saying so, when it is absent."""
    path = Path(os.environ.get("SFUMATO_DATA", Path(__file__).parents[2] / "shared" / "data"))
    if not (path / "README.md").exists():
        pytest.skip(f"real data not found at {path}; set SFUMATO_DATA")
    return path


def pytest_addoption(parser: pytest.Parser) -> None:
    """What ``make quick`` asks for."""
    parser.addoption("--quick", action="store_true", help="leave a test as soon as it fits or starts a process")


_NEVER_QUICK = (
    *("attacks", "audit", "central", "classlevel", "distributed", "local", "soak", "soundness", "statistical", "students"),
    *(f"contracts/test_{name}.py" for name in (
        "arrival_tampering", "attacks", "audits", "changed_plans", "charged_fits", "covert_bytes", "covert_fields", "draws",
        "extending", "facts", "far_budgets", "forged_curators", "forged_devices", "local_methods", "methods", "packed_features",
        "pate_tampering", "prices", "rules", "selection_tampering", "selections", "signatures", "split_tampering", "tampering",
    )),
    *("cli/test_full_disk.py", "collect/test_door.py", "collect/test_estimate.py", "collect/test_http.py",
      "collect/test_page.py", "collect/test_patience.py", "collect/test_schemathesis.py",
      "experiments/test_pate.py", "report/test_browser.py",
      "privacy/test_accounting_events.py", "privacy/test_rare_sampling.py", "privacy/test_selection.py",
      "verify/test_epsilon.py", "verify/test_repeated.py"),
    *("bounded/test_kernels.py", "golden/test_accounting.py", "golden/test_class_bounds.py", "meta/test_docs_run.py",
      "meta/test_no_private_value_is_told.py"),
    *(f"graph/test_{name}.py" for name in ("datasets", "ends", "images", "importing", "packed")),
    *(f"pate/test_{name}.py" for name in (
        "data_dependent", "ensemble", "graph_teachers", "images", "kernel", "sensitivity", "smooth", "spent",
    )),
)  # fmt: skip
"""Folders and files whose tests fit, start browsers, or go through every case of a law or a graph, so that few would be left."""


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Not even read what ``make quick`` leaves out as a whole."""
    here = Path(__file__).parent
    return (config.getoption("quick") and collection_path in {here / name for name in _NEVER_QUICK}) or None


def pytest_configure(config: pytest.Config) -> None:
    """Let calibration warn: most tests plan on graphs of a few nodes, of which every such warning is true."""
    config.addinivalue_line("filterwarnings", "ignore::sfumato.errors.SfumatoWarning")


@pytest.fixture(scope="session", autouse=True)
def _nothing_long(request: pytest.FixtureRequest) -> Iterator[None]:
    """With ``--quick``, whatever fits or starts a process skips its test: from the first test on, for workers are processes."""
    with pytest.MonkeyPatch.context() as patch:
        if request.config.getoption("quick"):
            for place in _LONG:
                owner, _, name = place.rpartition(".")
                patch.setattr(pkgutil.resolve_name(owner), name, _left_out)
        yield


_LONG = (
    "sfumato.method._plan.Plan.fit",
    "subprocess.Popen.__init__",
    "multiprocessing.process.BaseProcess.start",
    "os.fork",
)
"""What trains for long, and what starts a process."""


_ONLY_IN_SOAK = (
    "collect/test_estimate.py::test_intervals_cover_as_often_as_they_say[piecewise",
    "collect/test_kills.py::test_acknowledged_reports_outlive_kills[postgresql",
    "contracts/test_far_budgets.py::test_the_accountant_of_the_library_is_confirmed_where_losses_are_rare_and_large[events1",
    "distributed/test_ray.py::test_training_whose_workers_are_killed_has_the_same_bits",
    "experiments/test_runner.py::test_a_cell_that_starts_numba_leaves_the_threads_of_the_next_alone",
    "experiments/test_runner.py::test_control_c_says_how_to_go_on_and_once_what_workers_warned_of",
    "experiments/test_runner.py::test_kill_loses_and_doubles_nothing",
    "privacy/test_rare_sampling.py::test_the_verifier_counts_the_rounding_of_every_step",
    *(f"soundness/test_progap.py::test_planted_faults_are_caught[unit{number}-" for number in (13, 14, 16)),
    "soundness/test_routing.py::test_noise_over_measured_sensitivity_is_what_is_charged[NodeLevel(max_out_degree=3",
    "soundness/test_topology.py::test_planted_fault_of_coins_that_present_pairs_share",
    "statistical/test_discrete.py::test_law_is_the_exact_one[discrete_gaussian-1/3",
    "students/test_cleansing.py::test_planted_wrong_labels_are_moved[1",
    "students/test_gan.py::test_colored_images_of_32_pixels[deep",
    "students/test_gan.py::test_discriminator_tells_real_rows_from_generated_ones",
    "students/test_neighborhood.py::test_a_class_with_one_answer_is_found_since_imagined_answers_are_added",
    "test_blocks.py::test_a_fit_on_disk_releases_the_same_bytes[dpar",
    "test_blocks.py::test_a_saved_run_reads_large_arrays_where_they_were_written",
    "test_optional.py::test_attributes_name_the_extra_too",
    "test_optional.py::test_commands_name_the_extra_and_leave_nothing",
    *(
        f"test_optional.py::test_training_is_refused_before_the_charge_whatever_is_missing[{name}"
        for name in ("numba", "safe")
    ),
    "verify/test_collection.py::test_every_true_schema_passes_and_the_nearest_wrong_one_does_not[20",
    "verify/test_collection.py::test_every_true_schema_passes_and_the_nearest_wrong_one_does_not[43",
    *(
        f"verify/test_epsilon.py::test_brackets_the_oracle_with_laplace_and_randomized_response[events{n}"
        for n in (4, 5)
    ),
    "verify/test_epsilon.py::test_pure_mechanisms_below_the_lattice_of_others_have_one_bound",
    *(f"verify/test_repeated.py::test_what_the_library_claims_is_confirmed[events{number}" for number in (1, 2)),
)
"""The longest cases of tests of which shorter ones are left: kills, laws and whole processes that `make soak` goes through."""


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark the longest cases."""
    for item in items:
        if item.nodeid.removeprefix("tests/").startswith(_ONLY_IN_SOAK):
            item.add_marker(pytest.mark.soak)


def _left_out(*_: object, **__: object) -> None:
    pytest.skip("it fits or starts a process, which --quick leaves out")
