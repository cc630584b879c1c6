"""Commands that errors suggest."""

from __future__ import annotations

from pathlib import Path

import pytest

from tui_workbench.core.errors import ConfigurationError
from tui_workbench.core.model import ComputeTarget
from tui_workbench.targets.environments.environment import not_prepared
from tui_workbench.targets.gpu.framework_location import prepare_command, spec_of
from tui_workbench.targets.ssh.host_for import host_of


def test_names_with_spaces_are_quoted(tmp_path: Path) -> None:
    path = tmp_path / "aml_config" / "my box.compute"
    path.parent.mkdir()
    path.write_text("type: remotedocker\naddress: box\npassword: plain\n")
    target = ComputeTarget("my box", str(path), "remotedocker", address="box", password="plain")
    spec = spec_of(target)
    assert prepare_command(spec) == "workbench-tui experiment prepare -c 'my box'"
    assert "`workbench-tui experiment prepare -c 'my box'`" in not_prepared(spec, "changed").remedy
    with pytest.raises(ConfigurationError) as refused:
        host_of(target)
    assert "`workbench-tui computetarget login 'my box' --move-secrets`" in refused.value.remedy
