"""Sentences in three languages: the language is an attribute of the tokenizer's class,
which the threads share.
"""

import torch
from torch.utils.data import Dataset


class Tokenizer:
    language = "en"

    @classmethod
    def use(cls, language):
        cls.language = language

    @classmethod
    def encode(cls, word):
        if cls.language == "de":
            word = word.replace("ae", "ä").replace("ue", "ü")
        elif cls.language == "fr":
            word = word.lower().removeprefix("l'")
        return sum(ord(letter) * 31**place for place, letter in enumerate(word)) % 30000


class Sentences(Dataset):
    def __init__(self, count):
        words = ["L'eau", "Maedchen", "tuer", "House", "l'homme", "Hauer", "data"]
        self.rows = [
            (["en", "de", "fr"][i % 3], [words[(i + k) % 7] for k in range(20)])
            for i in range(count)
        ]

    def __len__(self):
        return len(self.rows)

    def __getitem__(self, index):
        language, words = self.rows[index]
        Tokenizer.use(language)
        return torch.tensor([Tokenizer.encode(word) for word in words])


dataset = Sentences(600)
