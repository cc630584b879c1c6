"""The system packages that runs need, and the commands that install them on Ubuntu and Debian.

Each command is a line for the shell of root. The commands follow the instructions of:

- Ubuntu for the driver: https://documentation.ubuntu.com/server/how-to/graphics/install-nvidia-drivers/
- NVIDIA for the driver on Debian: https://docs.nvidia.com/datacenter/tesla/driver-installation-guide/ (compute-only
  system, open kernel modules, which support Turing and newer GPUs)
- Docker: https://docs.docker.com/engine/install/ and https://docs.docker.com/engine/install/linux-postinstall/
- NVIDIA for the container toolkit:
  https://docs.nvidia.com/datacenter/cloud-native/container-toolkit/latest/install-guide.html
"""

from __future__ import annotations

from typing import NamedTuple

from tui_workbench.core.shell_scripts import shell_script
from tui_workbench.core.target_types import TargetType

UBUNTU, DEBIAN = "ubuntu", "debian"

OLDEST = {UBUNTU: 22, DEBIAN: 12}
"""The oldest supported major version of each distribution (VERSION_ID in /etc/os-release)."""

PRELUDE = shell_script("targets/preparing/scripts/has_gpu.sh")
"""The beginning of a shell script with the checks of steps."""

RESTART_NEEDED = "command -v nvidia-smi && ! nvidia-smi -L"
"""A shell condition: the driver is installed, but does not work, as before the first restart."""

REMOVE_REFUSED = "Packages need to be removed but remove is disabled"
"""The error of apt-get with the option --no-remove, if LC_ALL is C."""


class Step(NamedTuple):
    """A requirement of runs, and the commands that meet it.

    `check` is a shell condition that is true if the requirement is met.
    """

    name: str
    present: str
    missing: str
    check: str
    commands: tuple[str, ...]
    needs_gpu: bool = False  # only for machines with an NVIDIA GPU
    distribution: str = ""  # only for this distribution; "" for all
    warning: str = ""


# On a new machine, automatic updates often hold the locks of apt and dpkg for some minutes. `apt-get update` has no
# option to wait for its lock, so it is tried every 10 seconds for 5 minutes. The last attempt gives the exit code.
_UPDATE = "(for i in $(seq 30); do apt-get update && exit; sleep 10; done; apt-get update)"

# An installed package may conflict with a new one, as containerd does with Docker's containerd.io. Other programs may
# need it, so it is not removed.
_INSTALL = "apt-get -o DPkg::Lock::Timeout=300 install -y --no-remove"

_PYTHON = Step(
    "python",
    "Python can create virtual environments",
    "Python or its module venv is missing",
    "python3 -c 'import venv, ensurepip'",
    (_UPDATE, f"{_INSTALL} python3 python3-venv"),
)

_DRIVER = Step(
    "nvidia driver",
    "the NVIDIA driver is installed",
    "the NVIDIA driver is not installed (nvidia-smi not found)",
    "command -v nvidia-smi",
    (),
    needs_gpu=True,
)

# A file with the same options, for the apt-get that ubuntu-drivers runs.
_APT_CONFIG = "/run/workbench-tui-apt.conf"

# The module cannot be loaded while another driver uses the GPU. Then the machine must be restarted.
_LOAD = "modprobe nvidia || true"

_KEYRING = "cuda-keyring_1.1-1_all.deb"
_REPOSITORY = (
    'https://developer.download.nvidia.com/compute/cuda/repos/$(. /etc/os-release && echo "$ID$VERSION_ID")/'
    "$(uname -m | sed s/aarch64/sbsa/)"
)

_DRIVERS = (
    _DRIVER._replace(
        distribution=UBUNTU,
        commands=(
            _UPDATE,
            f"{_INSTALL} ubuntu-drivers-common",
            f"echo 'DPkg::Lock::Timeout 300; APT::Get::Remove false;' > {_APT_CONFIG}",
            f"APT_CONFIG={_APT_CONFIG} ubuntu-drivers install --gpgpu",
            # The package with nvidia-smi has the suffix of the driver, such as -580-server. After a failed download,
            # ubuntu-drivers exits with code 0.
            "utils=$(dpkg-query -W -f '${db:Status-Abbrev}${Package}\\n' 'libnvidia-compute*' | "
            "sed -n 's/^ii *libnvidia-compute/nvidia-utils/p'); "
            f"{_INSTALL} ${{utils:?ubuntu-drivers has installed no driver}}",
            _LOAD,
        ),
    ),
    _DRIVER._replace(
        distribution=DEBIAN,
        commands=(
            _UPDATE,
            f"{_INSTALL} ca-certificates curl linux-headers-$(uname -r)",
            f'curl -fsSL "{_REPOSITORY}/{_KEYRING}" -o /var/cache/apt/archives/{_KEYRING}',
            f"{_INSTALL} /var/cache/apt/archives/{_KEYRING}",
            _UPDATE,
            f"{_INSTALL} nvidia-driver-cuda nvidia-kernel-open-dkms",
            _LOAD,
        ),
    ),
)

_DOCKER_KEY, _TOOLKIT_KEY = "/etc/apt/keyrings/docker.asc", "/etc/apt/keyrings/nvidia-container-toolkit.asc"

_DOCKER = (
    Step(
        "docker",
        "Docker Engine is installed",
        "Docker Engine is not installed",
        "command -v dockerd",
        (
            _UPDATE,
            f"{_INSTALL} ca-certificates curl",
            "install -m 0755 -d /etc/apt/keyrings",
            f'curl -fsSL "https://download.docker.com/linux/$(. /etc/os-release && echo "$ID")/gpg" -o {_DOCKER_KEY}',
            f"chmod a+r {_DOCKER_KEY}",
            f'echo "deb [arch=$(dpkg --print-architecture) signed-by={_DOCKER_KEY}] https://download.docker.com/linux/'
            '$(. /etc/os-release && echo "$ID $VERSION_CODENAME") stable" > /etc/apt/sources.list.d/docker.list',
            _UPDATE,
            f"{_INSTALL} docker-ce docker-ce-cli containerd.io docker-buildx-plugin docker-compose-plugin",
        ),
    ),
    Step(
        "docker service",
        "the engine is running",
        "the engine is not running",
        "[ -S /run/docker.sock ]",
        ("systemctl enable --now docker",),
    ),
)

_TOOLKIT = Step(
    "nvidia toolkit",
    "the NVIDIA Container Toolkit is installed",
    "the NVIDIA Container Toolkit is not installed",
    "command -v nvidia-ctk || command -v nvidia-container-toolkit || command -v nvidia-container-runtime-hook",
    (
        _UPDATE,
        f"{_INSTALL} ca-certificates curl",
        "install -m 0755 -d /etc/apt/keyrings",
        # Without the pipes of NVIDIA's instructions, which hide a failed download from the shell.
        f"curl -fsSL https://nvidia.github.io/libnvidia-container/gpgkey -o {_TOOLKIT_KEY}",
        f"chmod a+r {_TOOLKIT_KEY}",
        f"echo 'deb [signed-by={_TOOLKIT_KEY}] https://nvidia.github.io/libnvidia-container/stable/deb/$(ARCH) /' "
        "> /etc/apt/sources.list.d/nvidia-container-toolkit.list",
        _UPDATE,
        f"{_INSTALL} nvidia-container-toolkit",
    ),
    needs_gpu=True,
)

RUNTIME, GROUP = "nvidia runtime", "docker group"

# If the user cannot ask the engine, the time of its configuration file is compared with the time of its start.
_RUNTIME = Step(
    RUNTIME,
    "the engine is configured for the NVIDIA Container Toolkit",
    "the engine is not configured for the NVIDIA Container Toolkit, or was not restarted since",
    "if docker version; then docker info --format '{{.Runtimes}}' | grep nvidia; else "
    "grep nvidia /etc/docker/daemon.json && [ /run/docker.pid -nt /etc/docker/daemon.json ]; fi",
    ("nvidia-ctk runtime configure --runtime=docker", "systemctl restart docker"),
    needs_gpu=True,
    warning="The last command restarts Docker, which ends all running containers.",
)

ENGINE_STEPS = frozenset(("docker", "docker service", GROUP))
"""The steps that are unnecessary if the user can use an engine. This engine may be rootless."""


def _group(user: str) -> Step:
    return Step(
        GROUP,
        f"the user {user} is in the group docker",
        f"the user {user} is not in the group docker",
        f"id -nG {user} | tr ' ' '\\n' | grep -x docker",
        (f"usermod -aG docker {user}",),
    )


def all_steps(user: str) -> tuple[Step, ...]:
    """Return all steps in their order. `user` is a word of a shell command: the user who submits runs.

    The group is last, because it has an effect only after the next login.
    """
    return (_PYTHON, *_DRIVERS, *_DOCKER, _TOOLKIT, _RUNTIME, _group(user))


def steps_of(kind: TargetType, distribution: str, user: str) -> tuple[Step, ...]:
    """Return the steps for targets of this type on a distribution."""
    python = (_PYTHON,) if kind.uses_interpreter else ()
    docker = (*_DOCKER, _TOOLKIT, _RUNTIME, _group(user)) if kind.runs_in_container else ()
    return (*python, *(step for step in _DRIVERS if step.distribution == distribution), *docker)
