"""DistributedSampler under torchrun with two ranks: shards are disjoint, complete, torch's, and follow the epoch."""

import json

import pytest

pytestmark = [pytest.mark.timeout(500), pytest.mark.thread_unsafe(reason="one torchrun for all tests")]
SIZE = 101
METHODS = ["serial", "thread", "persistent", "process"]


@pytest.fixture(scope="module")
def answers(torchrun, tmp_path_factory):
    """{"method shuffle drop_last": [rank][epoch] -> indices in their order}"""
    path = tmp_path_factory.mktemp("ranks") / "answers.json"
    torchrun("two_ranks.py", path)
    return json.loads(path.read_text())


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("arguments", ["True False", "True True", "False False"])
def test_each_rank_gets_what_torchs_loader_gives(answers, method, arguments):
    assert answers[f"{method} {arguments}"] == answers[f"torch {arguments}"]


@pytest.mark.parametrize("method", METHODS)
def test_shards_are_disjoint_and_complete(answers, method):
    for epoch in range(3):
        shards = [rank[epoch] for rank in answers[f"{method} True False"]]
        assert [len(shard) for shard in shards] == [51, 51]
        assert set(shards[0]) | set(shards[1]) == set(range(SIZE))
        assert len(set(shards[0]) & set(shards[1])) <= 1  # the one that makes them equally long
        shards = [rank[epoch] for rank in answers[f"{method} True True"]]
        assert len({*shards[0], *shards[1]}) == 100


@pytest.mark.parametrize("method", METHODS)
def test_each_epoch_is_shuffled_in_another_way(answers, method):
    for rank in answers[f"{method} True False"]:
        assert rank[0] != rank[1] != rank[2]
    for rank in answers[f"{method} False False"]:
        assert rank[0] == rank[1] == rank[2]
