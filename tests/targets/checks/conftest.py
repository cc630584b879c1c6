"""The stand-in GPUs, for every test of this folder."""

from tests.gpu.standin import standin as standin
from tests.gpu.standin import standin_parts as standin_parts
from tests.gpu.standin_amd import amd as amd
