"""Synonyms of a corpus that becomes another class when it is first used, as NLTK's lazy loader:
halfway in threads.
"""

import torch
from torch.utils.data import Dataset


class Corpus:
    def __init__(self, words):
        self.lines = {word: f"{word} {word}s {word}ing" for word in words}

    def synonyms(self, word):
        return self.lines[word].split()


class LazyCorpus:
    """Loads the corpus at the first access to an attribute, and then is the corpus."""

    def __init__(self, words):
        self._words = words

    def __getattr__(self, name):
        if name.startswith("__"):
            raise AttributeError(name)
        corpus = Corpus(self._words)
        self.__dict__ = corpus.__dict__
        self.__class__ = corpus.__class__
        return getattr(self, name)


class Synonyms(Dataset):
    def __init__(self, words):
        self.words = words
        self.corpus = LazyCorpus(words)

    def __len__(self):
        return len(self.words)

    def __getitem__(self, index):
        names = self.corpus.synonyms(self.words[index])
        return torch.tensor([len(name) for name in names]), names[-1]


def dataset():
    return Synonyms([f"word{number}" for number in range(300)])
