"""Wheels of the package index whose truth is known.

Those for 3.13t were imported by ``./twins info --requirements ... --import``, which named the same.
Those for 3.14t are what their projects say of themselves.
"""

import pytest
from packaging.requirements import Requirement

from ftrun.wheels.index import Index
from ftrun.wheels.judge import Answer, judge
from ftrun.wheels.package import Package

KNOWN = [
    ("pandas==2.2.3", "3.13t", Answer.ON),
    ("numpy==2.4.6", "3.13t", Answer.OFF),
    ("pyzmq==26.2.0", "3.13t", Answer.OFF),
    ("ijson==3.4.0", "3.13t", Answer.OFF),
    ("regex==2026.5.9", "3.13t", Answer.OFF),
    ("tiktoken==0.13.0", "3.13t", Answer.OFF),
    ("cryptography==47.0.0", "3.14t", Answer.OFF),
    ("tokenizers==0.23.3", "3.14t", Answer.OFF),
    ("pytz==2026.6", "3.13t", Answer.PURE),
    ("safetensors==0.8.0", "3.13t", Answer.SOURCE),
    # Modules that tell only as they start: the first leaves the GIL off, the second turns it on.
    ("blake3==1.0.8", "3.13t", Answer.UNKNOWN),
    ("torchaudio==2.9.1", "3.13t", Answer.UNKNOWN),
]


@pytest.mark.parametrize(
    ("requirement", "series", "answer"), KNOWN, ids=[each[0] for each in KNOWN]
)
def test_known_wheels(requirement, series, answer):
    report = judge(Package(Requirement(requirement)), Index(), (series,))
    assert not report.error, report.error
    assert report.findings[series].answer is answer
