"""Private names of torch: imported in one module, which reports the ones that are missing."""

import ast
from pathlib import Path

import pytest

import ftloader

PACKAGE = Path(ftloader.__file__).parent


def private_names(source):
    """Yield the private names of torch, dotted, that *source* imports or looks up."""
    for node in ast.walk(ast.parse(source)):
        names = []
        if isinstance(node, ast.ImportFrom) and node.module:
            names = [f"{node.module}.{alias.name}" for alias in node.names]
        elif isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.Attribute) and "(" not in ast.unparse(node):
            names = [ast.unparse(node)]
        for name in names:
            first, *rest = name.split(".")
            if first == "torch" and any(
                part.startswith("_") and not part.endswith("__") for part in rest
            ):
                yield name


def test_private_names_are_found():
    source = (
        "import torch._utils\nfrom torch.utils.data.dataloader import _DatasetKind\n"
        "torch._C.x()\ntorch.__file__"
    )
    found = ["torch._utils", "torch.utils.data.dataloader._DatasetKind", "torch._C", "torch._C.x"]
    assert sorted(private_names(source)) == sorted(found)


def test_only_one_module_uses_private_names():
    using = [file.name for file in PACKAGE.rglob("*.py") if any(private_names(file.read_text()))]
    assert using == ["torch_private.py"]


@pytest.mark.slow
def test_a_torch_that_lacks_a_name_is_refused_with_a_remedy(run_with_torch):
    status, _, err = run_with_torch("del torch.utils.data.dataloader._DatasetKind\nimport ftloader")
    assert status == 1
    assert "does not know torch" in err and "_DatasetKind" in err and "2.10.0" in err
