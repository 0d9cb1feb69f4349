# /// script
# dependencies = ["lightning==2.6.6"]
# ///
"""Lightning: the Trainer and Fabric, which rebuild loaders
with other samplers from their arguments.
"""

import warnings

import lightning
import torch
from lightning.fabric import Fabric
from lightning.pytorch.utilities import CombinedLoader
from torch.utils.data import DataLoader, Dataset

warnings.filterwarnings("ignore", ".*does not have many workers.*")


class Rows(Dataset):
    def __len__(self):
        return 48

    def __getitem__(self, index):
        return torch.full((3,), float(index)), torch.tensor([float(index % 5)])


class Model(lightning.LightningModule):
    def __init__(self):
        super().__init__()
        self.layer = torch.nn.Linear(3, 1)
        self.seen = []

    def training_step(self, batch, number):
        # Drawn in the training loop: workers must not disturb it.
        noise = torch.rand(())
        self.seen.append(["train", batch[0][:, 0].tolist(), noise.item()])
        return torch.nn.functional.mse_loss(self.layer(batch[0] / 48), batch[1]) + 0 * noise

    def validation_step(self, batch, number):
        self.seen.append(["validate", batch[0][:, 0].tolist()])

    def predict_step(self, batch, number):
        return batch[0][:, 0]

    def configure_optimizers(self):
        return torch.optim.SGD(self.parameters(), 0.01)


def trainer(folder, **options):
    return lightning.Trainer(
        accelerator="cpu",
        logger=False,
        enable_progress_bar=False,
        enable_model_summary=False,
        default_root_dir=folder,
        **{"enable_checkpointing": False, "num_sanity_val_steps": 1, **options},
    )


def loader(**options):
    return DataLoader(Rows(), batch_size=8, num_workers=2, **options)


def program_fit(folder):
    lightning.seed_everything(7, workers=True)
    model = Model()
    training = loader(shuffle=True, persistent_workers=True)
    trainer(folder, max_epochs=3).fit(model, training, loader())
    return model.seen + [model.layer.weight.tolist()]


def program_stop_and_go_on(folder):
    lightning.seed_everything(8, workers=True)
    first = trainer(folder, max_epochs=1, enable_checkpointing=True)
    first.fit(Model(), loader(shuffle=True))
    first.save_checkpoint(folder / "after.ckpt")
    model = Model()
    trainer(folder, max_epochs=2).fit(model, loader(shuffle=True), ckpt_path=folder / "after.ckpt")
    return model.seen + [model.layer.weight.tolist()]


def program_limited_batches(folder):
    lightning.seed_everything(9, workers=True)
    model = Model()
    trainer(folder, max_epochs=3, limit_train_batches=2, overfit_batches=0).fit(
        model, loader(shuffle=True)
    )
    return model.seen


def program_predict(folder):
    # The Trainer rebuilds this loader with a batch sampler of its own.
    return [batch.tolist() for batch in trainer(folder).predict(Model(), loader(shuffle=False))]


def program_combined_loader(folder):
    combined = CombinedLoader(
        {"a": loader(), "b": DataLoader(Rows(), batch_size=6, num_workers=2)}, "max_size_cycle"
    )
    return [{key: batch[key][0][:, 0].tolist() for key in batch} for batch, _, _ in combined]


def program_fabric(folder):
    fabric = Fabric(accelerator="cpu", devices=1)
    fabric.seed_everything(10, workers=True)
    ready = fabric.setup_dataloaders(loader(shuffle=True))
    return [[batch[0][:, 0].tolist() for batch in ready] for _ in range(2)]
