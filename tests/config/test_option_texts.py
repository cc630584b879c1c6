"""Options of Slurm as a text."""

from __future__ import annotations

from typing import Any

import pytest

from tui_workbench.config.option_texts import options_of
from tui_workbench.core.errors import UsageError


@pytest.mark.parametrize(
    ("text", "options"),
    [
        ("gpus=2,time=2:00:00", {"gpus": 2, "time": "2:00:00"}),
        ("gpus=2, gpus=4", {"gpus": 4}),
        ("partition=gpu,long,qos=high", {"partition": "gpu,long", "qos": "high"}),
        ("constraint=", {"constraint": ""}),
        ('account="}#', {"account": '"}#'}),
        ("requeue=yes,nodes=3", {"requeue": True, "nodes": 3}),
        ("extra=--exclude=a,extra=--nice=5", {"extra": ("--exclude=a", "--nice=5")}),
    ],
)
def test_text_is_read_as_typed_options(text: str, options: dict[str, Any]) -> None:
    assert options_of(text) == options


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "expected KEY=VALUE"),
        ("gpus", "expected KEY=VALUE, not 'gpus'"),
        ("gpu=2", "Did you mean 'gpus'?"),
        ("colour=red", "Choose one of: partition, account"),
        ("gpus=two", "`Slurm.gpus` is 'two', expected a whole number"),
        ("time=4h", "`Slurm.time` is '4h'"),
        ("gpus=", "`Slurm.gpus`"),
        ("extra=--wrap=rm", "the workbench controls --wrap"),
        ("partition=a b", "text without spaces"),
    ],
)
def test_wrong_option_is_named(text: str, said: str) -> None:
    with pytest.raises(UsageError) as refused:
        options_of(text)
    assert said in str(refused.value)
