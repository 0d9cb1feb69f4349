"""Features of a frozen network, caught by a forward hook in an attribute:
another thread's forward replaces them.
"""

import torch
from torch import nn
from torch.utils.data import Dataset


class Features(Dataset):
    def __init__(self, images):
        self.images = images
        torch.manual_seed(0)
        self.network = nn.Sequential(
            nn.Conv2d(1, 4, 3), nn.ReLU(), nn.Flatten(), nn.Linear(4 * 14 * 14, 10)
        ).eval()
        self.network[1].register_forward_hook(self._keep)

    def _keep(self, module, arguments, output):
        self.features = output

    def __len__(self):
        return len(self.images)

    def __getitem__(self, index):
        with torch.no_grad():
            logits = self.network(self.images[index : index + 1])
        return self.features.mean(dim=(2, 3))[0], logits[0]


dataset = Features(torch.linspace(0, 1, 300 * 256).sin().reshape(300, 1, 16, 16))
