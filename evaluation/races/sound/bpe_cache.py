"""A byte-pair tokenizer with GPT-2's cache: two threads may both merge a word, and put equal tuples
into the dict.
"""

import torch
from torch.utils.data import Dataset


class Tokenizer:
    def __init__(self, merges):
        self.ranks = {pair: rank for rank, pair in enumerate(merges)}
        self.cache = {}

    def bpe(self, word):
        if word in self.cache:
            return self.cache[word]
        parts = tuple(word)
        while len(parts) > 1:
            pair = min(zip(parts, parts[1:]), key=lambda pair: self.ranks.get(pair, 1 << 20))
            if pair not in self.ranks:
                break
            place = list(zip(parts, parts[1:])).index(pair)
            parts = parts[:place] + ("".join(pair),) + parts[place + 2 :]
        self.cache[word] = parts
        return parts

    def encode(self, text):
        return [sum(map(ord, part)) for word in text.split() for part in self.bpe(word)]


class Texts(Dataset):
    def __init__(self, texts, tokenizer):
        self.texts, self.tokenizer = texts, tokenizer

    def __len__(self):
        return len(self.texts)

    def __getitem__(self, index):
        return torch.tensor(self.tokenizer.encode(self.texts[index]))


words = [
    a + b + c for a in ("th", "wh", "sh") for b in ("e", "is", "ere") for c in ("n", "r", "ing")
]
merges = [("t", "h"), ("w", "h"), ("i", "n"), ("in", "g"), ("th", "e"), ("e", "r"), ("er", "e")]
dataset = Texts(
    [" ".join(words[i * k % 27] for k in range(1, 9)) for i in range(300)], Tokenizer(merges)
)
