"""Values in the answers of an engine: each has the type that the workbench expects, or the call fails."""

from __future__ import annotations

import contextlib
import itertools
import json
from collections.abc import Iterator
from typing import Any

import pytest

from tests.targets.docker.test_engine import CALLS, answer, refusal, server
from tui_workbench.core.errors import WorkbenchError
from tui_workbench.core.json_values import read_as
from tui_workbench.targets.docker.engine import Engine, EngineRefused

VALID: dict[str, Any] = {
    "facts": {"SecurityOptions": ["name=rootless"], "Runtimes": {"runc": {}}, "DockerRootDir": "/d", "OSType": "linux"},
    "image": {
        "Id": "i", "Architecture": "amd64", "RepoTags": ["x:1"],
        "Config": {"Labels": {"a": "b"}, "Env": ["A=1"], "Cmd": ["sh"], "Entrypoint": ["sh"], "User": "u"},
    },
    "container": {
        "Id": "c", "Name": "/n", "Image": "i", "Config": {"Labels": {"a": "b"}},
        "State": {"Status": "exited", "ExitCode": 1, "OOMKilled": True, "Error": "e", "StartedAt": "s"},
        "NetworkSettings": {"Networks": {"bridge": {"IPAddress": "1.2.3.4"}}},
    },
    "images": [{"Id": "i", "Created": 1}],
    "containers": [{"Id": "c"}],
    "states": [{"State": "exited", "Names": ["/n"]}],
    "started_at": {"Created": "2026"},
    "is_podman": {"Components": [{"Name": "Podman Engine"}]},
    "commit": {"Id": "i"},
}  # fmt: skip
CALLS_WITH_VALUES = {**CALLS, "states": lambda engine: engine.states("x"), "is_podman": Engine.is_podman}
OTHERS = (
    b"null",
    b"[]",
    b"{}",
    b"[[]]",
    b'{"a": {}}',
    b"true",
    b"-1",
    b"0.5",
    b"1e999",
    b"NaN",
    b"9" * 5000,
    b'"\\ud800"',
)


def replaced(value: Any) -> Iterator[Any]:
    """Yield copies of a value in which one part is replaced by "@"."""
    yield "@"
    for key, part in value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ():
        for other in replaced(part):
            yield {**value, key: other} if isinstance(value, dict) else [other]


@pytest.mark.slow
@pytest.mark.parametrize("name", VALID)
def test_value_of_another_type_is_refused(name: str) -> None:
    """The result of a call has the declared types, or the call raises an error of the workbench."""
    call = CALLS_WITH_VALUES[name]
    for changed, other in itertools.product(replaced(VALID[name]), OTHERS):
        body = json.dumps(changed).encode().replace(b'"@"', other)
        with server(*[answer(body)] * 3) as path, contextlib.suppress(WorkbenchError):
            result = call(Engine(path, "box"))
            assert_declared(result)


def assert_declared(result: Any) -> None:
    """Check the types of a result, which are also the annotations of its fields."""
    for each in result if isinstance(result, list) else [result]:
        if hasattr(each, "_asdict"):
            read_as(type(each), each._asdict())
        elif isinstance(each, dict):
            assert {type(text) for pair in each.items() for text in pair} <= {str}
        else:
            assert isinstance(each, str | bool | None)


def test_long_refusal_is_shortened() -> None:
    with server(refusal("x" * 500_000)) as path, pytest.raises(EngineRefused) as caught:
        Engine(path, "box").facts()
    assert len(str(caught.value)) < 3000
