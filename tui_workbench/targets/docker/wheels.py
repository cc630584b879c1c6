"""Offline packages: resolve and download Python packages on this machine for a host that cannot reach the index.

Packages of the image are kept if the requirements allow it, as in an installation inside the image. Each downloaded
file is verified against the hash in the index, and stored under that hash.

The inputs of a build (the installer, wheels, archives of the project) are sent to the engine's host. Each is in
a folder named by its hash, so nothing is sent twice.
"""

from __future__ import annotations

import hashlib
import os
import platform
import posixpath
import re
import shutil
import stat
import subprocess
import sys
import tempfile
import threading
import tomllib
import urllib.parse
import zipfile
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

from tui_workbench.core.directories import user_cache_directory
from tui_workbench.core.errors import ConfigurationError, WorkbenchError, storage_error
from tui_workbench.core.files import open_file, read_file, replacing
from tui_workbench.core.plaintext import counted
from tui_workbench.core.processes import run
from tui_workbench.core.progress import Meter, meter
from tui_workbench.targets.docker.image_probe import ImageFacts
from tui_workbench.targets.environments.environment import Package, Recipe
from tui_workbench.targets.environments.uv import find_uv, index_environment, uv_version
from tui_workbench.targets.hosts.host import Entry, Host
from tui_workbench.targets.hosts.host_layout import HostLayout
from tui_workbench.targets.hosts.manifest import FileList
from tui_workbench.targets.hosts.sending import report_sending, sync
from tui_workbench.targets.values import Report

RESOLVE_SECONDS = 300.0  # timeout of the resolver, which may need minutes to backtrack through many versions
DOWNLOAD_SECONDS = 60.0  # seconds without data after which a download fails
DOWNLOADS_AT_ONCE = 8
KEY_LENGTH = 16  # hexadecimal digits of a file's hash in the name of its folder
_CHUNK = 1 << 20
_GLIBC = (17, 28, *range(31, 41))  # the versions 2.N of glibc that the resolver knows by name


class Wheel(NamedTuple):
    """A wheel to download."""

    name: str  # of the package
    file_name: str
    url: str
    sha256: str


def platform_of(facts: ImageFacts) -> str:
    """Return the resolver's name for the image's platform. Raises ConfigurationError for an unsupported machine."""
    architecture = facts.machine
    machine = {"amd64": "x86_64", "arm64": "aarch64"}.get(architecture, architecture)
    if machine not in ("x86_64", "aarch64"):
        raise ConfigurationError(
            f"the workbench cannot download packages for {architecture}, only for x86_64 and aarch64",
            remedy="Give the target access to the package index, or choose an image that contains the packages.",
        )
    library, version = facts.libc
    if library != "glibc":
        return f"{machine}-unknown-linux-musl"
    # Before Python 3.8, `libc_ver` may return a symbol version such as 2.2.5.
    minor = int(version.split(".")[1] if "." in version else 17)
    newest = max((number for number in _GLIBC if number <= minor), default=17)
    return f"{machine}-manylinux_2_{newest}"


def resolve(recipe: Recipe, facts: ImageFacts, environment: Mapping[str, str]) -> list[Wheel]:
    """Return the wheels that the recipe's pip packages need in addition to the packages of the image.

    Raises ConfigurationError with the resolver's message if it finds no solution or cannot reach the index.
    """
    with tempfile.TemporaryDirectory(prefix="workbench-") as folder:
        held = _write_stand_ins(facts, os.path.join(folder, "held"))
        # First pin the packages of the image. If no solution exists, allow changes, as pip does.
        pins = [f"{name}==={version}" for name, version in held.items()]
        try:
            text = _run_resolver(recipe, facts, folder, pins, environment)
        except ConfigurationError:
            text = _run_resolver(recipe, facts, folder, [], environment)
        wheels = _wheels_of(text, f"cp{''.join(facts.version.split('.')[:2])}")
        held_names = {_file_stem(name, version) for name, version in held.items()}
        return [wheel for wheel in wheels if "-".join(wheel.file_name.split("-")[:2]) not in held_names]


def fetch(wheels: Sequence[Wheel], folder: str, progress: Callable[[str], None]) -> list[str]:
    """Download the wheels that are not yet below `folder`, and return the paths of all wheels.

    Each wheel is in a subfolder that is named by its hash. Raises WorkbenchError if a download fails.
    """
    from concurrent.futures import ThreadPoolExecutor

    try:
        os.makedirs(folder, exist_ok=True)
    except OSError as error:
        raise storage_error("create", folder, error) from error
    with meter("fetching", "packages", len(wheels)) as fetching, ThreadPoolExecutor(DOWNLOADS_AT_ONCE) as pool:
        downloads = _Progress(fetching)
        return list(pool.map(lambda wheel: _fetch_one(wheel, folder, progress, downloads), wheels))


def foreign_uv(facts: ImageFacts, folder: str, environment: Mapping[str, str]) -> str:
    """Return the path of a uv for the platform of an image, downloaded below `folder`. Raises WorkbenchError."""
    version = uv_version()
    program = os.path.join(folder, f"uv-{version}-{platform_of(facts)}", "uv")
    if os.access(program, os.X_OK):
        return program
    recipe = Recipe("", pip=(Package(f"uv=={version}", 0),))
    wheels = os.path.join(folder, "wheels")
    path = fetch(resolve(recipe, facts._replace(packages=()), environment), wheels, lambda _: None)[0]
    os.makedirs(os.path.dirname(program), exist_ok=True)
    with zipfile.ZipFile(path) as archive:
        member = next(name for name in archive.namelist() if name.endswith("/scripts/uv"))
        with archive.open(member) as source, replacing(program, 0o755) as file:
            shutil.copyfileobj(source, file)
    return program


def _run_resolver(
    recipe: Recipe, facts: ImageFacts, folder: str, pins: Sequence[str], environment: Mapping[str, str]
) -> str:
    requirements, constraints = os.path.join(folder, "wanted.in"), os.path.join(folder, "held.txt")
    output = os.path.join(folder, "pylock.workbench.toml")
    _write(requirements, [package.file or package.text for package in recipe.pip])
    _write(constraints, pins)
    command = [
        find_uv(),
        *("pip", "compile", requirements, "--constraint", constraints, "--output-file", output),
        *("--python-version", facts.version, "--python-platform", platform_of(facts)),
        *("--only-binary", ":all:", "--no-header", "--quiet", "--color", "never", "--no-progress"),
        *("--find-links", os.path.join(folder, "held")),
        *recipe.options,
    ]
    try:
        done = run(
            command, folder=folder, environment=index_environment(environment), timeout=RESOLVE_SECONDS, log_start=True
        )
    except subprocess.TimeoutExpired as error:
        raise ConfigurationError(
            f"cannot resolve the packages within {RESOLVE_SECONDS:g} s",
            remedy="Pin the versions of more packages under `pip:`, or check the connection to the package index.",
            file=recipe.path,
        ) from error
    if done.returncode:
        text = done.stderr.decode(errors="replace")
        message = " ".join(line.strip() for line in text.strip().splitlines()[1:4]).rstrip(".")
        raise ConfigurationError(
            f"cannot resolve the packages for Python {facts.version} on {platform_of(facts)}: {message}",
            remedy="Correct the packages under `pip:`, or check the connection of this machine to the package index.",
            file=recipe.path,
            line=recipe.line_named_in(text),
        )
    return read_file(output).decode()


def _wheels_of(text: str, python_tag: str) -> list[Wheel]:
    """Return the best wheel of each package. The resolver lists only compatible wheels.

    Raises ConfigurationError for a package without a wheel.
    """
    wheels = []
    for package in tomllib.loads(text).get("packages", []):
        choices = package.get("wheels") or ([package["archive"]] if "archive" in package else [])
        if not choices:
            raise ConfigurationError(
                f"{package['name']} {package.get('version', '')} has no wheel, and building it needs the package index",
                remedy="Choose a version with a wheel, or give the target access to the package index.",
            )
        best = min(choices, key=lambda choice: _rank(_file_name(choice), python_tag))
        url = best.get("url") or f"file://{urllib.parse.quote(os.path.abspath(best['path']))}"
        wheels.append(Wheel(package["name"], _file_name(best), url, best["hashes"]["sha256"]))
    return wheels


def _rank(file_name: str, python_tag: str) -> int:
    """Rank a wheel: 0 for this Python version, 1 for the stable ABI, 2 for any Python; 3 for another file."""
    tags = file_name.split("-")[-3:]
    if len(tags) < 3:
        return 3
    if python_tag in tags[0]:
        return 0
    return 1 if "abi3" in tags[1] else 2


def _file_name(choice: dict[str, str]) -> str:
    return urllib.parse.unquote(os.path.basename(urllib.parse.urlsplit(choice.get("url") or choice["path"]).path))


class _Progress:
    """The progress of parallel downloads. `update` may be called from any thread."""

    def __init__(self, fetching: Meter) -> None:
        self._meter = fetching
        self._parts: dict[str, float] = {}
        self._lock = threading.Lock()

    def update(self, name: str, part: float) -> None:
        with self._lock:
            self._parts[name] = part
            self._meter.update(sum(self._parts.values()))


def _fetch_one(wheel: Wheel, folder: str, progress: Callable[[str], None], downloads: _Progress) -> str:
    from urllib.request import urlopen

    path = os.path.join(folder, wheel.sha256[:KEY_LENGTH], wheel.file_name)
    if os.path.exists(path) and _hash(path) == wheel.sha256:
        downloads.update(wheel.file_name, 1)
        return path
    digest = hashlib.sha256()
    try:
        os.makedirs(os.path.dirname(path), exist_ok=True)
        # The URL starts with file:// if the wheel is in a folder of --find-links.
        with urlopen(wheel.url, timeout=DOWNLOAD_SECONDS) as answer, replacing(path) as file:
            size = int(answer.headers.get("Content-Length") or 0)
            while chunk := answer.read(_CHUNK):
                digest.update(chunk)
                file.write(chunk)
                downloads.update(wheel.file_name, min(1.0, file.tell() / size) if size else 0.0)
            if digest.hexdigest() != wheel.sha256:
                remedy = "Try again. If the error persists, check the package index, and any proxy in front of it."
                raise WorkbenchError(
                    f"the downloaded {wheel.file_name} does not match its hash in the package index", remedy=remedy
                )
    except OSError as error:
        raise WorkbenchError(
            f"cannot download {wheel.file_name}: {error}",
            remedy="Check the connection to the package index, and the free space on this machine.",
        ) from error
    downloads.update(wheel.file_name, 1)
    progress(wheel.file_name)
    return path


def _hash(path: str) -> str:
    with open_file(path) as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _write(path: str, lines: Sequence[str]) -> None:
    with replacing(path) as file:
        file.writelines(f"{line}\n".encode() for line in lines)


def _write_stand_ins(facts: ImageFacts, folder: str) -> dict[str, str]:
    """Write empty wheels with the names, versions and requirements of the image's packages; return versions by name.

    The resolver thus knows the image's packages, including those that are in no index.
    """
    os.makedirs(folder, exist_ok=True)
    held = {}
    for name, version, requirements in facts.packages:
        stem = _file_stem(name, version)
        required = (f"Requires-Dist: {requirement}" for requirement in requirements)
        metadata = [f"Name: {name}", f"Version: {version}", *required]
        try:
            with zipfile.ZipFile(os.path.join(folder, f"{stem}-py3-none-any.whl"), "w") as archive:
                information = f"{stem}.dist-info"
                archive.writestr(f"{information}/METADATA", "\n".join(("Metadata-Version: 2.1", *metadata, "")))
                archive.writestr(
                    f"{information}/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
                )
                archive.writestr(f"{information}/RECORD", "")
        except (OSError, ValueError):
            continue  # no package requires a name that cannot be a file name
        held[name] = version
    return held


def _file_stem(name: str, version: str) -> str:
    return f"{re.sub(r'[-_.]+', '_', name).lower()}-{version.replace('-', '_')}"


class Stores:
    """The folders with inputs of builds on a host; on this machine they are in the user's cache.

    Methods raise ConfigurationError for packages or platforms that are not available, or another WorkbenchError.
    """

    def __init__(self, host: Host, report: Report) -> None:
        self._host = host
        self._report = report
        self._here = user_cache_directory()
        self._there = self._here if host.is_local else HostLayout(host.home()).offline_packages

    def uv(self, facts: ImageFacts) -> str:
        """Send a uv that runs in the image to the host, and return its folder there."""
        program = find_uv() if _runs_own_uv(facts) else ""
        if not program:
            program = foreign_uv(facts, os.path.join(self._here, "tools"), os.environ)
        name = f"uv-{uv_version()}-{platform_of(facts)}"
        return self._send(program, os.path.join("tools", name))

    def wheels(self, recipe: Recipe, facts: ImageFacts) -> tuple[str, ...]:
        self._report.line("resolving the packages")
        wheels = resolve(recipe, facts, os.environ)
        self._report.line(f"fetching {counted(len(wheels), 'wheel')}")
        store = os.path.join(self._here, "wheels")
        paths = fetch(wheels, store, lambda name: self._report.line(f"  {name}"))
        return tuple(
            self._send(path, os.path.join("wheels", os.path.basename(os.path.dirname(path)))) for path in paths
        )

    def project_files(self, recipe: Recipe) -> dict[str, str]:
        files = [package.file for package in recipe.pip if package.file]
        return {path: self._send(path, os.path.join("files", _hash(path)[:KEY_LENGTH])) for path in files}

    def _send(self, path: str, name: str) -> str:
        """Copy the file to the folder `name` of the host unless it is already there, and return the folder's path."""
        folder, base = os.path.join(self._here, name), os.path.basename(path)
        _copy(path, os.path.join(folder, base))
        if self._host.is_local:
            return folder
        destination = posixpath.join(self._there, name)
        size = os.stat(path).st_size
        entry = Entry(base, f"{size}-{os.path.basename(folder)}", size, executable=os.access(path, os.X_OK))
        with report_sending(self._report.line) as progress:
            sync(self._host, FileList.of([entry]), folder, destination, progress)
        return destination


def _copy(source: str, destination: str) -> None:
    if os.path.exists(destination):
        return
    os.makedirs(os.path.dirname(destination), exist_ok=True)
    mode = stat.S_IMODE(os.stat(source).st_mode)  # keeps the installer executable
    with open_file(source) as reading, replacing(destination, mode) as writing:
        shutil.copyfileobj(reading, writing)


def _runs_own_uv(facts: ImageFacts) -> bool:
    same_machine = sys.platform == "linux" and platform.machine() == facts.machine
    return same_machine and platform.libc_ver()[0] == "glibc" == facts.libc[0]
