"""What is asked when a machine is attached: which fields, given what was said so far, and the request that they make.

The same questions as `computetarget attach` has options; no field is shown that would mean nothing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from tui_workbench.targets.attach import CPU_IMAGE, LOCAL_DOCKER, REMOTE, REMOTE_DOCKER, REMOTE_PYTHON, AttachRequest

if TYPE_CHECKING:
    from collections.abc import Mapping

KEYS, KEY_FILE, PASSWORD, WORKBENCH_KEY = "keys", "key file", "password", "workbench key"
"""Ways to log in."""

SECRET = "secret"

_TYPES = (
    (REMOTE_DOCKER, "Docker over SSH"),
    (REMOTE, "its own Python, over SSH"),
    (LOCAL_DOCKER, "Docker on this machine"),
)
_LOGINS = (
    (KEYS, "as ssh does: agent, keys, ~/.ssh/config"),
    (KEY_FILE, "with a key file"),
    (PASSWORD, "with a password"),
    (WORKBENCH_KEY, "with a key of the workbench's own"),
)
_GPUS = (("", "if it has one"), ("yes", "yes"), ("no", "no"))


class Field(NamedTuple):
    """One line to fill in: text, one of `choices` (value and words), or a secret, which is never shown."""

    key: str
    label: str
    hint: str = ""
    choices: tuple[tuple[str, str], ...] = ()
    is_secret: bool = False


def attach_fields(values: Mapping[str, str]) -> tuple[Field, ...]:
    """The fields, for what is chosen in them by now."""
    kind = values.get("type") or REMOTE_DOCKER
    fields = [Field("type", "Kind", choices=_TYPES), Field("name", "Name", "what to call it, as gpubox")]
    if kind != LOCAL_DOCKER:
        fields += [
            Field("address", "Address", "host, host:port, or an alias of ~/.ssh/config"),
            Field("username", "User", "as ssh would choose"),
            Field("login", "Login", choices=_LOGINS),
            *_login_fields(values.get("login") or KEYS),
        ]
    if kind == REMOTE:
        return (*fields, Field("python", "Python", REMOTE_PYTHON))
    image = Field("image", "Image", f"one that suits the machine; {CPU_IMAGE} without a GPU")
    return (*fields, Field("gpu", "Use the GPU", choices=_GPUS), image)


def request_of(values: Mapping[str, str]) -> AttachRequest:
    """What the fields ask for; fields that are not shown count as empty."""
    shown = {field.key: values.get(field.key, "").strip() for field in attach_fields(values)}
    login = shown.get("login") or KEYS
    return AttachRequest(
        type=shown["type"] or REMOTE_DOCKER,
        name=shown["name"],
        address=shown.get("address", ""),
        username=shown.get("username", ""),
        has_password=login == PASSWORD or (login == WORKBENCH_KEY and bool(values.get(SECRET))),
        private_key=shown.get("private_key", ""),
        workbench_key=login == WORKBENCH_KEY,
        image=shown.get("image", ""),
        gpu={"yes": True, "no": False}.get(shown.get("gpu", "")),
        python=shown.get("python", ""),
    )


def _login_fields(login: str) -> tuple[Field, ...]:
    if login == KEY_FILE:
        key = Field("private_key", "Key file", "~/.ssh/id_ed25519")
        return key, Field(SECRET, "Passphrase", "if the key has one", is_secret=True)
    if login == PASSWORD:
        return (Field(SECRET, "Password", "goes to the keyring", is_secret=True),)
    if login == WORKBENCH_KEY:
        return (Field(SECRET, "Password", "to install the key; empty: as ssh does", is_secret=True),)
    return ()
