"""Sfumato is a library for differentially private learning on graphs.

>>> import sfumato as sf
>>> sf.EdgeLevel(directed=False).describe()
'the presence of any one undirected edge'
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from sfumato._optional import homes_in, lazily
from sfumato._threads import let_waiting_threads_sleep
from sfumato._version import __version__ as __version__

let_waiting_threads_sleep()

if TYPE_CHECKING:
    from sfumato import graph as graph
    from sfumato import verify as verify
    from sfumato.catalog import load as load
    from sfumato.central._arrivals import calibrate_arrival as calibrate_arrival
    from sfumato.central._auto import Auto as Auto
    from sfumato.central._baselines import MLP as MLP
    from sfumato.central._baselines import SAGE as SAGE
    from sfumato.central._dpar import DPAR as DPAR
    from sfumato.central._dpgnn import DPGNN as DPGNN
    from sfumato.central._dpsgd import DPSGD as DPSGD
    from sfumato.central._gap import GAP as GAP
    from sfumato.central._graph_free import GraphFree as GraphFree
    from sfumato.central._graph_split import GraphSplit as GraphSplit
    from sfumato.central._hop_network import PrivateTrainer as PrivateTrainer
    from sfumato.central._labels import LabelMessages as LabelMessages
    from sfumato.central._link_messages import LinkMessages as LinkMessages
    from sfumato.central._progap import ProGAP as ProGAP
    from sfumato.central._reference import Reference as Reference
    from sfumato.central._set_calibration import calibrate_sets as calibrate_sets
    from sfumato.central._tuned import Tuned as Tuned
    from sfumato.classlevel._class_dp import ClassDP as ClassDP
    from sfumato.classlevel._class_dp import SubclassDP as SubclassDP
    from sfumato.classlevel._record import CNN as CNN
    from sfumato.datasets import images as images
    from sfumato.errors import SfumatoError as SfumatoError
    from sfumato.estimator import PrivateGraphClassifier as PrivateGraphClassifier
    from sfumato.method._plan import Fitted as Fitted
    from sfumato.method._plan import Plan as Plan
    from sfumato.privacy.budget import Budget as Budget
    from sfumato.privacy.units import ClassLevel as ClassLevel
    from sfumato.privacy.units import EdgeLevel as EdgeLevel
    from sfumato.privacy.units import LinkLevel as LinkLevel
    from sfumato.privacy.units import LocalLevel as LocalLevel
    from sfumato.privacy.units import NodeLevel as NodeLevel
    from sfumato.privacy.units import NoPrivacy as NoPrivacy
    from sfumato.privacy.units import PersonLevel as PersonLevel
    from sfumato.privacy.units import PersonNodesLevel as PersonNodesLevel
    from sfumato.privacy.units import RecordLevel as RecordLevel
    from sfumato.privacy.units import ServersLevel as ServersLevel
    from sfumato.privacy.units import SubclassLevel as SubclassLevel
    from sfumato.record._deployment import Deployment as Deployment
    from sfumato.statistics._answers import describe as describe
    from sfumato.statistics._statistics import Statistics as Statistics
    from sfumato.statistics._twin import twin as twin

_HOME = homes_in(__file__)

__all__ = sorted({*_HOME, "graph", "verify"})

__getattr__, __dir__ = lazily(__name__, _HOME)
