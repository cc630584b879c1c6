"""The fields of the screen that attaches a machine, and the request that their values form.

The values of some fields determine which other fields are shown. The fields correspond to the options of
`computetarget attach`.
"""

from __future__ import annotations

from collections.abc import Mapping

from tui_workbench.targets.attaching.attach import (
    CLUSTER,
    CPU_IMAGE,
    LOCAL_DOCKER,
    REMOTE,
    REMOTE_DOCKER,
    REMOTE_PYTHON,
    SLURM,
    AttachRequest,
)
from tui_workbench.targets.hosts.host import SecretNeeded
from tui_workbench.ui.widgets.dialog import DialogField

KEYS, KEY_FILE, PASSWORD, WORKBENCH_KEY = "keys", "key file", "password", "workbench key"  # login methods
SECRET, ANSWER = "secret", "answer"

_TYPES = {
    REMOTE_DOCKER: "Docker over SSH",
    REMOTE: "Python over SSH",
    SLURM: "Slurm",
    CLUSTER: "Spark over SSH",
    LOCAL_DOCKER: "Docker on this machine",
}
_LOGINS = {
    KEYS: "SSH defaults: agent, keys, ~/.ssh/config",
    KEY_FILE: "with a key file",
    PASSWORD: "with a password",
    WORKBENCH_KEY: "with the workbench's key",
}
_SLURM_FIELDS = (
    DialogField("run_root", "Run folder", hint="shared by all nodes; default: ~/.workbench-tui"),
    DialogField("partition", "Partition", hint="default: the cluster's default partition"),
    DialogField("account", "Account", hint="default: your default account"),
)
_GPUS = {"": "if available", "yes": "yes", "no": "no"}


def attach_fields(values: Mapping[str, str]) -> tuple[DialogField, ...]:
    """Return the fields to show for these values."""
    kind = values.get("type") or REMOTE_DOCKER
    fields = [DialogField("type", "Type", choices=_TYPES), DialogField("name", "Name", hint="e.g. gpubox")]
    if kind != LOCAL_DOCKER:
        hint = "host, host:port, or a host from ~/.ssh/config"
        local = "login node; leave empty if Slurm is on this machine"
        fields.append(DialogField("address", "Address", hint=local if kind == SLURM else hint))
    if kind != LOCAL_DOCKER and (kind != SLURM or values.get("address", "").strip()):
        fields += [
            DialogField("username", "User", hint="default: your SSH user"),
            DialogField("login", "Login", choices=_LOGINS),
            *_login_fields(values.get("login") or KEYS),
        ]
    if kind in (REMOTE, CLUSTER):
        return (*fields, DialogField("python", "Python", hint=REMOTE_PYTHON))
    if kind == SLURM:
        return (*fields, DialogField("python", "Python", hint=REMOTE_PYTHON), *_SLURM_FIELDS)
    image = DialogField("image", "Image", hint=f"default: {CPU_IMAGE}, or a CUDA image for a GPU")
    return (*fields, DialogField("gpu", "Use the GPU", choices=_GPUS), image)


def answer_field(needed: SecretNeeded) -> DialogField:
    """Return the field for a missing secret, or for the answer to a question of the server."""
    if needed.is_question:
        return DialogField(ANSWER, "Answer", hint=needed.prompt, is_secret=not needed.is_visible)
    return DialogField(SECRET, "Secret", hint=needed.prompt, is_secret=True)


def request_of(values: Mapping[str, str]) -> AttachRequest:
    """Return the request for these values. Values of hidden fields are ignored."""
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
        run_root=shown.get("run_root", ""),
        partition=shown.get("partition", ""),
        account=shown.get("account", ""),
    )


def _login_fields(login: str) -> tuple[DialogField, ...]:
    if login == KEY_FILE:
        key = DialogField("private_key", "Key file", hint="~/.ssh/id_ed25519")
        return key, DialogField(SECRET, "Passphrase", hint="if the key has one", is_secret=True)
    if login == PASSWORD:
        return (DialogField(SECRET, "Password", hint="saved in the keyring, if any", is_secret=True),)
    if login == WORKBENCH_KEY:
        hint = "to install the key; if empty, SSH defaults are used"
        return (DialogField(SECRET, "Password", hint=hint, is_secret=True),)
    return ()
