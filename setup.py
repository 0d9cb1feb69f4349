"""The version of ft-env, and the ftloader that it needs. Both are those of loader/ftloader."""

import re
from pathlib import Path

from setuptools import setup

source = (Path(__file__).parent / "loader" / "ftloader" / "__init__.py").read_text("utf-8")
(version,) = re.findall(r'^__version__ = "(.+)"$', source, re.MULTILINE)
setup(
    version=version,
    install_requires=[f"ftloader=={version}", "packaging", "psutil", "requests", "rich"],
)
