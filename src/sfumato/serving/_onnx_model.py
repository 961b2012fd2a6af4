"""A released model in the ONNX format: features and released rows in, probabilities and the predicted class out.

It computes what ``docs/handover.md`` computes with NumPy: label messages and graph-free models at edge level, and the
linear model, the network without a graph and GAP under every unit.
"""

from __future__ import annotations

import json
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from sfumato._optional import require
from sfumato._validate import fail
from sfumato.bounded._counting import count_sensitivity
from sfumato.central._counts import smoothing, stored_shares
from sfumato.graph._targets import MULTILABEL, NUMBER
from sfumato.loops.kernels import INT16_ONE
from sfumato.method._choosing import least_probability
from sfumato.privacy.units import unit_from_dict
from sfumato.serving._onnx_encoder import encode_table

if TYPE_CHECKING:
    from sfumato.method._decisions import Decision
    from sfumato.record._release_folder import Arrays, StoredRun

METHODS = ("label-messages", "graph-free", "linear", "mlp", "gap")
_OPSETS = {"": 17, "ai.onnx.ml": 3}
_IR_VERSION = 8  # the oldest that has these sets of operators
_LEAST = 1e-12


def onnx_model(stored: StoredRun, *, table: bool = False, decision: Decision | None = None) -> bytes:
    """Return the ONNX file of a run. It spends nothing: all of it was released.

    Inputs are ``features``, float32 [nodes, columns], and ``aggregate_1``, ``aggregate_2`` and so on, int64, the rows of these
    nodes in ``releases.safetensors``. Outputs are ``probabilities``, float32 [nodes, classes], of several labels one each, with
    the scale that a linear model released for them; and ``predicted``, int64 [nodes], the number of the most probable class, or
    of several labels 0 and 1. With ``table``, cells of the node table are inputs in place of features, texts and numbers, one
    input for each column. With a ``decision``, ``chosen`` says whether its threshold chooses a node, bool [nodes].
    Nodes are not mixed, so any rows may be given. The metadata names classes, features, what was decided, and the claim.

    Raises:
        InputError: the run has no such form, or the decision is more than a threshold that reads no label.
    """
    method, unit = stored.spec["method"], unit_from_dict(stored.spec["unit"])
    if method not in METHODS:
        raise fail("method", method, f"to be one of {', '.join(METHODS)}", "Predict with `sfumato predict`.")
    if not unit.private:
        raise fail("unit", unit.name, "to be a unit of privacy", "Without privacy nothing was released.")
    if method == "label-messages" and "labels" not in unit.public:
        raise fail("unit", unit.name, "to be edge for label-messages", "Predict with `sfumato predict`.")
    target = stored.spec["public"].get("target")
    if target == NUMBER:
        raise fail("target", target, "to be classes or labels", "A number has no probabilities: use `sfumato predict`.")
    graph = _Graph(stored)
    if decision is not None:
        graph.decided = _decided(stored, decision, target)
    if table:
        encode_table(graph, stored)
    made = {
        "label-messages": _label_messages, "graph-free": _features_alone, "linear": _linear, "mlp": _mlp, "gap": _gap,
    }  # fmt: skip
    scores = made[method](graph, stored)
    if target == MULTILABEL:
        graph.add("Sigmoid", scores, output="probabilities")
        half = graph.add("Greater", "probabilities", 0.5)
        graph.add("Cast", half, output="predicted", to=graph.onnx.TensorProto.INT64)
    else:
        graph.add("Softmax", scores, output="probabilities", axis=1)
        graph.add("ArgMax", "probabilities", output="predicted", axis=1, keepdims=0)
    if graph.decided:
        column = graph.add("Gather", "probabilities", np.array(graph.decided["number"]), axis=1)
        graph.add("GreaterOrEqual", column, graph.decided["least"], output="chosen")
    return graph.file(stored)


class _Graph:
    def __init__(self, stored: StoredRun) -> None:
        self.onnx, self.weights = require("onnx"), stored.weights
        self.nodes: list[Any] = []
        self.constants: dict[str, NDArray[Any]] = {}
        self.decided: dict[str, Any] = {}
        self.inputs = {"features": ("FLOAT", stored.spec["public"]["num_features"])}

    def add(
        self,
        operator: str,
        *inputs: str | NDArray[Any] | float,
        output: str = "",
        domain: str = "",
        real: type[np.floating] = np.float32,
        **how: Any,
    ) -> str:
        """Add a node and return the name of its output; arrays and numbers among the inputs become constants."""
        output = output or f"v{len(self.nodes)}"
        names = [one if isinstance(one, str) else self._constant(np.asarray(one), real) for one in inputs]
        self.nodes.append(self.onnx.helper.make_node(operator, names, [output], domain=domain, **how))
        return output

    def _constant(self, value: NDArray[Any], real: type[np.floating]) -> str:
        self.constants[name := f"c{len(self.constants)}"] = value if value.dtype == np.int64 else value.astype(real)
        return name

    def cast(self, rows: str, real: type[np.floating]) -> str:
        return self.add("Cast", rows, to=self.onnx.helper.np_dtype_to_tensor_dtype(np.dtype(real)))

    def released(self, stored: StoredRun, name: str, real: type[np.floating] = np.float32) -> str:
        """Take rows of a release as an input, in units of a message of norm 1."""
        self.inputs[spelled := name.replace("/", "_")] = ("INT64", stored.released[name].shape[1])
        return self.add("Div", self.cast(spelled, real), float(INT16_ONE), real=real)

    def linear(self, rows: str, name: str) -> str:
        return self.add("Gemm", rows, self.weights[f"{name}.weight"], self.weights[f"{name}.bias"], transB=1)

    def batch_norm(self, rows: str, name: str) -> str:
        """Normalize over the batch of training; nothing where labels are private."""
        if f"{name}.weight" not in self.weights:
            return rows
        mean, variance = (self.weights[f"{name}.running_{moment}"] for moment in ("mean", "var"))
        scale = self.weights[f"{name}.weight"] / np.sqrt(variance + 1e-5)
        return self.add("Add", self.add("Mul", rows, scale), self.weights[f"{name}.bias"] - mean * scale)

    def unit(self, rows: str) -> str:
        """Scale rows to norm 1; zero rows stay zero."""
        norms = self.add("Max", self.add("ReduceL2", rows, axes=[1], keepdims=1), _LEAST)
        return self.add("Div", rows, norms)

    def joined(self, *parts: str) -> str:
        return self.add("Concat", *parts, axis=1)

    def file(self, stored: StoredRun) -> bytes:
        onnx = self.onnx
        types = onnx.TensorProto
        inputs = [
            onnx.helper.make_tensor_value_info(name, getattr(types, kind), ["nodes", columns])
            for name, (kind, columns) in self.inputs.items()
        ]
        described = stored.spec["graph"]
        classes = described["classes"]
        ends = {"probabilities": (types.FLOAT, len(classes)), "predicted": (types.INT64,)}
        if stored.spec["public"].get("target") == MULTILABEL:
            ends["predicted"] = (types.INT64, len(classes))
        if self.decided:
            ends["chosen"] = (types.BOOL,)
        outputs = [
            onnx.helper.make_tensor_value_info(name, kind, ["nodes", *size]) for name, (kind, *size) in ends.items()
        ]
        constants = [onnx.numpy_helper.from_array(array, name) for name, array in self.constants.items()]
        model = onnx.helper.make_model(
            onnx.helper.make_graph(self.nodes, "sfumato", inputs, outputs, constants),
            opset_imports=[onnx.helper.make_opsetid(domain, version) for domain, version in _OPSETS.items()],
            producer_name="sfumato",
        )
        model.ir_version = _IR_VERSION
        said = {"method": stored.spec["method"], "classes": json.dumps(classes), "guarantee": _sentence(stored)}
        said["features"] = json.dumps(described["feature_names"])
        if "scale" in self.weights:
            said["calibration"] = json.dumps({"scale": float(self.weights["scale"][0])})
        if self.decided:
            said["decision"] = json.dumps(self.decided)
        onnx.helper.set_model_props(model, said)
        onnx.checker.check_model(model, full_check=True)
        content: bytes = model.SerializeToString()
        return content


def _decided(stored: StoredRun, decision: Decision, target: str | None) -> dict[str, Any]:
    """What a threshold decides: the class, its number and its least probability."""
    classes = stored.spec["graph"]["classes"]
    if decision.threshold is None or decision.reads_labels or decision.ranks:
        raise fail(
            "threshold",
            decision.threshold,
            "to be a number or cost=FP:FN for a file, which knows no other node",
            "`sfumato predict` says which number a recall gives.",
        )
    decision.check(unit_from_dict(stored.spec["unit"]), target, classes)
    assert decision.positive is not None
    least = least_probability(decision.threshold, np.zeros(0), np.zeros(0, bool))
    return {"positive": decision.positive, "number": classes.index(decision.positive), "least": least}


def _sentence(stored: StoredRun) -> str:
    from sfumato.record._certificate import Certificate

    return Certificate(stored.certificate).sentence


def _label_messages(graph: _Graph, stored: StoredRun) -> str:
    """The head on what ``sfumato.central._counts.count_inputs`` makes of S + w T and of log probabilities, or features alone."""
    alone = _features_alone(graph, stored, "prior.")
    if "head.weight" not in stored.weights:
        return alone
    events = [one["event"] for one in stored.certificate["releases"] if one["name"] == "aggregate/1"]
    if not events:
        raise fail("run", "a selection", "to be of one candidate", "Train the chosen settings by themselves.")
    if stored.spec["public"].get("edge_types"):
        raise fail(
            "run", "types of edges", "to tell none apart", "The file would read one kind of counts. Serve the run."
        )
    classes, later = len(stored.spec["graph"]["classes"]), float(stored.weights.get("later.weight", [0])[0])
    (event,), most = events, count_sensitivity(unit_from_dict(stored.spec["unit"]))
    noise = most * (event["noise_multiplier"] if event["type"] == "gaussian" else np.sqrt(2) / event["epsilon"])
    wide = partial(graph.add, real=np.float64)  # float32 would round what many neighbors add up to
    counts = graph.released(stored, "aggregate/1", np.float64)
    if stored.released["aggregate/1"].shape[1] > classes:
        counts = wide("MatMul", counts, np.vstack([np.eye(classes), later * np.eye(classes)]))
    total, shares = wide("ReduceSum", counts, np.array([1]), keepdims=1), stored_shares(stored.weights)
    center = np.full((1, classes), 1 / classes) if shares is None else shares[None].astype(np.float64)
    surplus = wide("Sub", counts, wide("MatMul", total, center))
    squares = wide("ReduceSumSquare", surplus, axes=[1], keepdims=1)
    length = wide("Sqrt", wide("Add", squares, (classes - 1) * noise**2 * (1 + later**2)))
    heard = [wide("Div", surplus, by) for by in (noise, length)]
    if shares is not None:
        prior, there = smoothing(noise * np.sqrt(1 + later**2)), wide("Max", total, 0.0)
        rate = wide("Div", wide("Add", wide("Max", counts, 0.0), prior * center), wide("Add", there, prior))
        heard += [wide("Log", wide("Div", rate, center)), wide("Sqrt", there)]
    own = graph.add("Log", graph.add("Max", graph.add("Softmax", alone, axis=1), 1e-6))
    return graph.linear(graph.joined(*(graph.cast(part, np.float32) for part in heard), own), "head")


def _features_alone(graph: _Graph, stored: StoredRun, prefix: str = "") -> str:
    """The graph-free model: linear, a network with one hidden layer, or trees."""
    weights = stored.weights
    if f"{prefix}linear.weight" in weights:
        return graph.linear("features", f"{prefix}linear")
    if f"{prefix}trees.value" in weights:
        return _trees(graph, {name.removeprefix(f"{prefix}trees."): part for name, part in weights.items()})
    hidden = graph.add("MatMul", "features", weights[f"{prefix}network.maps.0.weight"].T)
    hidden = graph.add("Relu", graph.batch_norm(hidden, f"{prefix}network.norm"))
    return graph.linear(hidden, f"{prefix}network.head")


def _trees(graph: _Graph, arrays: Arrays) -> str:
    """The trees with a leaf that is not zero, as one ensemble. A leaf is its own child."""
    _, classes, size = arrays["value"].shape
    kept = np.argwhere(arrays["value"].any(2))
    part = {name: arrays[name][tuple(kept.T)].ravel() for name in ("feature", "threshold", "left", "right", "value")}
    tree, node = np.repeat(np.arange(len(kept)), size), np.tile(np.arange(size), len(kept))
    leaf = part["left"].astype(np.int64) == node
    return graph.add(
        "TreeEnsembleRegressor",
        "features",
        domain="ai.onnx.ml",
        n_targets=classes,
        base_values=arrays["baseline"].tolist(),
        nodes_treeids=tree.tolist(),
        nodes_nodeids=node.tolist(),
        nodes_featureids=np.where(leaf, 0, part["feature"]).astype(np.int64).tolist(),
        nodes_values=np.where(leaf, 0, part["threshold"]).tolist(),
        nodes_modes=np.where(leaf, "LEAF", "BRANCH_LEQ").tolist(),
        nodes_truenodeids=np.where(leaf, 0, part["left"]).astype(np.int64).tolist(),
        nodes_falsenodeids=np.where(leaf, 0, part["right"]).astype(np.int64).tolist(),
        target_treeids=tree[leaf].tolist(),
        target_nodeids=node[leaf].tolist(),
        target_ids=np.repeat(kept[:, 1], size)[leaf].tolist(),
        target_weights=part["value"][leaf].tolist(),
    )


def _linear(graph: _Graph, stored: StoredRun) -> str:
    """The head on rows of norm 1, around the center if there is one, times what the scale says."""
    rows = graph.unit("features")
    if "center" in stored.weights:
        rows = graph.unit(graph.add("Sub", rows, stored.weights["center"]))
    scores = graph.linear(rows, "head")
    return graph.add("Mul", scores, stored.weights["scale"]) if "scale" in stored.weights else scores


def _mlp(graph: _Graph, stored: StoredRun) -> str:
    """A network of the features alone: linear layers, with SELU between them."""
    rows, layer = graph.linear("features", "network.layers.0"), 1
    while f"network.layers.{layer}.weight" in stored.weights:
        rows = graph.add("Selu", graph.batch_norm(rows, f"network.norms.{layer - 1}"))
        rows, layer = graph.linear(rows, f"network.layers.{layer}"), layer + 1
    return rows


def _gap(graph: _Graph, stored: StoredRun) -> str:
    encoded, layer = "features", 0
    while f"encoder.mlp.layers.{layer}.weight" in stored.weights:
        mapped = graph.linear(encoded, f"encoder.mlp.layers.{layer}")
        encoded, layer = graph.add("Selu", graph.batch_norm(mapped, f"encoder.mlp.norms.{layer}")), layer + 1
    names = [f"aggregate/{hop}" for hop in range(1, len(stored.released) + 1)]
    hops = [encoded, *(graph.released(stored, name) for name in names)]
    maps = [graph.linear(graph.unit(hop), f"classifier.base.{k}") for k, hop in enumerate(hops)]
    combine = stored.spec["settings"].get("combine", "cat")
    if combine == "attention":
        scores = [graph.linear(one, f"classifier.score.{k}") for k, one in enumerate(maps)]
        shares = graph.add("Softmax", graph.joined(*scores), axis=1)
        maps = [graph.add("Mul", one, graph.add("Gather", shares, np.array([k]), axis=1)) for k, one in enumerate(maps)]
    joint = graph.joined(*maps) if combine == "cat" else graph.add("Sum", *maps)
    return graph.linear(graph.add("Selu", graph.batch_norm(graph.unit(joint), "classifier.norm")), "classifier.head")
