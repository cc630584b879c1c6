"""The JSON Schema accepts and rejects the same files as the workbench, including old forms."""

from __future__ import annotations

import json
import os
import re
from typing import Any

import pytest
import yaml

from tests.conftest import corpus
from tui_workbench.config.schema import fields
from tui_workbench.config.schema.json_schema import json_schemas

SCHEMAS = json_schemas()

TYPES: dict[str, tuple[type, ...]] = {
    "object": (dict,),
    "array": (list,),
    "string": (str,),
    "number": (int, float),
    "integer": (int,),
    "boolean": (bool,),
    "null": (type(None),),
}


def accepts(schema: dict[str, Any], value: Any, root: dict[str, Any]) -> bool:
    """Return True if a schema accepts a value. Supports the keywords that the workbench's schemas use."""
    if "$ref" in schema:
        *_, name = schema["$ref"].split("/")
        return accepts(root["$defs"][name], value, root)
    if "type" in schema:
        allowed = schema["type"] if isinstance(schema["type"], list) else [schema["type"]]
        if not any(_is(value, name) for name in allowed):
            return False
    if "enum" in schema and value not in schema["enum"]:
        return False
    if isinstance(value, str) and not re.search(schema.get("pattern", ""), value):
        return False
    if isinstance(value, int) and value < schema.get("minimum", value):
        return False
    if isinstance(value, dict) and not _accepts_map(schema, value, root):
        return False
    if isinstance(value, list) and not all(accepts(schema.get("items", {}), item, root) for item in value):
        return False
    if "anyOf" in schema and not any(accepts(one, value, root) for one in schema["anyOf"]):
        return False
    if "if" in schema and accepts(schema["if"], value, root) and not accepts(schema["then"], value, root):
        return False
    return all(accepts(one, value, root) for one in schema.get("allOf", ()))


def _accepts_map(schema: dict[str, Any], value: dict[str, Any], root: dict[str, Any]) -> bool:
    if any(key not in value for key in schema.get("required", ())):
        return False
    other = schema.get("additionalProperties", {})
    return all(accepts(schema.get("properties", {}).get(key, other), one, root) for key, one in value.items())


def _is(value: Any, name: str) -> bool:
    if isinstance(value, bool):
        return name == "boolean"
    return isinstance(value, TYPES[name])


def kind_of(name: str) -> str:
    if name.endswith((".compute", ".runconfig")):
        return name.rpartition(".")[2]
    return "spark" if "spark" in name else "conda"


@pytest.mark.corpus
def test_schema_accepts_every_real_file() -> None:
    for folder, _, names in os.walk(corpus()):
        for name in names:
            if not name.endswith(".md"):
                with open(os.path.join(folder, name), encoding="utf-8") as file:
                    value = yaml.safe_load(file)
                schema = SCHEMAS[kind_of(name)]
                assert accepts(schema, value, schema), name


@pytest.mark.parametrize(
    ("kind", "text"),
    [
        ("compute", "baseDockerImage: x"),
        ("compute", "type: cloud"),
        ("compute", "type: localdocker"),
        ("compute", "{type: docker}"),
        ("compute", "{type: remote}"),
        ("compute", "{type: local, pythonLocation: [x]}"),
        ("compute", "{type: localdocker, baseDockerImage: x, nvidiaDocker: maybe}"),
        ("compute", "[type, local]"),
        ("runconfig", "Framework: Python"),
        ("runconfig", "{Target: x, ArgumentVector: $file}"),
        ("runconfig", "{Target: x, EnvironmentVariables: [A]}"),
        ("runconfig", "{Target: x, Framework: Spark}"),
        ("compute", "{type: slurm, slurm: {time: 4h}}"),
        ("compute", "{type: slurm, slurm: {mem: 32GB}}"),
        ("compute", "{type: slurm, slurm: {nodes: 0}}"),
        ("compute", "{type: slurm, slurm: [gpu]}"),
        ("compute", "{type: slurm, runRoot: scratch}"),
        ("runconfig", "{Target: x, Slurm: {extra: [-x]}}"),
        ("conda", "{dependencies: [{pap: [x]}]}"),
        ("spark", "{packages: [{group: a}]}"),
    ],
)
def test_schema_rejects_invalid_files(kind: str, text: str) -> None:
    assert not accepts(SCHEMAS[kind], yaml.safe_load(text), SCHEMAS[kind])


@pytest.mark.parametrize(
    ("kind", "text"),
    [
        ("compute", "{cluster: true, address: h}"),
        ("compute", "{type: docker, baseDockerImage: x, own: 1}"),
        ("runconfig", "{Target: 22, ArgumentVector: [a, 1, true], EnvironmentVariables: {A: 1, B: null}}"),
        ("runconfig", "{script: t.py, target: x}"),
        (
            "compute",
            "{type: slurm, slurm: {time: '4:00:00', mem: 32G, extra: [--a=b]}, runRoot: ~/wb}",
        ),
        ("runconfig", "{Target: x, Slurm: {constraint: '', gpus: 2}}"),
        ("conda", "{dependencies: [python=3.5, {pip: [keras]}]}"),
    ],
)
def test_schema_accepts_valid_files(kind: str, text: str) -> None:
    assert accepts(SCHEMAS[kind], yaml.safe_load(text), SCHEMAS[kind])


def test_every_field_is_described_and_the_schema_is_json() -> None:
    assert json.loads(json.dumps(SCHEMAS)) == SCHEMAS
    for kind, schema in (("compute", fields.COMPUTE), ("runconfig", fields.RUNCONFIG), ("conda", fields.CONDA)):
        properties = SCHEMAS[kind]["properties"]
        assert {*properties} == {field.path[0] for field in schema.fields}
        for field in schema.fields:
            place = {"properties": properties}
            for name in field.path:
                place = place["properties"][name]
            assert str(place["description"]).endswith("."), field.key
