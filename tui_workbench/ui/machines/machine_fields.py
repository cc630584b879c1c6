"""The form that attaches a machine: its fields, and the request that their values form.

The types describe their own fields; the fields of a login are the same for all types. The values of some fields
determine which other fields are shown. The fields correspond to the options of `computetarget attach`.
"""

from __future__ import annotations

from collections.abc import Mapping

from tui_workbench.targets.attaching.attach import AttachRequest
from tui_workbench.targets.attaching.attachable import attachable_types
from tui_workbench.targets.base.attaching import Address
from tui_workbench.targets.hosts.host import SecretNeeded
from tui_workbench.ui.widgets.dialog import DialogField

KEYS, KEY_FILE, PASSWORD, WORKBENCH_KEY = "keys", "key file", "password", "workbench key"  # login methods
SECRET, ANSWER = "secret", "answer"

_LOGINS = {
    KEYS: "SSH defaults: agent, keys, ~/.ssh/config",
    KEY_FILE: "with a key file",
    PASSWORD: "with a password",
    WORKBENCH_KEY: "with the workbench's key",
}
_OF_TYPE = "type:"
"""The prefix of the keys of a type's fields, which another package chooses."""


class AttachForm:
    """The form for the target types that can be attached. The values of its calls are those of its fields, by key."""

    def __init__(self) -> None:
        self._types = attachable_types()

    def fields(self, values: Mapping[str, str]) -> tuple[DialogField, ...]:
        """Return the fields to show for these values."""
        described = self._types[self._type(values)]
        labels = {name: each.label or name for name, each in self._types.items()}
        fields = [DialogField("type", "Type", choices=labels), DialogField("name", "Name", hint="e.g. gpubox")]
        if described.address is not Address.NONE:
            fields.append(DialogField("address", "Address", hint=described.address_hint))
        if described.has_login(values.get("address", "").strip()):
            fields += [
                DialogField("username", "User", hint="default: your SSH user"),
                DialogField("login", "Login", choices=_LOGINS),
                *_login_fields(values.get("login") or KEYS),
            ]
        own = described.shown(_values_of_type(values))
        fields += [DialogField(_OF_TYPE + each.key, each.label, hint=each.hint, choices=each.choices) for each in own]
        return tuple(fields)

    def request(self, values: Mapping[str, str]) -> AttachRequest:
        """Return the request for these values. Values of hidden fields are ignored."""
        shown = {
            field.key: values.get(field.key, "").strip() or next(iter(field.choices), "")
            for field in self.fields(values)
        }
        login = shown.get("login", KEYS)
        return AttachRequest(
            type=shown["type"],
            name=shown["name"],
            address=shown.get("address", ""),
            username=shown.get("username", ""),
            has_password=login == PASSWORD or (login == WORKBENCH_KEY and bool(values.get(SECRET))),
            private_key=shown.get("private_key", ""),
            workbench_key=login == WORKBENCH_KEY,
            values={key: value for key, value in _values_of_type(shown).items() if value},
        )

    def _type(self, values: Mapping[str, str]) -> str:
        return values.get("type") or next(iter(self._types))


def answer_field(needed: SecretNeeded) -> DialogField:
    """Return the field for a missing secret, or for the answer to a question of the server."""
    if needed.is_question:
        return DialogField(ANSWER, "Answer", hint=needed.prompt, is_secret=not needed.is_visible)
    return DialogField(SECRET, "Secret", hint=needed.prompt, is_secret=True)


def _values_of_type(values: Mapping[str, str]) -> dict[str, str]:
    return {key.removeprefix(_OF_TYPE): value for key, value in values.items() if key.startswith(_OF_TYPE)}


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
