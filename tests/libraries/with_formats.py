# /// script
# dependencies = ["h5py", "zarr", "pyarrow", "pandas", "soundfile"]
# ///
"""Objects of libraries that read files: h5py, zarr, pyarrow, pandas, soundfile."""

import numpy as np
import pytest


def of_h5py(folder):
    h5py = pytest.importorskip("h5py")
    file = h5py.File(folder / "a.h5", "w")
    file["x"] = np.arange(12)
    group = file.create_group("group")
    group.attrs["unit"] = "mm"
    return [file, file["x"], group, group.attrs, h5py.Empty("f")]


def of_zarr(folder):
    zarr = pytest.importorskip("zarr")
    group = zarr.open_group(folder / "a.zarr", mode="w")
    array = group.create_array("x", shape=(12,), chunks=(4,), dtype="i4")
    array[:] = np.arange(12)
    return [group, array, array.attrs, array.store]


def of_pyarrow(folder):
    pyarrow = pytest.importorskip("pyarrow")
    parquet = pytest.importorskip("pyarrow.parquet")
    table = pyarrow.table({"x": [1, 2, 3], "y": ["a", "b", None]})
    parquet.write_table(table, folder / "a.parquet")
    pieces = [
        table,
        table["x"],
        table.schema,
        table.to_batches()[0],
        pyarrow.array([1])[0],
        pyarrow.array([[1], None]),
    ]
    return [
        *pieces,
        parquet.ParquetFile(folder / "a.parquet"),
        pyarrow.memory_map(str(folder / "a.parquet")),
    ]


def of_pandas(folder):
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame(
        {"x": [1.0, 2.0], "y": ["a", "b"], "when": pandas.to_datetime(["2020-01-01", "2020-01-02"])}
    )
    return [
        frame,
        frame["x"],
        frame.index,
        frame.groupby("y"),
        frame.iloc,
        frame["y"].astype("category"),
        pandas.NA,
    ]


def of_soundfile(folder):
    soundfile = pytest.importorskip("soundfile")
    soundfile.write(folder / "a.wav", np.zeros(800), 8000)
    return [soundfile.SoundFile(folder / "a.wav"), soundfile.info(folder / "a.wav")]
