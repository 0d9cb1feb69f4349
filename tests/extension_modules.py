"""Extension modules of C, compiled for this Python."""

import shutil
import subprocess
import sysconfig

import pytest


def compiler():
    """The compiler that built this Python, or the machine's; None if the machine has none."""
    names = [(sysconfig.get_config_var("CC") or "").partition(" ")[0], "cc", "gcc", "clang"]
    return next(filter(None, map(shutil.which, filter(None, names))), None)


def compiled(source, library, *flags):
    """Compile *source* into the file *library* and return it;
    skip the test where this cannot be done.
    """
    if compiler() is None:
        pytest.skip("no C compiler to build an extension module with")
    file = library.with_suffix(".c")
    file.write_text(source)
    include = f"-I{sysconfig.get_path('include')}"
    built = subprocess.run(
        [compiler(), "-shared", "-fPIC", "-O1", include, *flags, file, "-o", library],
        capture_output=True,
    )
    if b"Python.h" in built.stderr:
        pytest.skip("this Python has no headers")
    assert built.returncode == 0, built.stderr
    return library
