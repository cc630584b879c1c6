"""Findings in one file, their positions and their fixes."""

from __future__ import annotations

import pytest

from tests.config.documents import document
from tests.conftest import corpus
from tui_workbench.config.checks.findings import CODES, ERROR, INFO, WARNING, Finding
from tui_workbench.config.document import Document

DOCKER = "type: localdocker\nbaseDockerImage: python:3.12\n"


def found(text: str, name: str, code: str) -> Finding:
    """Return the only finding with this code."""
    findings = [finding for finding in document(text, name).problems() if finding.code == code]
    assert len(findings) == 1, document(text, name).problems()
    return findings[0]


def fixed(text: str, name: str, code: str) -> str:
    """Return the text after the fix of the only finding with this code, which must then be absent."""
    finding = found(text, name, code)
    assert finding.fix is not None
    editing = document(text, name)
    editing.apply(finding.fix)
    assert code not in [other.code for other in editing.problems()]
    return editing.text


@pytest.mark.parametrize(
    ("name", "text", "code", "severity", "place"),
    [
        ("a.compute", "type: local\n\tx: y\n", "tab", ERROR, (2, 1)),
        ("a.runconfig", "Target: x\nFramework:Python\n", "missing-space", ERROR, (2, 11)),
        ("a.compute", "type: 'local\n", "unclosed", ERROR, (1, 7)),
        ("a.compute", "type: lo\x07cal\n", "control-character", ERROR, (1, 9)),
        ("a.compute", "type: local: x\n", "syntax", ERROR, (1, 12)),
        ("a.compute", "type: local\n...\nx: y\n", "several-documents", ERROR, (2, 1)),
        ("a.compute", "...\ntype: local\n", "ellipsis", WARNING, (1, 1)),
        ("a.compute", "- type\n", "not-a-map", ERROR, (1, 1)),
        ("a.compute", "type: local\ntype: local\n", "duplicate-key", ERROR, (2, 1)),
        ("a.compute", f"{DOCKER}nvidiaDocker: maybe\n", "wrong-type", ERROR, (3, 15)),
        ("a.compute", "type: lcoal\n", "wrong-choice", ERROR, (1, 7)),
        ("a.runconfig", "Target:\nFramework: Python\n", "missing-value", ERROR, (1, 8)),
        ("a.runconfig", "Framework: Python\n", "missing-field", ERROR, (1, 1)),
        ("a.compute", "type: localdocker\nbaseDockerImage: My Image\n", "bad-image", ERROR, (2, 18)),
        ("a.compute", "type: remote\naddress: me@host\n", "bad-address", ERROR, (2, 10)),
        ("a.compute", "type: remote\naddress: 'x -oProxyCommand=a y'\n", "bad-address", ERROR, (2, 10)),
        ("a.compute", "type: slurm\naddress: -oProxyCommand=a\n", "bad-address", ERROR, (2, 10)),
        ("a.compute", "type: cluster\naddress: $(a)\n", "bad-address", ERROR, (2, 10)),
        ("a.compute", "type: remote\naddress: host:22x\n", "bad-address", ERROR, (2, 10)),
        ("a.compute", "type: remote\naddress: h\nusername: a -oX\n", "bad-username", ERROR, (3, 11)),
        (
            "a.runconfig",
            "Target: x\nFramework: Python\nEnvironmentVariables: {A=B: 1}\n",
            "bad-variable",
            ERROR,
            (3, 24),
        ),
        (
            "a.runconfig",
            "Target: x\nFramework: Python\nEnvironmentVariables: {api-key: hunter2xyz}\n",
            "visible-secret",
            ERROR,
            (3, 24),
        ),
        ("a.compute", "type: remote\naddress: h\npassword: hunter2\n", "plain-password", ERROR, (3, 11)),
        ("a.compute", "type: local\nodd: 1\n", "unknown-key", WARNING, (2, 1)),
        ("a.compute", "type: local\nbaseDockerImage: x:1\n", "no-effect", INFO, (2, 18)),
        ("a.compute", "type: docker\nbaseDockerImage: python:3.12\n", "old-form", INFO, (1, 7)),
        ("a.runconfig", "Target: x\nFramework: python\n", "other-spelling", WARNING, (2, 12)),
        (
            "a.runconfig",
            "Target: x\nFramework: Python\nEnvironmentVariables:\n  STORAGE_KEY: 0123456789abcdef\n",
            "secret-in-file",
            WARNING,
            (4, 16),
        ),
    ],
)
def test_finding_has_a_position_and_a_remedy(
    name: str, text: str, code: str, severity: str, place: tuple[int, int]
) -> None:
    finding = found(text, name, code)
    assert (finding.severity, (finding.line, finding.column)) == (severity, place)
    assert finding.remedy.endswith((".", "?"))
    assert not finding.message.endswith(".")
    assert finding.problem.line == place[0]


@pytest.mark.parametrize(
    ("name", "text", "code", "after"),
    [
        ("a.compute", "type: local\n\tpythonLocation: y\n", "tab", "type: local\npythonLocation: y\n"),
        ("a.runconfig", "Target: t\nEnvironmentVariables:\n\tA: 1\n\tB: 2\n", "tab", None),
        ("a.runconfig", "Target: x\nFramework:Python\n", "missing-space", "Target: x\nFramework: Python\n"),
        ("a.compute", "type:local", "missing-space", "type: local"),
        ("a.compute", "type: lo\x07cal\n", "control-character", "type: local\n"),
        ("a.compute", "type: local\n...\npythonLocation: y\n", "several-documents", "type: local\npythonLocation: y\n"),
        ("a.compute", "# from a manual\n...\ntype: local\n", "ellipsis", "# from a manual\ntype: local\n"),
        ("a.compute", "type: docker # a\ntype: local # b\n", "duplicate-key", "type: local # b\n"),
        ("a.compute", f"{DOCKER}nvidiaDocker: 1\n", "wrong-type", f"{DOCKER}nvidiaDocker: true\n"),
        ("a.compute", "type: lcoal\n", "wrong-choice", "type: local\n"),
        ("a.compute", "pythonLocation: p\n", "missing-field", "type: local\npythonLocation: p\n"),
        ("a.compute", "baseDockerImage: i:1\n", "missing-field", "type: localdocker\nbaseDockerImage: i:1\n"),
        (
            "a.compute",
            "address: h\nbaseDockerImage: i:1\n",
            "missing-field",
            "type: remotedocker\naddress: h\nbaseDockerImage: i:1\n",
        ),
        (
            "a.compute",
            "type: remote\naddress: ssh://me@host:22\n",
            "bad-address",
            "type: remote\naddress: host:22\nusername: me\n",
        ),
        ("a.compute", "type: remote\naddress: h\npassword: hunter2\n", "plain-password", "type: remote\naddress: h\n"),
        ("a.compute", f"{DOCKER}nvidiadocker: true\n", "unknown-key", f"{DOCKER}nvidiaDocker: true\n"),
        ("a.compute", "type: local\nbaseDockerImage: x:1\n", "no-effect", "type: local\n"),
        (
            "a.compute",
            'type: "docker"\nbaseDockerImage: x:1\n',
            "old-form",
            'type: "localdocker"\nbaseDockerImage: x:1\n',
        ),
        ("a.compute", "cluster: True\naddress: h\n", "old-form", "type: cluster\naddress: h\n"),
        ("a.runconfig", "Target: x\nFramework: PYTHON\n", "other-spelling", "Target: x\nFramework: Python\n"),
        ("a.compute", f"{DOCKER}nvidiaDocker: yes\n", "other-spelling", f"{DOCKER}nvidiaDocker: true\n"),
        (
            "a.runconfig",
            "Target: x\nArgumentVector: t.py 'a b'\n",
            "wrong-type",
            "Target: x\nArgumentVector:\n  - t.py\n  - a b\n",
        ),
        ("a.runconfig", "Target: [x]\n", "wrong-type", "Target: x\n"),
        (
            "a.runconfig",
            "Target: x\nArgumentVector:\n- a\n-\n- b\n",
            "missing-value",
            "Target: x\nArgumentVector:\n- a\n- b\n",
        ),
        ("a.runconfig", "Target: x\nCondaFile: e.yml\n", "old-form", "Target: x\nCondaDependenciesFile: e.yml\n"),
        ("a.runconfig", "Target: x\nCondaFile: \n", "old-form", "Target: x\n"),
    ],
)
def test_fix_applies(name: str, text: str, code: str, after: str | None) -> None:
    if after is None:
        editing = document(text, name)
        while (finding := editing.problems()[0]).code == code:
            assert finding.fix is not None
            editing.apply(finding.fix)
        assert editing.error is None
    else:
        assert fixed(text, name, code) == after


def test_very_many_duplicates_of_a_key_are_found_and_have_no_fix() -> None:
    # The file is parsed again for each removed line, which would take minutes.
    problems = document("type: local\n" * 3000, "a.compute").problems()
    duplicates = [finding for finding in problems if finding.code == "duplicate-key"]
    assert len(duplicates) == 2999
    assert {finding.fix for finding in duplicates} == {None}


def test_valid_file_has_no_findings() -> None:
    assert document(DOCKER + "sharedVolumes: true\nnativeSharedDirectory: ~/x\n", "a.compute").problems() == []
    assert document("Target: x\nFramework: Python\n", "a.runconfig").problems() == []


def test_json_is_valid_and_can_be_converted() -> None:
    text = (
        '{"ArgumentVector":["$file", "1.0"],"CondaFile":null,"Target":"x",'
        '"EnvironmentVariables":{"A":"no"},"own":[1],"Framework":"Python"}'
    )
    after = fixed(text, "a.runconfig", "json-form")
    assert after == (
        'ArgumentVector:\n  - $file\n  - "1.0"\nTarget: x\nEnvironmentVariables:\n  A: "no"\nFramework: '
        "Python\nown:\n  - 1\n"
    )
    assert [
        finding.code for finding in document("{Target: x, Framework: Python} # c\n", "a.runconfig").problems()
    ] == []


def test_secret_reference_is_not_a_password() -> None:
    text = "type: remote\naddress: h\npassword: AzureMlSecret=t#u#0123456789abcdef0123456789abcdef\n"
    assert document(text, "a.compute").problems() == []


def test_yaml_bomb_is_one_finding() -> None:
    bomb = "a: &a [x,x,x,x,x,x,x,x,x]\n" + "".join(
        f"{new}: &{new} [{','.join([f'*{old}'] * 9)}]\n" for old, new in zip("abcdef", "bcdefg", strict=True)
    )
    findings = document(bomb, "a.compute").problems()
    assert [finding.code for finding in findings] == ["refused"]


def test_every_code_is_documented_and_every_finding_has_one() -> None:
    for code, explained in CODES.items():
        assert explained.severity in (ERROR, WARNING, INFO), code
        assert explained.help.endswith("."), code


@pytest.mark.corpus
def test_share_of_a_copied_project_is_valid() -> None:
    """The Docker template of Azure ML Workbench has this value, and the share is mounted either way."""
    text = f"{DOCKER}sharedVolumes: false\nnativeSharedDirectory: ~/.azureml/share/\n"
    assert [one.code for one in document(text, "a.compute").problems() if one.severity == ERROR] == []
    templates = [path for path in corpus().glob("*/*.compute") if "sharedVolumes: false" in path.read_text()]
    assert len(templates) > 3
    for path in templates:
        found = Document.open(str(path)).problems()
        assert [one for one in found if one.severity == ERROR or "share" in one.message.lower()] == []


JSON = """{
  "Description":"Run it.\\nThen stop",
  "ArgumentVector":[
    "$file",
    "--x"
  ],
  "CondaFile":null,
  "EnvironmentVariables":{"A":"1", "B":"2"},
  "TrackedRun":true,
  "UseSampling":false,
  "MaxDurationMinutes":7,
  "Target":"docker"
}
"""


def test_missing_comma_of_a_json_file_is_found_and_fixed() -> None:
    commas = [at for at, character in enumerate(JSON) if character == ","]
    assert len(commas) == 9
    for at in commas:
        text = JSON[:at] + JSON[at + 1 :]
        editing = document(text, "docker.runconfig")
        (finding,) = editing.problems()
        assert (finding.code, finding.severity) == ("missing-comma", ERROR)
        assert (finding.start, finding.line) == (at, JSON.count("\n", 0, at) + 1)
        assert finding.fix is not None
        editing.apply(finding.fix)
        assert editing.text == JSON


def test_second_missing_comma_is_found_after_the_first() -> None:
    editing = document(JSON.replace("true,", "true").replace("null,", "null  # why"), "docker.runconfig")
    assert editing.error is not None
    for _ in range(2):
        (finding,) = editing.problems()
        assert finding.fix is not None
        editing.apply(finding.fix)
    assert editing.get("TrackedRun") is True


@pytest.mark.corpus
def test_each_comma_of_real_json_files_is_needed() -> None:
    paths = [path for path in corpus().glob("*/*.runconfig") if path.read_text().lstrip().startswith("{")]
    assert len(paths) > 5
    for path in paths:
        text = path.read_text()
        assert document(text, "docker.runconfig").error is None
        for line in text.splitlines():
            if line.endswith(","):
                broken = document(text.replace(f"{line}\n", f"{line[:-1]}\n"), "docker.runconfig")
                assert [one.code for one in broken.problems()] == ["missing-comma"], (path, line)


def test_text_in_braces_that_is_not_json_is_read_as_yaml() -> None:
    for text in ("{Target: my box, Framework: Python}\n", "{Target: 1 x, Framework: Python}\n", '{"Target": a b}\n'):
        assert document(text, "a.runconfig").error is None


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("address: <ipAddress>", "`address` is still the placeholder '<ipAddress>'"),
        ("address: <cluster>-ssh.azurehdinsight.net", "`address` is still the placeholder"),
        ("username: <username>", "`username` is still the placeholder '<username>'"),
        ("password: <use_azure_ml_secrets>", "`password` is still the placeholder"),
        ("password: AzureMlSecret=box#me#<32 hex digits>", "`password` is still the placeholder"),
        ("privateKey: <path to key>", "`privateKey` is still the placeholder"),
    ],
)
def test_placeholder_is_reported(line: str, said: str) -> None:
    rest = "" if line.startswith("address") else "address: h\n"
    (finding,) = document(f"type: remote\n{rest}{line}\n", "a.compute").problems()
    assert (finding.code, finding.severity, finding.message.startswith(said)) == ("placeholder", ERROR, True)
    assert "hex digits" not in finding.message


def test_placeholder_variable_is_named() -> None:
    text = "Target: t\nFramework: Python\nEnvironmentVariables:\n  STORAGE_KEY: <your storage key>\n  OTHER: a<b\n"
    (finding,) = document(text, "a.runconfig").problems()
    assert (finding.code, finding.severity, finding.line) == ("placeholder", WARNING, 4)


def test_password_with_angle_brackets_is_not_a_placeholder() -> None:
    (finding,) = document("type: remote\naddress: h\npassword: ab<cd>ef\n", "a.compute").problems()
    assert finding.code == "plain-password"
    assert "ab<cd>ef" not in repr(finding._replace(fix=None))


@pytest.mark.parametrize(
    ("image", "message", "remedy", "after", "is_choice"),
    [
        ("python:3.12 ", "'python:3.12 ' begins or ends with a space", "Remove the space.", "python:3.12", False),
        ("mine/ train:1", "'mine/ train:1' contains a space", "Remove the space.", "mine/train:1", True),
        (
            "Mine/Train:V1",
            "the repository has uppercase letters",
            "Write the repository in lowercase.",
            "mine/train:V1",
            True,
        ),
        ("http://x/y:1", "is not an image name", "Write REPOSITORY:TAG.", "", False),
    ],
)
def test_invalid_image_name_is_explained(image: str, message: str, remedy: str, after: str, is_choice: bool) -> None:
    finding = found(f'type: localdocker\nbaseDockerImage: "{image}"\n', "a.compute", "bad-image")
    assert finding.message.endswith(message)
    assert finding.remedy == remedy
    assert (finding.fix is None) == (after == "")
    if finding.fix is not None:
        assert finding.fix.is_choice == is_choice
        assert finding.fix.title == f"set baseDockerImage: {after}"


@pytest.mark.parametrize(
    ("before", "after"),
    [
        # The item stays below `pip:`, regardless of the lines around it.
        ("- pip:\n    - keras\n\t\t- h5py\n    - numpy\n", "- pip:\n    - keras\n    - h5py\n    - numpy\n"),
        ("- pip:\n\t- h5py\n    - numpy\n", "- pip:\n    - h5py\n    - numpy\n"),
        ("- pip:\n    - keras\n\t- h5py\n", "- pip:\n    - keras\n    - h5py\n"),
        (
            "- pip:\n    - keras\n    # of the sample\n\n\t- h5py\n",
            "- pip:\n    - keras\n    # of the sample\n\n    - h5py\n",
        ),
        ("- python=3.5\n\t- h5py\n", "- python=3.5\n- h5py\n"),
        ("- pip:\n\t- h5py\n\t- numpy\n", "- pip:\n    - h5py\n    - numpy\n"),
    ],
)
def test_fix_replaces_a_tab_by_the_indentation_around_it(before: str, after: str) -> None:
    editing = document(f"dependencies:\n{before}", "conda_dependencies.yml")
    while editing.error is not None:
        (finding,) = editing.problems()
        assert finding.fix is not None
        editing.apply(finding.fix)
    assert editing.text == f"dependencies:\n{after}"


def test_fix_dedents_a_line_below_a_value() -> None:
    finding = found("Target: local\n  Framework: Python\n", "a.runconfig", "indentation")
    assert (finding.line, finding.column) == (2, 3)
    assert finding.message == "this line is indented as if it were part of the value above"
    assert fixed("Target: local\n  Framework: Python\n", "a.runconfig", "indentation") == (
        "Target: local\nFramework: Python\n"
    )
    on_one_line = found("Target: local Framework: Python\n", "a.runconfig", "syntax")
    assert on_one_line.message == "this line has a second `key: value`"


def test_password_in_an_image_name_is_not_shown() -> None:
    text = "type: localdocker\nbaseDockerImage: me:hunter2x@registry.example.com/a/b:1\n"
    finding = found(text, "engine.compute", "bad-image")
    assert "hunter2x" not in f"{finding}"
    assert "docker login" in finding.remedy
