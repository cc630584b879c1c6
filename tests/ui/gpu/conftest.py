"""Fixtures with stand-in GPUs."""

from tests.gpu.standin import standin as standin
from tests.gpu.standin import standin_parts as standin_parts
from tests.targets.conftest import connections as connections
from tests.targets.conftest import gpubox as gpubox
from tests.targets.conftest import key as key
from tests.targets.conftest import keyring as keyring
