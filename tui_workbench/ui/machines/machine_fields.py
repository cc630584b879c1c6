"""What is asked when a machine is attached: which fields, given what was said so far, and the request that they make.

The same questions as `computetarget attach` has options; no field is shown that would mean nothing.
"""

from __future__ import annotations

from collections.abc import Mapping

from tui_workbench.targets.base.attach import (
    CPU_IMAGE,
    LOCAL_DOCKER,
    REMOTE,
    REMOTE_DOCKER,
    REMOTE_PYTHON,
    AttachRequest,
)
from tui_workbench.ui.widgets.dialog_view import DialogField

KEYS, KEY_FILE, PASSWORD, WORKBENCH_KEY = "keys", "key file", "password", "workbench key"
"""Ways to log in."""

SECRET = "secret"

_TYPES = {
    REMOTE_DOCKER: "Docker over SSH",
    REMOTE: "its own Python, over SSH",
    LOCAL_DOCKER: "Docker on this machine",
}
_LOGINS = {
    KEYS: "as ssh does: agent, keys, ~/.ssh/config",
    KEY_FILE: "with a key file",
    PASSWORD: "with a password",
    WORKBENCH_KEY: "with a key of the workbench's own",
}
_GPUS = {"": "if it has one", "yes": "yes", "no": "no"}


def attach_fields(values: Mapping[str, str]) -> tuple[DialogField, ...]:
    """The fields, for what is chosen in them by now."""
    kind = values.get("type") or REMOTE_DOCKER
    fields = [
        DialogField("type", "Kind", choices=_TYPES),
        DialogField("name", "Name", hint="what to call it, as gpubox"),
    ]
    if kind != LOCAL_DOCKER:
        fields += [
            DialogField("address", "Address", hint="host, host:port, or an alias of ~/.ssh/config"),
            DialogField("username", "User", hint="as ssh would choose"),
            DialogField("login", "Login", choices=_LOGINS),
            *_login_fields(values.get("login") or KEYS),
        ]
    if kind == REMOTE:
        return (*fields, DialogField("python", "Python", hint=REMOTE_PYTHON))
    image = DialogField("image", "Image", hint=f"one that suits the machine; {CPU_IMAGE} without a GPU")
    return (*fields, DialogField("gpu", "Use the GPU", choices=_GPUS), image)


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


def _login_fields(login: str) -> tuple[DialogField, ...]:
    if login == KEY_FILE:
        key = DialogField("private_key", "Key file", hint="~/.ssh/id_ed25519")
        return key, DialogField(SECRET, "Passphrase", hint="if the key has one", is_secret=True)
    if login == PASSWORD:
        return (DialogField(SECRET, "Password", hint="goes to the keyring", is_secret=True),)
    if login == WORKBENCH_KEY:
        return (DialogField(SECRET, "Password", hint="to install the key; empty: as ssh does", is_secret=True),)
    return ()
