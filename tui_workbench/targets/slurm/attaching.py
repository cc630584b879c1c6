"""How a Slurm cluster is attached: over SSH to its login node, or with the commands of Slurm on this machine."""

from __future__ import annotations

from typing import Any

from tui_workbench.config.option_texts import typed_values
from tui_workbench.config.schema import fields as schema
from tui_workbench.targets.base.attaching import PYTHON, Address, AttachField, Attaching, Values, python_of

_RUN_ROOT = AttachField(
    "run_root",
    "Run folder",
    "--run-root",
    "folder that login and compute nodes share",
    metavar="FOLDER",
    hint="shared by all nodes; default: ~/.workbench-tui",
)
_PARTITION = AttachField(
    "partition",
    "Partition",
    "--partition",
    "Slurm partition for jobs (default: the cluster's default partition)",
    metavar="NAME",
    hint="default: the cluster's default partition",
)
_ACCOUNT = AttachField(
    "account",
    "Account",
    "--account",
    "Slurm account for jobs (default: your default account)",
    metavar="NAME",
    hint="default: your default account",
)


class SlurmAttaching(Attaching):
    """A cluster. Without the address of a login node, the target uses the commands of this machine."""

    label = "Slurm"
    address = Address.OPTIONAL
    address_hint = "login node; leave empty if Slurm is on this machine"
    machine = "the login node"
    service = "Slurm on this machine"
    fields = (PYTHON, _RUN_ROOT, _PARTITION, _ACCOUNT)
    options = (_RUN_ROOT, _PARTITION, _ACCOUNT, PYTHON)

    def check(self, values: Values) -> None:
        typed_values(schema.COMPUTE, self.compute(values))

    def compute(self, values: Values) -> dict[str, Any]:
        options = {field.key: values[field.key] for field in (_PARTITION, _ACCOUNT) if values.get(field.key)}
        keys: dict[str, Any] = {"pythonLocation": python_of(values), "runRoot": values.get(_RUN_ROOT.key, "")}
        return keys | ({"slurm": options} if options else {})
