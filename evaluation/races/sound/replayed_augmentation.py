"""An augmentation that returns what it drew, so that it can be replayed on the mask,
and keeps nothing.
"""

import numpy as np
from torch.utils.data import Dataset


class Replay:
    def __init__(self, most):
        self.most = most

    def __call__(self, image, rng):
        params = {
            "flip": bool(rng.integers(2)),
            "shift": int(rng.integers(-self.most, self.most + 1)),
        }
        return self.replay(params, image), params

    @staticmethod
    def replay(params, image):
        image = image[:, ::-1] if params["flip"] else image
        return np.roll(image, params["shift"], axis=0)


class Segmentation(Dataset):
    def __init__(self, images, seed=0):
        self.images, self.seed = images, seed
        self.transform = Replay(5)

    def __len__(self):
        return len(self.images)

    def __getitem__(self, index):
        image, params = self.transform(
            self.images[index], np.random.default_rng([self.seed, index])
        )
        mask = self.transform.replay(params, self.images[index] > 128)
        return {"image": image, "mask": mask, "replay": params}


dataset = Segmentation(np.random.default_rng(0).integers(0, 256, (300, 24, 24), dtype=np.uint8))
