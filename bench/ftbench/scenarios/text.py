"""Tokenising text in Python: work that holds the GIL.

Sample i is a line of JSON. Its text is split into words, and the words into pieces of a vocabulary
by the longest match, as in WordPiece (Schuster and Nakajima, "Japanese and Korean Voice Search",
ICASSP 2012). Every step is Python code or a function that holds the GIL, so threads can gain only
without it.
"""

from __future__ import annotations

import json
import random
import re

from ftbench.measure import epochs
from ftbench.plan.case import Amount
from ftbench.plan.scenario import Scenario
from ftbench.plan.waterfall import WaterfallPlan

DOCUMENTS, WORDS, LENGTH = 1024, 120, 256
VOCABULARY = 4000
LONGEST = 6
UNKNOWN = 1


class Texts:
    """Dataset of tokenised texts, the same in every trial: sample i has LENGTH token ids and a
    mask, int64 tensors.
    """

    def __init__(self):
        import torch

        self._tensor = torch.tensor
        draw = random.Random(0)
        letters = "etaoinshrdlucmfwyp"
        pieces: dict[str, None] = dict.fromkeys(letters)
        while len(pieces) < VOCABULARY:
            pieces["".join(draw.choices(letters, k=draw.randint(2, LONGEST)))] = None
        self._ids = {piece: number for number, piece in enumerate(pieces, UNKNOWN + 1)}
        names = list(pieces)
        self._lines = [
            json.dumps(
                {
                    "id": number,
                    "text": " ".join("".join(draw.choices(names, k=2)) for _ in range(WORDS)),
                }
            )
            for number in range(DOCUMENTS)
        ]
        self._words = re.compile(r"\w+")

    def __len__(self) -> int:
        return DOCUMENTS

    def __getitem__(self, index: int):
        ids = self._ids
        token_ids: list[int] = []
        for word in self._words.findall(json.loads(self._lines[index])["text"].lower()):
            at = 0
            while at < len(word):
                for end in range(min(len(word), at + LONGEST), at, -1):
                    number = ids.get(word[at:end])
                    if number is not None:
                        break
                else:
                    number, end = UNKNOWN, at + 1
                token_ids.append(number)
                at = end
        del token_ids[LENGTH:]
        missing = LENGTH - len(token_ids)
        return {
            "input_ids": self._tensor(token_ids + [0] * missing),
            "attention_mask": self._tensor([1] * len(token_ids) + [0] * missing),
        }


SCENARIO = Scenario(
    name="text",
    question="Where Python code holds the GIL, as in tokenising text: threads or processes?",
    description="lines of JSON parsed and tokenised in Python, collated into int64 batches",
    sample_bytes=2 * LENGTH * 8,
    dataset=lambda _: Texts(),
    measure=epochs.measure,
    metrics=epochs.METRICS,
    plan=WaterfallPlan(copies=True),
    full=Amount(batch_size=64, batches_per_worker=16, turns=10, seconds=600),
    quick=Amount(batch_size=32, batches_per_worker=20, turns=10, seconds=150),
)
