"""Changed copies of images: shifted, turned, scaled, lighter or darker, by public numbers that each image draws for itself."""

from __future__ import annotations

import math

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn import functional

_MOST_DEGREES, _MOST_SCALE, _MOST_SHIFT, _MOST_LIGHT = 10.0, 0.1, 0.08, 0.15


class Copies:
    """Copies of images: the image itself, and changes of it.

    What changes an image depends on its row number and a public seed alone, so the copies of one image are a function of this
    image.
    """

    def __init__(self, num_images: int, copies: int, shape: tuple[int, int, int], seed: int) -> None:
        self.copies, self.shape = copies, shape
        draw = np.random.default_rng(seed)
        self._numbers = draw.uniform(-1, 1, (num_images, copies, 5)).astype(np.float32)

    def of(self, x: Tensor, rows: NDArray[np.integer]) -> Tensor:
        """Return each image [n, pixels] followed by its copies; ``rows`` are the images' numbers."""
        if not self.copies:
            return x
        numbers = torch.from_numpy(self._numbers[rows]).reshape(-1, 5).T
        angle, scale = numbers[0] * math.radians(_MOST_DEGREES), 1 + numbers[1] * _MOST_SCALE
        tall = self.shape[1] / self.shape[2]
        turned = torch.stack(
            [
                torch.stack([angle.cos() / scale, -angle.sin() / scale * tall, 2 * _MOST_SHIFT * numbers[2]], 1),
                torch.stack([angle.sin() / scale / tall, angle.cos() / scale, 2 * _MOST_SHIFT * numbers[3]], 1),
            ],
            1,
        )
        many = x.reshape(-1, 1, *self.shape).expand(-1, self.copies, *self.shape).reshape(-1, *self.shape)
        grid = functional.affine_grid(turned, list(many.shape), align_corners=False)
        moved = functional.grid_sample(many, grid, padding_mode="border", align_corners=False)
        moved = (moved * (1 + _MOST_LIGHT * numbers[4])[:, None, None, None]).clamp(0, 1)
        return torch.cat([x[:, None], moved.reshape(len(x), self.copies, -1)], 1).reshape(-1, x.shape[1])
