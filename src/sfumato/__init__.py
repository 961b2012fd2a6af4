"""Sfumato is a library for differentially private learning on graphs.

>>> import sfumato as sf
>>> sf.EdgeLevel(directed=False).describe()
'the presence of any one undirected edge'
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from sfumato._optional import lazily
from sfumato._threads import let_waiting_threads_sleep
from sfumato._version import __version__ as __version__

let_waiting_threads_sleep()

if TYPE_CHECKING:
    from sfumato import graph as graph
    from sfumato import verify as verify
    from sfumato.catalog import load as load
    from sfumato.central.auto import Auto as Auto
    from sfumato.central.baselines import MLP as MLP
    from sfumato.central.baselines import SAGE as SAGE
    from sfumato.central.dpar import DPAR as DPAR
    from sfumato.central.dpgnn import DPGNN as DPGNN
    from sfumato.central.gap import GAP as GAP
    from sfumato.central.graph_free import GraphFree as GraphFree
    from sfumato.central.graph_split import GraphSplit as GraphSplit
    from sfumato.central.labels import LabelMessages as LabelMessages
    from sfumato.central.link_messages import LinkMessages as LinkMessages
    from sfumato.central.progap import ProGAP as ProGAP
    from sfumato.central.reference import Reference as Reference
    from sfumato.central.set_calibration import calibrate_sets as calibrate_sets
    from sfumato.central.tuned import Tuned as Tuned
    from sfumato.classlevel.class_dp import ClassDP as ClassDP
    from sfumato.classlevel.class_dp import SubclassDP as SubclassDP
    from sfumato.classlevel.record import CNN as CNN
    from sfumato.datasets import images as images
    from sfumato.errors import SfumatoError as SfumatoError
    from sfumato.estimator import PrivateGraphClassifier as PrivateGraphClassifier
    from sfumato.method.plan import Fitted as Fitted
    from sfumato.method.plan import Plan as Plan
    from sfumato.privacy.budget import Budget as Budget
    from sfumato.privacy.units import ClassLevel as ClassLevel
    from sfumato.privacy.units import EdgeLevel as EdgeLevel
    from sfumato.privacy.units import LinkLevel as LinkLevel
    from sfumato.privacy.units import LocalLevel as LocalLevel
    from sfumato.privacy.units import NodeLevel as NodeLevel
    from sfumato.privacy.units import NoPrivacy as NoPrivacy
    from sfumato.privacy.units import RecordLevel as RecordLevel
    from sfumato.privacy.units import SubclassLevel as SubclassLevel
    from sfumato.record.deployment import Deployment as Deployment

_HOME = {
    "Auto": "central.auto",
    "Budget": "privacy.budget",
    "CNN": "classlevel.record",
    "ClassDP": "classlevel.class_dp",
    "ClassLevel": "privacy.units",
    "DPGNN": "central.dpgnn",
    "DPAR": "central.dpar",
    "Deployment": "record.deployment",
    "EdgeLevel": "privacy.units",
    "Fitted": "method.plan",
    "GAP": "central.gap",
    "GraphFree": "central.graph_free",
    "GraphSplit": "central.graph_split",
    "LabelMessages": "central.labels",
    "LinkLevel": "privacy.units",
    "LinkMessages": "central.link_messages",
    "LocalLevel": "privacy.units",
    "MLP": "central.baselines",
    "NoPrivacy": "privacy.units",
    "NodeLevel": "privacy.units",
    "Plan": "method.plan",
    "PrivateGraphClassifier": "estimator",
    "ProGAP": "central.progap",
    "RecordLevel": "privacy.units",
    "Reference": "central.reference",
    "SAGE": "central.baselines",
    "SfumatoError": "errors",
    "SubclassLevel": "privacy.units",
    "SubclassDP": "classlevel.class_dp",
    "Tuned": "central.tuned",
    "calibrate_sets": "central.set_calibration",
    "images": "datasets",
    "load": "catalog",
}

__all__ = sorted({*_HOME, "graph", "verify"})

__getattr__, __dir__ = lazily(__name__, _HOME)
