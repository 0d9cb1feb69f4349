"""Finding, checking and generating images."""

from __future__ import annotations

import subprocess
import sys

import pytest
from PIL import Image

from bench import images, synthesis
