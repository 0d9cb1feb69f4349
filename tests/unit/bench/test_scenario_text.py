"""`text`: pieces of a vocabulary by the longest match, and the same texts for everybody."""

import json
import pickle

import pytest
import torch

from ftbench.scenarios.text import DOCUMENTS, LENGTH, LONGEST, SCENARIO, UNKNOWN, Texts


@pytest.fixture(scope="module")
def texts() -> Texts:
    return Texts()


def test_every_trial_has_the_same_texts(texts):
    other = pickle.loads(pickle.dumps(Texts()))
    assert len(texts) == len(other) == DOCUMENTS
    for index in (0, 17, DOCUMENTS - 1):
        mine, theirs = texts[index], other[index]
        assert all(
            torch.equal(mine[name], theirs[name]) for name in ("input_ids", "attention_mask")
        )
    assert not torch.equal(texts[0]["input_ids"], texts[1]["input_ids"])


def test_tokens_spell_the_text_by_the_longest_match(texts):
    pieces = {number: piece for piece, number in texts._ids.items()}
    for index in range(20):
        sample = texts[index]
        ids, mask = sample["input_ids"], sample["attention_mask"]
        assert ids.shape == mask.shape == (LENGTH,) and ids.dtype == mask.dtype == torch.int64
        used = int(mask.sum())
        assert mask[:used].all() and not ids[used:].any() and UNKNOWN not in ids[:used]
        spelt = [pieces[int(number)] for number in ids[:used]]
        expected = []
        for word in json.loads(texts._lines[index])["text"].split():
            while word:
                longest = next(word[:n] for n in range(LONGEST, 0, -1) if word[:n] in texts._ids)
                expected.append(longest)
                word = word[len(longest) :]
        assert spelt == expected[:LENGTH]


def test_a_letter_of_no_piece_is_unknown(texts):
    other = Texts()
    other._lines[0] = json.dumps({"id": 0, "text": "Zeta"})
    ids = other[0]["input_ids"]
    assert ids[0] == UNKNOWN and ids[1] > UNKNOWN  # in lower case, z is of no piece


def test_a_sample_has_the_bytes_that_batches_are_sized_by(texts):
    assert sum(value.nbytes for value in texts[0].values()) == SCENARIO.sample_bytes
