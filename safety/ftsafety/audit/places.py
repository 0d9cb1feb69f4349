"""Lines of code that findings name."""

import dis
import sys
import types
from typing import Any

import torch

from ftloader.diagnosis.lookups import is_a
from ftsafety.audit.monitoring import Codes
from ftsafety.audit.report import SourceLine


def line_naming(codes: Codes, attribute: str) -> SourceLine | None:
    """Return the first line in the functions *codes* that reads *attribute*, or None.

    ``__init__`` is searched last.
    """
    for code in sorted(codes, key=_search_order):
        for instruction in dis.get_instructions(code):
            is_read = instruction.opname.startswith("LOAD_ATTR")
            if is_read and instruction.argval == attribute:
                return SourceLine(code.co_filename, instruction.line_number or 0)
    return None


def _search_order(code: types.CodeType) -> tuple[bool, str, int]:
    return code.co_name == "__init__", code.co_filename, code.co_firstlineno


def definition(dataset: Any) -> SourceLine:
    """Return the line where *dataset* defines ``__getitem__`` or ``__iter__``.

    For findings that name no other line.
    """
    methods = ["__getitems__", "__getitem__"]
    if is_a(dataset, torch.utils.data.IterableDataset):
        methods = ["__iter__"]
    torch_file = sys.modules["torch.utils.data.dataset"].__file__
    for name in methods:
        method = getattr(type(dataset), name, None)
        code = getattr(method, "__code__", None)
        if code is not None and code.co_filename != torch_file:
            return SourceLine(code.co_filename, code.co_firstlineno)
    module = sys.modules.get(type(dataset).__module__)
    file = getattr(module, "__file__", None)
    return SourceLine(file or f"<{type(dataset).__qualname__}>", 1)
