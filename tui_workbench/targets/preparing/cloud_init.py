"""The cloud-init file that prepares a new machine at its first boot.

Cloud providers accept this file as "user data" or "custom data". Its format is described at
https://cloudinit.readthedocs.io/en/latest/reference/modules.html. The commands are those of `steps`. They run as root
in one shell script (the module runcmd); a step that fails does not prevent the next step.
"""

from __future__ import annotations

import base64
import binascii
import json
import os
import re
import textwrap

from tui_workbench.core.errors import UsageError
from tui_workbench.core.files import read_regular
from tui_workbench.targets.preparing.steps import PRELUDE, RESTART_NEEDED, Step, all_steps

LARGEST_KEY = 1 << 16
"""Maximum size in bytes of a file with a public key. The largest RSA keys need 3 KiB."""

_USER_NAME = re.compile(r"[a-z_][a-z0-9_-]{0,31}")  # adduser(8) and useradd(8)

_SYSTEM_USERS = frozenset((
    "root", "daemon", "bin", "sys", "sync", "games", "man", "lp", "mail", "news", "uucp", "proxy", "backup", "list",
    "irc", "nobody", "sshd", "messagebus",
))  # fmt: skip
"""Users of each Debian or Ubuntu image. cloud-init does not change a user that exists, and root cannot log in."""

# cloud-init creates the default user of an image first, and 1000 is the first user ID that Debian and Ubuntu assign.
_DEFAULT_USER = '"$(id -nu 1000)"'

_HEAD = """\
#cloud-config
# Prepares a GPU machine with Ubuntu or Debian for workbench-tui. Use it as the user data of a new machine.
# The output of the commands is in /var/log/cloud-init-output.log.
"""

_RESTART = f"""\
power_state:
  mode: reboot
  message: restarting to load the NVIDIA driver
  condition: "{RESTART_NEEDED}"
"""


def cloud_init(user: str = "", public_key: str = "") -> str:
    """Return the content of the cloud-init file.

    With `user`, the file creates this user, who gets the key. Otherwise, the default user of the image gets the key.
    Raises UsageError for an invalid user name.
    """
    if user and not _USER_NAME.fullmatch(user):
        raise UsageError(
            f"{user!r} is not a valid user name",
            remedy="Use at most 32 lowercase letters, digits, `_` and `-`, beginning with a letter or `_`.",
        )
    if user in _SYSTEM_USERS:
        raise UsageError(
            f"--username {user} is an account of the system, which cannot log in with the key",
            remedy="Use another name, or omit --username to log in as the default user of the image.",
        )
    steps = all_steps(user or _DEFAULT_USER)
    script = "export DEBIAN_FRONTEND=noninteractive\n. /etc/os-release\n" + PRELUDE + "".join(map(_part, steps))
    return f"{_HEAD}{_login(user, public_key)}runcmd:\n- |\n{textwrap.indent(script, '  ')}{_RESTART}"


def read_public_key(path: str) -> str:
    """Return the key in a file, in the format of OpenSSH. Raises UsageError for any other content."""
    try:
        text = read_regular(os.path.realpath(path), LARGEST_KEY).decode()
    except (OSError, ValueError) as error:
        reason = (error.strerror or str(error)).lower() if isinstance(error, OSError) else "not a text file"
        raise UsageError(
            f"cannot read the public key {path}: {reason}",
            remedy="Give the path of a public key, such as ~/.ssh/id_ed25519.pub.",
        ) from error
    if "PRIVATE KEY" in text or text.startswith("PuTTY-User-Key-File"):
        raise UsageError(
            f"{path} is a private key, which must not leave this machine",
            remedy=f"Give the public key, which is usually {path}.pub.",
        )
    line = text.strip()
    if not _is_public_key(line):
        raise UsageError(
            f"{path} is not a public key in the format of OpenSSH",
            remedy="Give a file with one line such as `ssh-ed25519 AAAA... name`. `ssh-keygen -i -f FILE` converts "
            "other formats.",
        )
    return line


def _is_public_key(line: str) -> bool:
    """Return True for a key type, a base64 value that begins with the same type, and an optional comment."""
    kind, _, rest = line.partition(" ")
    try:
        blob = base64.b64decode(rest.split(" ")[0], validate=True)
    except (binascii.Error, ValueError):
        return False
    prefix = len(kind).to_bytes(4, "big") + kind.encode()
    return line.isprintable() and bool(kind) and blob.startswith(prefix)


def _login(user: str, public_key: str) -> str:
    keys = f"ssh_authorized_keys:\n- {json.dumps(public_key, ensure_ascii=False)}\n" if public_key else ""
    if not user:
        return keys
    return f"users:\n- default\n- name: {user}\n  shell: /bin/bash\n{textwrap.indent(keys, '  ')}"


def _part(step: Step) -> str:
    conditions = [
        *([f'[ "$ID" = {step.distribution} ]'] if step.distribution else []),
        *(["has_gpu"] if step.needs_gpu else []),
        f"! {{ {step.check}; }} >/dev/null 2>&1",
    ]
    commands = textwrap.indent("\n".join(("set -e", *step.commands)), "    ")
    return f"\n# {step.name}\nif {' && '.join(conditions)}; then (\n{commands}\n) fi\n"
