"""The stand-in GPUs, for every test of this folder."""

from tests.gpu.standin import standin as standin
from tests.gpu.standin import standin_parts as standin_parts
