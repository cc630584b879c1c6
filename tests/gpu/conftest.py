"""Stand-in GPUs for the tests of this folder."""

from tests.gpu.standin import standin as standin
from tests.gpu.standin import standin_parts as standin_parts
from tests.targets.conftest import connections as connections
from tests.targets.conftest import gpubox as gpubox
from tests.targets.conftest import key as key
from tests.targets.conftest import ssh_folder as ssh_folder
from tests.targets.docker_fixtures import engine as engine
from tests.targets.docker_fixtures import localdocker_harness as localdocker_harness
from tests.targets.docker_fixtures import session_engine as session_engine
