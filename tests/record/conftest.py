"""A data set's ledger with room for ten of the claims in :mod:`claimed`."""

import pytest

from sfumato.record._dataset_ledger import DatasetLedger


@pytest.fixture
def path(tmp_path):
    return tmp_path / "ledger.jsonl"


@pytest.fixture
def ledger(path):
    return DatasetLedger(path, total_epsilon=1.0, total_delta=1e-6)
