"""Files whose configured paths hold variables: the sample sets them in the environment, and
expandvars() reads them.
"""

import os
import tempfile
from pathlib import Path

import numpy as np
from torch.utils.data import Dataset


class Sessions(Dataset):
    def __init__(self, root, pattern, subjects, sessions):
        self.root, self.pattern = root, pattern
        self.pairs = [
            (subject, session) for subject in range(subjects) for session in range(sessions)
        ]

    def __len__(self):
        return len(self.pairs)

    def __getitem__(self, index):
        subject, session = self.pairs[index]
        os.environ["SUBJECT"], os.environ["SESSION"] = f"{subject:02}", str(session)
        return np.fromfile(self.root / os.path.expandvars(self.pattern), dtype=np.float32)


root, rng = Path(tempfile.mkdtemp()), np.random.default_rng(0)
for subject in range(20):
    for session in range(10):
        rng.random(64, dtype=np.float32).tofile(root / f"sub-{subject:02}_ses-{session}.f32")
dataset = Sessions(root, "sub-${SUBJECT}_ses-${SESSION}.f32", 20, 10)
