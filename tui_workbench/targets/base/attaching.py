"""How a target type is attached: its fields, and what they write into the files of a new target.

The form, the command `computetarget attach` and the files are made from these descriptions. The name, the login and
the secrets are the same for all types, so a description does not contain them. A type of another package has its
description in the attribute `attaching` of its class.

This module and the descriptions of the built-in types load no library.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from enum import Enum
from types import MappingProxyType
from typing import Any, NamedTuple

from tui_workbench.targets.hosts.host import Host

Values = Mapping[str, str]
"""The user's values, by the key of their field. A value that was not given is "" or missing."""

YES, NO = "yes", "no"


class AttachField(NamedTuple):
    """A field of the form, and an option of the command.

    A question, which has the values YES and NO, has two options: `option`, and the same with the prefix `no-`.
    """

    key: str
    label: str
    option: str  # such as `--run-root`; the same option of several types has the same meaning
    help: str  # of the option; `{types}` stands for the types that have it
    metavar: str = ""
    hint: str = ""  # in the empty field of the form
    choices: Mapping[str, str] = MappingProxyType({})  # labels by value, if not every text is a value
    help_of_no: str = ""  # of the second option of a question

    @property
    def is_question(self) -> bool:
        return bool(self.help_of_no)

    @property
    def option_of_no(self) -> str:
        """The option with which a question is answered by NO."""
        return f"--no-{self.option.removeprefix('--')}"


class Address(Enum):
    """Whether a target has the address of a machine. With an address, it has a login."""

    NEEDED = "needed"
    OPTIONAL = "optional"
    NONE = "none"


class Attaching:
    """How a type is attached. Subclasses replace what differs. The values of a call are those of `fields`."""

    label: str = ""
    """The type in the list of the form, such as `Docker over SSH`."""

    explanation: str = ""
    """The words in parentheses after the name of the type in the help of the command; "" if the name is clear."""

    address: Address = Address.NEEDED
    address_hint: str = "host, host:port, or a host from ~/.ssh/config"

    machine: str = "its machine"
    """The machine that has the address, in `a remote target needs the address of its machine`."""

    service: str = "this machine"
    """What a target without an address uses instead, such as `Slurm on this machine`."""

    fields: Sequence[AttachField] = ()
    """The fields of the type, in the order of the form."""

    options: Sequence[AttachField] = ()
    """The same fields in the order of the command's help; empty for the order of the form."""

    def shown(self, values: Values) -> Sequence[AttachField]:
        """Return the fields that the form shows for these values. The values of the others are ignored."""
        return self.fields

    def check(self, values: Values) -> None:
        """Raise UsageError for an invalid value. Contacts no machine."""

    def complete(self, values: Values, host: Host) -> Values:
        """Return the values, with those that depend on the machine. The login has succeeded.

        Raises TargetUnreachable.
        """
        return values

    def compute(self, values: Values) -> dict[str, Any]:
        """Return the keys of the `.compute` file, in addition to the type and the login. Keys with "" are omitted."""
        return {}

    def run_configuration(self, project_root: str) -> dict[str, Any]:
        """Return the keys of the `.runconfig` file that differ from those of a script in plain Python."""
        return {}

    def has_login(self, address: str) -> bool:
        """Return True if a target with this address, which can be "", is reached over SSH."""
        return self.address is Address.NEEDED or (self.address is Address.OPTIONAL and bool(address))

    @property
    def in_help(self) -> Sequence[AttachField]:
        """The fields in the order of the command's help."""
        return self.options or self.fields


DEFAULT_PYTHON = "python3"
PYTHON = AttachField(
    "python",
    "Python",
    "--python",
    "the Python interpreter on the machine (sets pythonLocation; only for types {types})",
    metavar="PATH",
    hint=DEFAULT_PYTHON,
)
"""The interpreter that executes the scripts of a target."""


def python_of(values: Values) -> str:
    """Return the value of PYTHON, or its default."""
    return values.get(PYTHON.key) or DEFAULT_PYTHON
