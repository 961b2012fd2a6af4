"""How near a reconstruction comes to training images, beside how near it comes to held-out images of the same class.

The smallest distance to training images alone ("MIA distance" in Zhang, 2021, section 4.3) says little: it falls with the
number of images that are searched, and a picture of a whole class is near to all images of that class. What would show that a
model remembers its training images is that they are nearer than as many images of the class that it never saw.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, dataclass

import numpy as np
from numpy.typing import NDArray

from sfumato._validate import check_choice, check_int, fail

WINDOW = 7
"""The side of the square window of SSIM, in pixels."""
_C1, _C2 = 0.01**2, 0.03**2  # K1 = 0.01 and K2 = 0.03 for pixels in [0, 1]


def euclidean(image: NDArray[np.float32], images: NDArray[np.float32]) -> NDArray[np.float64]:
    """Compute the Euclidean distance of an image to each of several, over all pixels in [0, 1]."""
    _check_shapes(image, images)
    distances: NDArray[np.float64] = np.sqrt(np.sum((images - image) ** 2, axis=(1, 2, 3), dtype=np.float64))
    return distances


def ssim_distance(image: NDArray[np.float32], images: NDArray[np.float32]) -> NDArray[np.float64]:
    """Compute 1 - SSIM, structural similarity, of an image to each of several; it is 0 for equal images and at most 2.

    SSIM is the mean of (2 a b + c1)(2 s_ab + c2) / ((a^2 + b^2 + c1)(s_a^2 + s_b^2 + c2)) over all 7 x 7 windows that lie in the
    image, where a and b are the two means in a window, s the covariances with divisor 48, c1 = 0.01^2 and c2 = 0.03^2.
    Channels count alike. Another window, such as the Gaussian of 11 x 11 pixels in Wang et al. (2004), gives other numbers.
    """
    _check_shapes(image, images)
    if min(image.shape[1:]) < WINDOW:
        raise fail(
            "image shape",
            image.shape,
            f"to have sides of {WINDOW} pixels or more for SSIM",
            "Use --distance euclidean.",
        )
    one, many = image[None].astype(np.float64), images.astype(np.float64)
    mean_one, mean_many = _means(one), _means(many)
    unbiased = WINDOW**2 / (WINDOW**2 - 1)
    variance_one = unbiased * (_means(one**2) - mean_one**2)
    variance_many = unbiased * (_means(many**2) - mean_many**2)
    covariance = unbiased * (_means(one * many) - mean_one * mean_many)
    top = (2 * mean_one * mean_many + _C1) * (2 * covariance + _C2)
    bottom = (mean_one**2 + mean_many**2 + _C1) * (variance_one + variance_many + _C2)
    distances: NDArray[np.float64] = 1 - (top / bottom).mean(axis=(1, 2, 3))
    return distances


def _means(images: NDArray[np.float64]) -> NDArray[np.float64]:
    """The mean of every window that lies in the image: rows and columns are summed one after the other."""
    bands = [np.sum([np.eye(size - WINDOW + 1, size, k) for k in range(WINDOW)], axis=0) for size in images.shape[2:]]
    means: NDArray[np.float64] = bands[0] @ images @ bands[1].T / WINDOW**2
    return means


def _check_shapes(image: NDArray[np.float32], images: NDArray[np.float32]) -> None:
    if images.shape[1:] != image.shape:
        raise fail(
            "images", images.shape, f"to have the shape of the reconstruction, {image.shape}, after their number"
        )


DISTANCES: dict[str, Callable[[NDArray[np.float32], NDArray[np.float32]], NDArray[np.float64]]] = {
    "euclidean": euclidean,
    "ssim": ssim_distance,
}
"""Each distance by its name: of one image to each of several."""


@dataclass(frozen=True)
class Nearest:
    """The smallest distances of one reconstruction to images of its class.

    ``train_matched`` and ``heldout`` are a fair pair: both are smallest distances among equally many images. Where one side has
    more, the mean over all its subsets of that size stands (:func:`expected_minimum`), so nothing is drawn at random.

    ``blank`` is what an attack that finds nothing can get. It is often smaller than the distance of a good reconstruction, for
    black images of digits as for gray ones of faces: a smaller distance is no better picture.

    ``train`` is the smallest distance to any training image, the "MIA distance" of the thesis, and ``blank`` that of a black,
    gray or white image.
    """

    train: float
    train_matched: float
    heldout: float
    blank: float

    @classmethod
    def of(
        cls, distance: str, image: NDArray[np.float32], train: NDArray[np.float32], heldout: NDArray[np.float32]
    ) -> Nearest:
        """Measure one reconstruction against images of its class."""
        measure = DISTANCES[check_choice(tuple(DISTANCES), distance=distance)]
        size = check_int(
            "Choose classes that have training and test images.",
            low=1,
            images_of_the_class=min(len(train), len(heldout)),
        )
        to_train, to_heldout = measure(image, train), measure(image, heldout)
        matched, heldout_nearest = expected_minimum(to_train, size), expected_minimum(to_heldout, size)
        blank = min(float(measure(np.full_like(image, shade), train).min()) for shade in (0.0, 0.5, 1.0))
        return cls(float(to_train.min()), matched, heldout_nearest, blank)

    def to_dict(self) -> dict[str, float]:
        """Return the distances by their names."""
        return asdict(self)


def expected_minimum(values: NDArray[np.float64], size: int) -> float:
    """Compute the mean of the smallest value over all subsets of ``size`` of the ``values``.

    Of n sorted values, the i-th (from 0) is the smallest of C(n - 1 - i, size - 1) of the C(n, size) subsets.
    """
    check_int(low=1, high=len(values), size=size)
    ranks = np.arange(len(values) - size)
    later = np.cumprod((len(values) - size - ranks) / (len(values) - 1.0 - ranks))  # of the next rank, over this one
    shares = size / len(values) * np.concatenate([[1.0], later])
    return float(shares @ np.sort(values)[: len(shares)])
