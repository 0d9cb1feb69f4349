"""What extension modules declare about the GIL, read from their files."""

import random
import struct
import sysconfig
from pathlib import Path

import pytest

from ftrun.errors import NotReadable
from ftrun.wheels import gil_slot
from ftrun.wheels.gil_slot import Gil
from tests.extension_modules import compiled

pytestmark = pytest.mark.thread_unsafe(reason="starts a compiler")

SLOTS = """
#include <Python.h>
static int execute(PyObject *module) {{ return 0; }}
static PyModuleDef_Slot slots[] = {{ {{Py_mod_exec, execute}}, {slots} {{0, NULL}} }};
static struct PyModuleDef module = {{PyModuleDef_HEAD_INIT, "sample", NULL, 0, NULL, slots}};
PyMODINIT_FUNC PyInit_sample(void) {{ return PyModuleDef_Init(&module); }}
"""
ONE_PHASE = """
#include <Python.h>
extern int PyUnstable_Module_SetGIL(PyObject *, void *);
static const char framework[] = "{framework}";
static struct PyModuleDef module = {{PyModuleDef_HEAD_INIT, "sample", framework, -1, NULL}};
PyMODINIT_FUNC PyInit_sample(void) {{ PyObject *m = PyModule_Create(&module); {call} return m; }}
"""
SET = "PyUnstable_Module_SetGIL(m, (void *)1);"
OTHER = """
static PyModuleDef_Slot more[] = { {Py_mod_exec, execute}, {Py_mod_gil, Py_MOD_GIL_NOT_USED}, {0, NULL} };
struct PyModuleDef other = {PyModuleDef_HEAD_INIT, "other", NULL, 0, NULL, more};
"""
INTERPRETERS = "{Py_mod_multiple_interpreters, Py_MOD_MULTIPLE_INTERPRETERS_NOT_SUPPORTED},"


@pytest.mark.parametrize(
    ("source", "declared"),
    [
        (SLOTS.format(slots="{Py_mod_gil, Py_MOD_GIL_NOT_USED},"), Gil.NOT_USED),
        (SLOTS.format(slots=INTERPRETERS + "{Py_mod_gil, Py_MOD_GIL_NOT_USED},"), Gil.NOT_USED),
        (SLOTS.format(slots="{Py_mod_gil, Py_MOD_GIL_USED},"), Gil.USED),
        (SLOTS.format(slots=INTERPRETERS), Gil.USED),
        (SLOTS.format(slots=""), Gil.UNKNOWN),  # other data may look like one slot
        (SLOTS.format(slots=INTERPRETERS) + OTHER, Gil.UNKNOWN),  # two arrays that disagree
        # more slots elsewhere
        (SLOTS.replace("Py_mod_exec", "85").format(slots="{109, execute},"), Gil.UNKNOWN),
        # The numbers of CPython 3.15 (PEP 820).
        (
            SLOTS.replace("Py_mod_exec", "85").format(slots="{87, Py_MOD_GIL_NOT_USED},"),
            Gil.NOT_USED,
        ),
        (
            SLOTS.replace("Py_mod_exec", "85").format(
                slots="{109, execute}, {87, Py_MOD_GIL_USED},"
            ),
            Gil.USED,
        ),
        (ONE_PHASE.format(framework="", call=SET), Gil.NOT_USED),
        (ONE_PHASE.format(framework="", call=""), Gil.USED),
        (ONE_PHASE.format(framework="pybind11", call=SET), Gil.UNKNOWN),
        (ONE_PHASE.format(framework="pyo3_runtime.PanicException", call=SET), Gil.UNKNOWN),
        # The hook of CPython 3.15 (PEP 793).
        (
            (
                "void *PyModule_NewObject(void); void *PyModExport_sample(void) { return "
                "PyModule_NewObject(); }"
            ),
            Gil.UNKNOWN,
        ),
        # as torch._C does
        ("void *make(void); void *PyInit_sample(void) { return make(); }", Gil.UNKNOWN),
        ("int answer(void) { return 42; }", Gil.NO_MODULE),
    ],
)
@pytest.mark.slow
def test_declared(source, declared, tmp_path):
    assert gil_slot.read(compiled(source, tmp_path / "sample.so").read_bytes()) is declared


@pytest.mark.parametrize("packed", [True, False], ids=["packed", "plain"])
@pytest.mark.slow
def test_relocations(packed, tmp_path):
    flags = "-Wl,-z,pack-relative-relocs" if packed else "-Wl,-z,nopack-relative-relocs"
    source = SLOTS.format(slots="{Py_mod_gil, Py_MOD_GIL_NOT_USED},")
    assert (
        gil_slot.read(compiled(source, tmp_path / "sample.so", flags).read_bytes()) is Gil.NOT_USED
    )


def test_the_modules_of_this_environment_agree_with_an_import(twin):
    """The interpreter's own judgement is in `python -m ftrun.info --verify`,
    which an image build ends with.
    """
    import numpy
    import PIL

    suffix = sysconfig.get_config_var("EXT_SUFFIX")
    files = [
        file
        for package in (numpy, PIL)
        for file in Path(package.__file__).parent.rglob(f"*{suffix}")
    ]
    assert len(files) > 10
    if twin == "ft":  # the wheels for the GIL build declare it too, mostly
        assert {gil_slot.read(file.read_bytes()) for file in files} == {Gil.NOT_USED}


def library(*sections):
    """An ELF file of sections, each of (type, flags, address, offset, size)."""
    data = bytearray(1 << 20)
    data[:6] = b"\x7fELF\x02\x01"
    struct.pack_into("<H", data, 18, 62)
    struct.pack_into("<Q", data, 40, 4096)
    struct.pack_into("<HH", data, 58, 64, len(sections))
    for i, (type_, flags, address, offset, size) in enumerate(sections):
        struct.pack_into(
            "<IIQQQQIIQQ", data, 4096 + 64 * i, 0, type_, flags, address, offset, size, 0, 0, 0, 0
        )
    return data


@pytest.mark.slow
def test_a_file_cannot_take_more_time_than_its_size_allows(monkeypatch):
    same = (4, 0, 0, 8192, 1 << 19)  # relocations, a thousand times the same
    with pytest.raises(NotReadable, match="larger than the file"):
        gil_slot.read(bytes(library(*[same] * 1000)))
    many = library(
        (1, 2, 0, 8192, (1 << 20) - 8192), (19, 0, 0, 8192, (1 << 20) - 8192)
    )  # packed: 63 pointers in 8 bytes
    many[8192:] = b"\xff" * (len(many) - 8192)
    with pytest.raises(NotReadable, match="too many pointers"):
        gil_slot.read(bytes(many))
    with pytest.raises(NotReadable, match="too many sections"):
        # each pointer is looked for in each of them
        gil_slot.read(bytes(library(*[(1, 2, 0, 8192, 8)] * 1000)))
    monkeypatch.setattr(gil_slot, "_MOST_POINTERS", 1000)
    many = library((4, 0, 0, 8192, 24 * 2000))
    for place in range(2000):
        struct.pack_into("<QQq", many, 8192 + 24 * place, place, 8, 0)
    with pytest.raises(NotReadable, match="too many pointers"):
        gil_slot.read(bytes(many))


def test_damaged_files_are_not_readable_or_judged_at_once():
    import numpy

    chance = random.Random(1)
    modules = (Path(numpy.__file__).parent / "_core").glob("*.so")
    whole = bytearray(min(modules, key=lambda file: file.stat().st_size).read_bytes())
    for _ in range(300):
        damaged = bytearray(whole)
        for _ in range(chance.choice((1, 8, 200))):
            damaged[chance.randrange(64 if chance.random() < 0.5 else len(damaged))] = (
                chance.randrange(256)
            )
        try:
            assert (
                gil_slot.read(
                    bytes(damaged[: chance.choice((len(damaged), chance.randrange(len(damaged))))])
                )
                in Gil
            )
        except NotReadable:
            pass


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"MZ",
        b"\x7fELF",
        b"\x7fELF\x01\x01" + bytes(60),
        b"\x7fELF\x02\x01" + bytes(12) + struct.pack("<H", 8) + bytes(60),
    ],
)
def test_other_files(data):
    with pytest.raises(NotReadable):
        gil_slot.read(data)
