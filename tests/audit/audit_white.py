"""Faults that need an attacker who sees all noisy sums of a run, or all released edges of two nodes."""

from dataclasses import replace

import numpy as np
from audit_faults import BUDGET, EDGE, NODE, REPLACED, Fault, patched

import sfumato as sf
from sfumato.bounded import _gradients as gradients
from sfumato.bounded import _grouping as grouping
from sfumato.catalog import method_named
from sfumato.central import _edgerand as edgerand
from sfumato.central import _lapgraph as lapgraph
from sfumato.central import _learning
from sfumato.central import _linear as linear
from sfumato.central import _shares as shares
from sfumato.central import _two_layers as two_layers
from sfumato.central._gap import GAP
from sfumato.classlevel import _class_dp as class_dp
from sfumato.classlevel import _record as image_steps
from sfumato.method import hops as engine
from sfumato.privacy.units import SubclassLevel


def settings_of_steps(change):
    """DP-SGD runs with other settings than those that were accounted for."""
    return lambda real: lambda *settings: real(*change(*settings))


def times(number, place=2):
    """A number that a function is given at some place, as a noise or a sensitivity, is that many times as large."""
    return lambda real: (
        lambda *given, **named: real(*given[:place], number * given[place], *given[place + 1 :], **named)
    )


def result_times(number):
    """What a function returns, as a sensitivity, is that many times as large."""
    return lambda real: lambda *given, **named: number * real(*given, **named)


def same_noise_for_all_steps(real):
    """Noise of steps is a function of the key of the fit alone."""
    kept = {}

    def call(key, *given):
        return kept.setdefault(given, real(key, *given))

    return call


def bias_without_noise(real):
    """The last number of each sum has no noise, as a bias that is left out of the vector of noise."""

    def call(key, stddev, start, stop, onto=None):
        noise = real(key, stddev, start, stop, onto)
        noise[-1] = 0
        return noise

    return call


def both_arcs_on_their_own(real):
    """An undirected edge comes out if either of its arcs does, each by a coin of its own (as published)."""

    def call(pairs, present, epsilon, share, source):
        return np.union1d(*(real(pairs, present, epsilon, share, source) for _ in range(2)))

    return call


_EIGHT, _WHITE = sf.Budget(8.0, 1e-6), ("transcripts",)
_RECORD, _RECORD_REPLACED = sf.RecordLevel(), sf.RecordLevel(relation="replace")
_INCIDENT, _CLASS, _SUBCLASS = (
    sf.NodeLevel(arcs="incident"),
    sf.ClassLevel(),
    SubclassLevel.forms()["subclass"][0],
)
_STEPS: tuple = (_learning, "PrivateSGD")


def white(name, method, unit, *planted, proof="bound", fits=10):
    """A fault that an attacker who sees all noisy sums finds within 20 runs for each of ``fits``."""
    home, where, change = planted
    found = method_named(method) if isinstance(method, str) else method
    return Fault(name, found, unit, patched(home, where, change), proof, 1.0, fits, None, _EIGHT, _WHITE)


def in_pairs(name, method, unit, *planted):
    """A fault that released edges of two nodes show."""
    return Fault(name, method_named(method), unit, patched(*planted), "bound", 1.0, 25, None, BUDGET, ("pairs",))


WHITE = (
    white("half of the noise of steps", "mlp", _RECORD, *_STEPS, settings_of_steps(lambda q, t, c, z, r: (q, t, c, z / 2, r))),
    white("noise without the clip norm", "mlp", NODE, *_STEPS,
          settings_of_steps(lambda q, t, c, z, r: (q, t, 4 * c, z / 4, r))),
    white("clipped layer by layer", "mlp", _RECORD, *_STEPS,
          settings_of_steps(lambda q, t, c, z, r: (q, t, 2**0.5 * c, z / 2**0.5, r)), fits=30),
    white("exchange accounted as removal in steps", "mlp", _RECORD_REPLACED, *_STEPS,
          settings_of_steps(lambda q, t, c, z, r: (q, t, c, z / 2, r))),
    white("epochs counted as steps", "mlp", NODE, *_STEPS, settings_of_steps(lambda q, t, c, z, r: (q, 4 * t, c, z, r))),
    white("noise divided by the batch twice", "mlp", _INCIDENT, *_STEPS,
          settings_of_steps(lambda q, t, c, z, r: (q, t, c, z / 16, r))),
    white("a twentieth of the noise of the center", "linear", NODE, linear, "noisy_group_sums", times(0.05, 3), fits=20),
    white("center without noise, all sums", "linear", _RECORD, linear, "noisy_group_sums", times(1e-4, 3), fits=5),
    white("half of the noise of a linear head", "linear", _INCIDENT, *_STEPS,
          settings_of_steps(lambda q, t, c, z, r: (q, t, c, z / 2, r))),
    white("one arc of many counted at node level", GAP(epochs=1, num_hops=1, encoder=False), NODE, engine, "hop_sensitivity",
          lambda real: lambda unit, *, released_messages: 1.0),
    white("noise of the second hop left out of the budget", GAP(epochs=2, num_hops=2), NODE, engine, "noisy_neighborhood_sum",
          times(0.5)),
    white("half of the noise of label messages", "label-messages", NODE, shares, "noisy_neighborhood_sum", times(0.5)),
    white("replaced labels accounted as removed", "label-messages", REPLACED, shares, "routed_sensitivity", result_times(0.5)),
    white("half of the noise of groups", "graph-split", REPLACED, two_layers, "PrivateSGD",
          settings_of_steps(lambda q, t, c, z, r: (q, t, c, z / 2, r))),
    white("half of the noise of roots", "dpar", _INCIDENT, two_layers, "PrivateSGD",
          settings_of_steps(lambda q, t, c, z, r: (q, t, c, z / 2, r))),
    white("images of a class clipped one by one", "class-dp", _CLASS, class_dp, "PrivateSGD",
          settings_of_steps(lambda q, t, c, z, r: (q, t, 3 * c, z / 3, r))),
    white("exchanged class accounted as removed", "class-dp", _CLASS, class_dp, "PrivateSGD",
          settings_of_steps(lambda q, t, c, z, r: (q, t, c, z / 2, r))),
    white("half of the noise of images", "cnn", _RECORD, image_steps, "PrivateSGD",
          settings_of_steps(lambda q, t, c, z, r: (q, t, c, z / 2, r))),
    white("one draw for all steps", "mlp", NODE, gradients, "rounded_gaussian", same_noise_for_all_steps,
          proof="promise", fits=2),
    white("bias without noise", "mlp", _RECORD, gradients, "rounded_gaussian", bias_without_noise, proof="promise", fits=2),
    white("one number of the center without noise", "linear", NODE, grouping, "rounded_gaussian", bias_without_noise,
          proof="promise", fits=2),
    white("half of the noise of a piloted head", "piloted-messages", NODE, *_STEPS,
          settings_of_steps(lambda q, t, c, z, r: (q, t, c, z / 2, r))),
    white("exchanged roots accounted as removed", "dpar", REPLACED, two_layers, "PrivateSGD",
          settings_of_steps(lambda q, t, c, z, r: (q, t, c, z / 2, r))),
    white("exchanged part of a class accounted as removed", "subclass-dp", _SUBCLASS, class_dp, "PrivateSGD",
          settings_of_steps(lambda q, t, c, z, r: (q, t, c, z / 2, r))),
    white("half of the noise of a head on image features", "scattering", _RECORD, *_STEPS,
          settings_of_steps(lambda q, t, c, z, r: (q, t, c, z / 2, r))),
    replace(white("records drawn at every step", "mlp", _RECORD, *_STEPS,
                  settings_of_steps(lambda q, t, c, z, r: (1.0, t, c, z, r)), fits=15), attacks=("sampled",)),
    replace(white("a third of the noise of drawn records", "mlp", _RECORD, *_STEPS,
                  settings_of_steps(lambda q, t, c, z, r: (q, t, c, z / 3, r)), fits=15), attacks=("sampled",)),
    in_pairs("both arcs of an edge on their own", "edgerand", EDGE, edgerand, "randomized_pairs", both_arcs_on_their_own),
    in_pairs("all of epsilon for the bits of both ends", "edgerand", sf.EdgeLevel(directed=True), edgerand, "randomized_pairs",
             times(2)),
    in_pairs("half of the noise of cells", "lapgraph", EDGE, lapgraph, "largest_pairs", times(2)),
)  # fmt: skip
