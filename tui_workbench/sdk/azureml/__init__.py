"""The Python API of Azure ML Workbench, based on `workbench`. An installed azureml package takes precedence.

If a package or namespace azureml is installed, importing this package loads the installed one. Only missing modules
come from this folder, such as `azureml.logging`, which no available version of azureml contains.
"""

import importlib.machinery
import importlib.util
import os
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import List  # noqa: F401  (in comments)


def _step_aside() -> "None":
    own_folder = os.path.dirname(os.path.abspath(__file__))
    ours = os.path.realpath(os.path.dirname(own_folder))
    rest = [entry for entry in sys.path if os.path.realpath(entry or os.curdir) != ours]
    spec = importlib.machinery.PathFinder.find_spec(__name__, rest)
    if spec is None or spec.submodule_search_locations is None:
        return
    locations = list(spec.submodule_search_locations)  # type: List[str]
    if spec.origin in (None, "namespace"):
        __path__[:] = [*locations, own_folder]
        return
    real = importlib.util.module_from_spec(spec)
    sys.modules[__name__] = real
    if spec.loader is not None:
        spec.loader.exec_module(real)
    real.__path__.append(own_folder)


_step_aside()
