"""The fields to attach a machine, and the request that they form."""

from __future__ import annotations

import pytest

from tui_workbench.targets.attaching.attach import AttachRequest
from tui_workbench.ui.machines.machine_fields import (
    KEY_FILE,
    PASSWORD,
    SECRET,
    WORKBENCH_KEY,
    AttachForm,
)


def keys(**values: str) -> list[str]:
    return [field.key for field in AttachForm().fields(values)]


def test_fields_depend_on_kind_and_login() -> None:
    assert keys() == ["type", "name", "address", "username", "login", "type:gpu", "type:image"]
    assert keys(type="remote") == ["type", "name", "address", "username", "login", "type:python"]
    assert keys(type="localdocker") == ["type", "name", "type:gpu", "type:image"]
    cluster = ["type:python", "type:run_root", "type:partition", "type:account"]
    assert keys(type="slurm") == ["type", "name", "address", *cluster]
    assert keys(type="slurm", address="h") == ["type", "name", "address", "username", "login", *cluster]
    assert keys(login=KEY_FILE)[5:7] == ["private_key", SECRET]
    assert keys(login=PASSWORD)[5] == SECRET
    assert keys(login=WORKBENCH_KEY)[5] == SECRET


def test_secret_fields_are_marked() -> None:
    for login in (KEY_FILE, PASSWORD, WORKBENCH_KEY):
        assert [field.key for field in AttachForm().fields({"login": login}) if field.is_secret] == [SECRET]


@pytest.mark.parametrize(
    ("values", "request_"),
    [
        ({"name": " box ", "address": "h"}, AttachRequest("remotedocker", "box", "h")),
        (
            {"name": "box", "address": "h", "username": "u", "login": PASSWORD, SECRET: " x "},
            AttachRequest("remotedocker", "box", "h", "u", has_password=True),
        ),
        (
            {"name": "box", "address": "h", "login": KEY_FILE, "private_key": "~/k", "type:gpu": "no"},
            AttachRequest("remotedocker", "box", "h", private_key="~/k", values={"gpu": "no"}),
        ),
        (
            {"name": "box", "address": "h", "login": WORKBENCH_KEY, "type": "remote", "type:python": "python3.12"},
            AttachRequest("remote", "box", "h", workbench_key=True, values={"python": "python3.12"}),
        ),
        (
            {"name": "box", "address": "h", "login": WORKBENCH_KEY, SECRET: "x"},
            AttachRequest("remotedocker", "box", "h", workbench_key=True, has_password=True),
        ),
        (
            {
                "name": "hpc",
                "type": "slurm",
                "type:run_root": " /scratch/wb ",
                "type:partition": "gpu",
                "type:account": "lab",
            },
            AttachRequest("slurm", "hpc", values={"run_root": "/scratch/wb", "partition": "gpu", "account": "lab"}),
        ),
        ({"name": "hpc", "type": "slurm", "username": "u", "login": PASSWORD}, AttachRequest("slurm", "hpc")),
        # Values of hidden fields are ignored.
        (
            {"name": "box", "type": "localdocker", "address": "h", "login": PASSWORD, SECRET: "x", "type:gpu": "yes"},
            AttachRequest("localdocker", "box", values={"gpu": "yes"}),
        ),
    ],
)
def test_values_form_a_request(values: dict[str, str], request_: AttachRequest) -> None:
    assert AttachForm().request(values) == request_
