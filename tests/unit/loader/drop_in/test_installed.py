"""``install()`` and ``uninstall()``: this package's class in the place of torch's."""

import abc
import copy
import inspect
import pickle

import pytest
import torch
import torch.utils.data
from torch.utils.data import IterableDataset
from torch.utils.data.dataloader import DataLoader as Torchs

import ftloader
from ftloader.drop_in.installed import DropInSettings
from tests.datasets import Rows, Stream

pytestmark = pytest.mark.thread_unsafe(reason="replaces a class of torch")


@pytest.fixture(autouse=True)
def _put_back():
    yield
    ftloader.uninstall()


def in_place():
    from torch.utils.data import DataLoader
    from torch.utils.data.dataloader import DataLoader as same

    assert DataLoader is same is torch.utils.data.DataLoader
    return DataLoader


def test_names_bound_afterwards_are_ours_until_uninstall():
    assert in_place() is Torchs
    ftloader.uninstall()  # nothing to do
    ftloader.install()
    ours = in_place()
    assert issubclass(ours, ftloader.DataLoader)
    assert list(inspect.signature(ours).parameters) == list(
        inspect.signature(ftloader.DataLoader).parameters
    )
    loader = ours(Rows(8), 4, True, num_workers=1, worker_method="thread")
    assert sum(map(len, loader)) == 8 and loader.statistics().worker_method == "thread"
    assert isinstance(pickle.loads(pickle.dumps(loader)), ours)
    assert type(copy.copy(loader)) is ours and ours[int] is not None
    ftloader.uninstall()
    assert in_place() is Torchs
    assert len(list(loader)) == 2


def test_loaders_of_either_class_are_instances_of_either():
    before = Torchs(range(4))
    ftloader.install()
    ours = in_place()
    for loader in before, ours(range(4)), ftloader.DataLoader(range(4)):
        assert isinstance(loader, Torchs) and isinstance(loader, ours)
    assert not isinstance(before, ftloader.DataLoader) and not isinstance("loader", ours)
    assert issubclass(Torchs, ours) and not issubclass(str, ours)

    class Named(ours, abc.ABC):
        """A library's loader, made afterwards."""

        def __init__(self, *args, **options):
            super().__init__(*args, **options)

    assert isinstance(Named(range(4)), (Named, ftloader.DataLoader))
    assert not isinstance(before, Named) and not issubclass(ours, Named)
    assert torch.cat(list(Named(range(4)))).tolist() == [0, 1, 2, 3]


def test_settings_replace_what_the_program_says():
    ftloader.install(workers=2, worker_method="thread", copy_dataset=True)
    ours = in_place()
    for loader in (
        ours(range(4), num_workers=5, worker_method="process"),
        ours(range(4), 1, None, None, None, 0),
    ):
        assert (loader.num_workers, loader.worker_method) == (2, "thread") and loader.copy_dataset
    assert isinstance(ours(Stream(4)), IterableDataset) is False
    assert ours(Stream(4), num_workers=3).num_workers == 3
    ftloader.install(workers=0)
    loader = ours(range(4), num_workers=2, prefetch_factor=4, persistent_workers=True, timeout=5)
    assert torch.cat(list(loader)).tolist() == [0, 1, 2, 3] and loader.num_workers == 0
    ftloader.install()
    assert ours(range(4), num_workers=3).num_workers == 3
    with pytest.raises(TypeError, match="multiple values for argument 'batch_size'"):
        ours(range(4), 1, batch_size=2)


@pytest.mark.parametrize(
    ("setting", "error", "words"),
    [
        ({"workers": -1}, ValueError, '"auto" or a number from 0'),
        ({"workers": True}, ValueError, "got True"),
        ({"workers": "many"}, ValueError, "got 'many'"),
        ({"worker_method": "fiber"}, ValueError, "'auto', 'thread', 'process'"),
        ({"copy_dataset": 1}, TypeError, "must be True or False"),
    ],
)
def test_settings_are_checked_before_anything_is_replaced(setting, error, words):
    with pytest.raises(error, match=words):
        ftloader.install(**setting)
    assert in_place() is Torchs


def test_running_iterators_are_refused_with_a_remedy():
    loader = ftloader.DataLoader(
        range(8), num_workers=1, worker_method="thread", persistent_workers=True
    )
    running = iter(loader)
    for function in ftloader.install, ftloader.uninstall:
        next(running)
        if function is ftloader.uninstall:
            del loader, running
            ftloader.install()
            loader = in_place()(range(8), num_workers=1, worker_method="thread")
            running = iter(loader)
        with pytest.raises(RuntimeError, match=rf"{function.__name__}\(\) must not .* \(1 with"):
            function()
    del running


def test_another_class_in_the_place_is_neither_replaced_nor_removed(monkeypatch):
    class Theirs(Torchs):
        pass

    monkeypatch.setattr(torch.utils.data, "DataLoader", Theirs)
    with pytest.raises(RuntimeError, match=r"would replace .*Theirs.* undo that first"):
        ftloader.install()
    monkeypatch.undo()
    ftloader.install()
    torch.utils.data.DataLoader = Theirs
    ftloader.uninstall()
    assert (
        torch.utils.data.DataLoader is Theirs and torch.utils.data.dataloader.DataLoader is Torchs
    )
    torch.utils.data.DataLoader = Torchs


@pytest.mark.slow
def test_torchdatas_loader_keeps_its_own_iterators(run_with_torch):
    pytest.importorskip("torchdata")
    status, out, err = run_with_torch("""
        import ftloader
        ftloader.install(worker_method="thread")
        import torch.utils.data
        from torchdata.stateful_dataloader import StatefulDataLoader
        loader = StatefulDataLoader(range(8), batch_size=4, num_workers=0)
        assert isinstance(loader, torch.utils.data.DataLoader)
        assert not isinstance(loader, ftloader.DataLoader)
        batches = iter(loader)
        next(batches)
        state = loader.state_dict()
        loader.load_state_dict(state)
        print([batch.tolist() for batch in loader])
    """)
    assert (status, out) == (0, "[[4, 5, 6, 7]]\n"), err


def test_settings_leave_iterable_datasets_their_number():
    settings = DropInSettings(workers=4, worker_method="thread")
    assert settings.arguments(Stream(4)) == {"worker_method": "thread"}
    assert settings.arguments(range(4)) == {"worker_method": "thread", "num_workers": 4}
