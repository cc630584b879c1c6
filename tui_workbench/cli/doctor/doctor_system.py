"""Check the operating system: the workbench is tested on Linux, and runs on Windows only in WSL 2."""

from __future__ import annotations

import os
import platform

from tui_workbench.cli.doctor.answer import Answer, broken, limited, ok

NAME = "system"


def system(release: platform.uname_result, project: str) -> Answer:
    """Check the system that `platform.uname` describes, and the location of the project folder.

    In WSL, the release of the kernel ends with `-Microsoft` in version 1, and contains `-microsoft-standard` in
    version 2. Windows drives are mounted below `/mnt`, each in a folder with one letter.
    """
    found = f"{release.system} {release.release}, {release.machine}"
    if release.system != "Linux":
        cost = "The workbench has been tested only on Linux, in part with Linux-only features disabled."
        return limited(
            NAME, found, cost, "If a command fails, report the error and the output of `workbench-tui doctor`."
        )
    if "microsoft" not in release.release.lower():
        return ok(NAME, found)
    if release.release.endswith("-Microsoft"):
        cost = "WSL 1 has no GPUs and no Docker, and its files behave differently."
        remedy = "Convert this distribution in a Windows terminal:"
        return broken(NAME, f"{found}: WSL 1", cost, remedy, f"wsl --set-version {_distribution()} 2")
    parts = os.path.realpath(project).split(os.sep)
    if parts[1:2] == ["mnt"] and len(parts) > 2 and len(parts[2]) == 1:
        cost = f"The project is on the Windows drive {parts[2].upper()}:, where reading and writing files is slow."
        return limited(NAME, f"{found}: WSL 2", cost, "Move the project to the Linux file system, such as ~/projects.")
    return ok(NAME, f"{found}: WSL 2")


def _distribution() -> str:
    return os.environ.get("WSL_DISTRO_NAME", "") or "Ubuntu"
