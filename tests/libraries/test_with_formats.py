"""The audit of a dataset that holds objects of libraries which read files.
The twins have none of the libraries:

`./twins exec gil python tests/libraries/run.py formats` installs them and runs this file.
"""

import pytest

from ftsafety.audit import audit
from tests.libraries import with_formats
from tests.unit.safety.holder import Holds, objects_of

pytestmark = pytest.mark.slow

NAMES = [name for name in vars(with_formats) if name.startswith("of_")]


@pytest.mark.parametrize("name", NAMES)
def test_an_audit_of_a_dataset_that_holds_objects_of_a_library(tmp_path, name):
    objects = getattr(with_formats, name)(tmp_path)
    classes = sum(objects_of([name.removeprefix("of_")]).values(), [])
    report = audit(
        Holds({"objects": objects, "classes": classes}), samples=1000, threads=2, seconds=0.2
    )
    assert report.tried
    assert not {finding.kind for finding in report.findings} & {"exception", "hang", "crash"}, str(
        report
    )
