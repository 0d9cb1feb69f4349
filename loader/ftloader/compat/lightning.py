"""Check for Lightning, which counts batches by a length that it asked
for before it loads a loader's state.
"""

import sys
from typing import Any


def check_lightning(length: int, before: int, whole: int) -> None:
    """Raise ``ValueError`` if Lightning is loading a checkpoint,
    and would train too few batches after it.

    Args:
        length: the epoch's number of batches, of which the checkpoint has trained some.
        before: the loader's length so far.
        whole: the length of later epochs.
    """
    trainer = _loading_trainer()
    if trainer is None or length == whole:
        return
    # FitLoop.setup_data() limits the epoch to the length that it has read before, and keeps the new
    # one for all later epochs unless it has to set up the loader again (Lightning 2.6.6).
    if length != before or trainer.reload_dataloaders_every_n_epochs != 1:
        raise ValueError(
            f"the epoch of this checkpoint has {length} batches with this number of ranks, and "
            f"later epochs have {whole}, but Lightning asks for len(loader) only once, before it "
            "loads the state: it would leave batches out. Let all ranks together load as many "
            "samples in a step as before (batch_size times the number of ranks), or load the state "
            "in train_dataloader() and set Trainer(reload_dataloaders_every_n_epochs=1): see "
            "Lightning in docs/libraries.md"
        )


def _loading_trainer() -> Any:
    """Return Lightning's Trainer if its fit loop is loading
    states into the loaders now, else None.
    """
    frame = sys._getframe()
    while frame is not None and frame.f_code.co_name != "_load_combined_loader_states":
        frame = frame.f_back  # type: ignore[assignment]
    if frame is None:
        return None
    return getattr(frame.f_locals.get("self"), "trainer", None)
