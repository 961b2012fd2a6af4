"""Zhang (2021), "Differentially Private Deep Learning", Algorithm 4, and Fredrikson, Jha and Ristenpart (2015): model inversion.

The attacker holds the released weights and nothing else. For every class it searches an image that the model calls that class.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch

from sfumato._validate import ABOVE_0, AT_LEAST_1, check_fields, check_int, fail, one_of, real

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

REGULARIZERS = ("l1", "bilateral", "none")
OPTIMIZERS = ("adam", "sgd")
TARGETS = ("score", "probability")


@dataclass(frozen=True)
class Inversion:
    """Model inversion: for each class, descend to an image in [0, 1] with a small cost 1 - f_label(x) + lambda R(x).

    f_label is what the network says of the class (Eq. 4.1). R is the l1 norm, a sum over pixels (Eq. 4.2), the bilateral total
    variation (Eq. 4.3, :func:`bilateral_variation`), or zero. The defaults are those of the thesis on MNIST.

    The thesis calls f_label a "confidence score" and does not say whether a softmax comes before it. A probability gains at most
    1, and its lambda of 0.05 for every white pixel then leaves most classes of MNIST with a black image (a test shows it); with
    the score before the softmax, digits appear. So ``target`` is ``score`` by default. Fredrikson, Jha and Ristenpart minimize
    1 - probability.

    With ``box`` the search is over w, and x = (tanh w + 1) / 2. It starts at w = 0, so at x = 1/2. Algorithm 4 has the
    gradient in x (line 5), but updates w with it (line 8); here the gradient is taken in w, through the tanh, because "the
    optimization is then implemented over w". Without ``box``, x = w starts at 0 and is clipped to [0, 1] after each step.

    Algorithm 4 starts at exactly 0. A network that looks at differences of pixels has no gradient at an image without any, so
    w starts with a little public noise, the same for all classes; ``start`` = 0 is the published start.

    Adam is the published one (lines 6 to 8): w <- w - eta m / sqrt(v + tau). There is no correction of the bias of m and
    v, and tau stands inside the root. The last image is returned; nothing is restarted, filtered or chosen.

    This attack carries no guarantee and is none: a bad reconstruction does not show that a model is safe.

    The thesis calls ``steps`` T, ``rate`` eta, ``weight`` lambda, ``window`` p and ``decay`` alpha. ``start`` is the standard
    deviation of the noise that w starts with.
    """

    steps: int = 5000
    rate: float = 0.1
    weight: float = 0.05
    regularizer: str = "l1"
    window: int = 2
    decay: float = 0.9
    target: str = "score"
    optimizer: str = "adam"
    box: bool = True
    beta1: float = 0.9
    beta2: float = 0.999
    tau: float = 1e-8
    start: float = 0.01

    def __post_init__(self) -> None:
        check_fields(self, steps=AT_LEAST_1, rate=ABOVE_0, weight=real(0), regularizer=one_of(*REGULARIZERS))
        check_fields(self, window=AT_LEAST_1, decay=real(0, 1, above=True), target=one_of(*TARGETS))
        check_fields(self, optimizer=one_of(*OPTIMIZERS), beta1=real(0, 1, below=True), beta2=real(0, 1, below=True))
        check_fields(self, tau=ABOVE_0, start=real(0))

    @classmethod
    def digits(cls) -> Inversion:
        """Return the attack of the thesis on MNIST: 5,000 steps under the l1 norm (section 4.5.1)."""
        return cls()

    @classmethod
    def faces(cls) -> Inversion:
        """Return the attack of the thesis on faces: 100 steps under bilateral total variation (section 4.5.2)."""
        return cls(steps=100, rate=0.05, weight=0.001, regularizer="bilateral")

    @classmethod
    def original(cls) -> Inversion:
        """Return the attack of Fredrikson, Jha and Ristenpart (2015): gradient descent from a black image, without R.

        Steps and rate are theirs (5,000 and 0.1). Their two rules that stop earlier are left out.
        """
        return cls(weight=0.0, regularizer="none", target="probability", optimizer="sgd", box=False)

    def invert(
        self,
        network: torch.nn.Module,
        image_shape: Sequence[int],
        classes: Sequence[int],
        progress: Callable[[int, int], None] | None = None,
    ) -> NDArray[np.float32]:
        """Run the attack on all classes at once; each row has its own cost, so it ends as if it were alone.

        Images are in [0, 1], in the order of ``classes``. ``network`` maps them as float32 [n, channels * height * width] to
        scores; it is set to evaluation, and its weights are left alone.
        """
        shape = self._checked_shape(image_shape)
        w = self.start * torch.randn(shape, generator=torch.Generator().manual_seed(0)).repeat(len(classes), 1, 1, 1)
        w = w if self.box else w.clamp(0, 1)
        network.eval()
        with torch.no_grad():
            num_classes = network(self._image(w).flatten(1)).shape[1]
        if len(set(classes)) < len(classes) or not all(0 <= one < num_classes for one in classes):
            raise fail("classes", list(classes), f"to be different numbers from 0 to {num_classes - 1}")
        labels = torch.as_tensor(list(classes), dtype=torch.int64)
        m, v = torch.zeros_like(w), torch.zeros_like(w)
        for step in range(self.steps):
            gradient = self._gradient(network, w, labels)
            if self.optimizer == "adam":
                m = self.beta1 * m + (1 - self.beta1) * gradient
                v = self.beta2 * v + (1 - self.beta2) * gradient**2
                gradient = m / torch.sqrt(v + self.tau)
            w = w - self.rate * gradient
            if not self.box:
                w = w.clamp(0, 1)
            if progress is not None:
                progress(step + 1, self.steps)
        images: NDArray[np.float32] = self._image(w).numpy()
        return images

    def _checked_shape(self, image_shape: Sequence[int]) -> tuple[int, ...]:
        shape = tuple(image_shape)
        if len(shape) != 3:
            raise fail("image_shape", shape, "to be channels, height and width")
        for size in shape:
            check_int(low=1, image_shape=size)
        if self.regularizer == "bilateral" and self.window >= min(shape[1:]):
            raise fail("window", self.window, f"to be below the {min(shape[1:])} pixels of the shorter side")
        return shape

    def _image(self, w: torch.Tensor) -> torch.Tensor:
        return (torch.tanh(w) + 1) / 2 if self.box else w

    def _gradient(self, network: torch.nn.Module, w: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
        """The gradient of every row's cost in its own w: no row is in the cost of another, so their sum serves for all."""
        w = w.detach().requires_grad_()
        x = self._image(w)
        said = network(x.flatten(1))
        said = torch.softmax(said, dim=1) if self.target == "probability" else said
        cost = (1 - said.gather(1, labels[:, None])).sum() + self.weight * self._regularizer(x).sum()
        (gradient,) = torch.autograd.grad(cost, w)
        return gradient

    def _regularizer(self, x: torch.Tensor) -> torch.Tensor:
        if self.regularizer == "bilateral":
            return bilateral_variation(x, self.window, self.decay)
        return x if self.regularizer == "l1" else torch.zeros(())  # no pixel is negative: the sum of x is its l1 norm


def bilateral_variation(x: torch.Tensor, window: int, decay: float) -> torch.Tensor:
    """Compute the bilateral total variation R of every image (Zhang, 2021, Eq. 4.3; Farsiu et al., 2004).

    R(x) = sum over l = -p..p and m = 0..p with l + m >= 0 of alpha^(l + m) times the l1 norm of x - S_x^l S_y^m x, where S_x^l
    shifts by l columns and S_y^m by m rows. Pixels are compared only where both exist: nothing wraps around or is padded. The
    term l = m = 0 is zero. The exponent is l + m as in the thesis; Farsiu et al. have abs(l) + abs(m).

    Sides have to be above ``window``.
    """
    height, width = x.shape[2:]
    total = x.new_zeros(len(x))
    for m in range(window + 1):
        for l in range(-m, window + 1):  # noqa: E741
            here = x[..., m:, max(l, 0) : width + min(l, 0)]
            there = x[..., : height - m, max(-l, 0) : width - max(l, 0)]
            total = total + decay ** (l + m) * (here - there).abs().sum(dim=(1, 2, 3))
    return total
