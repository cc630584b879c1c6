"""The `docker create` command for a container's configuration in the format of the Engine API, for the trace of calls.

Only settings that the workbench uses are converted.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any


def create_words(name: str, config: Mapping[str, Any]) -> tuple[str, ...]:
    """Return the words of the command after `docker`: `create --name NAME ... IMAGE COMMAND`."""
    host = config.get("HostConfig") or {}
    words = ["create", "--name", name, *_plain_options(config, host)]
    for variable in config.get("Env") or ():
        words += ["--env", variable]
    for label, value in (config.get("Labels") or {}).items():
        words += ["--label", f"{label}={value}"]
    for mount in host.get("Mounts") or ():
        words += ["--mount", mount_option(mount)]
    for request in host.get("DeviceRequests") or ():
        words += ["--gpus", _gpus(request)]
    return (*words, str(config.get("Image", "")), *(config.get("Entrypoint") or ())[1:], *(config.get("Cmd") or ()))


def _plain_options(config: Mapping[str, Any], host: Mapping[str, Any]) -> Iterator[str]:
    entrypoint = config.get("Entrypoint")
    if entrypoint is not None:
        # `--entrypoint` takes only the first word; the others precede the command.
        yield from ("--entrypoint", entrypoint[0] if entrypoint else "")
    for option, value in (
        ("--user", config.get("User")),
        ("--workdir", config.get("WorkingDir")),
        ("--network", "none" if config.get("NetworkDisabled") else host.get("NetworkMode")),
        ("--shm-size", host.get("ShmSize")),
        ("--ipc", host.get("IpcMode")),
        ("--runtime", host.get("Runtime")),
        ("--memory", host.get("Memory")),
    ):
        if value and value != "default":
            yield from (option, str(value))
    if host.get("Init"):
        yield "--init"
    log = host.get("LogConfig") or {}
    if log.get("Type"):
        yield from ("--log-driver", str(log["Type"]))
    for key, value in (log.get("Config") or {}).items():
        yield from ("--log-opt", f"{key}={value}")


def mount_option(mount: Mapping[str, Any]) -> str:
    """Return the value of `--mount` for a mount in the format of the Engine API."""
    parts = [
        f"type={mount.get('Type', 'bind')}",
        *([f"source={mount['Source']}"] if mount.get("Source") else []),
        f"target={mount.get('Target', '')}",
    ]
    if mount.get("ReadOnly"):
        parts.append("readonly")
    labels = (mount.get("VolumeOptions") or {}).get("Labels") or {}
    parts += [f"volume-label={label}={value}" for label, value in labels.items()]
    # Docker parses the option as CSV.
    return ",".join('"' + part.replace('"', '""') + '"' if "," in part or '"' in part else part for part in parts)


def device_option(ids: Iterable[str]) -> str:
    """Return the value of `--gpus` for the GPUs with these IDs."""
    # Docker parses the option as CSV, so a list of IDs must be one quoted cell.
    return f'"device={",".join(ids)}"'


def _gpus(request: Mapping[str, Any]) -> str:
    devices = request.get("DeviceIDs")
    if devices:
        return device_option(devices)
    return "all" if request.get("Count") == -1 else str(request.get("Count"))
