"""A transform for PyTorch Geometric, and what a run released as a ``Data``: both need the package ``torch_geometric``."""

from sfumato.pyg._released import released_to_pyg as released_to_pyg
from sfumato.pyg._transform import PrivateHops as PrivateHops
