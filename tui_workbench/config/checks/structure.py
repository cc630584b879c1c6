"""Checks that need one file and the schema: shape, types, names, old forms."""

from __future__ import annotations

import os
import re
import shlex

from tui_workbench.config import fields, schema
from tui_workbench.config.checks.subject import CODES, Subject, key_of
from tui_workbench.config.findings import Edit, Finding, Fix, RenameKey, ReplaceText, SetValue, Unset, WriteAsYaml
from tui_workbench.config.images import parse_image
from tui_workbench.config.layout import line_end, line_start
from tui_workbench.config.loading import missing_fields
from tui_workbench.config.syntax import SCALAR, Node, parse
from tui_workbench.config.values import FALSE_WORDS, TRUE_WORDS, Fault
from tui_workbench.errors import ConfigurationError
from tui_workbench.records import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any

    from tui_workbench.config.schema import Field

_SECRET_NAME = re.compile(
    r"(?:PASSWORD|PASSWD|SECRET|TOKEN|(?:ACCESS|API|ACCOUNT|STORAGE|PRIVATE)_?KEY|CONNECTION_?STRING)", re.IGNORECASE
)


def check(subject: Subject) -> Iterator[Finding]:
    """All findings about the file alone."""
    for fault in subject.reading.faults:
        yield _fault_finding(subject, fault)
    for fault in missing_fields(subject.tree, subject.kind, subject.reading, subject.target_type):
        yield _missing(subject, fault)
    if subject.tree.ellipsis >= 0:
        yield _ellipsis(subject, subject.tree.ellipsis)
    yield from _unknown_keys(subject)
    yield from _spellings(subject)
    if subject.kind is fields.COMPUTE:
        yield from _compute(subject)
    elif subject.kind is fields.RUNCONFIG:
        yield from _old_runconfig(subject)
    variables = "EnvironmentVariables" if subject.kind is fields.RUNCONFIG else "environment.environmentVariables"
    if variables in subject.values:
        yield from _variables(subject, variables)


# -- text that is no YAML --------------------------------------------------------------------------------------------


def syntax_finding(subject: Subject, error: ConfigurationError) -> Finding:
    """The one finding about a text that cannot be parsed."""
    code = getattr(error, "code", "refused")
    offset = getattr(error, "offset", 0)
    text = subject.text
    fix = _syntax_fix(code, offset, text)
    return Finding(
        CODES[code].severity,
        code,
        error.message,
        error.remedy,
        subject.document.path,
        error.line,
        error.column,
        offset,
        min(offset + 1, len(text)),
        "",
        fix,
    )


def _syntax_fix(code: str, offset: int, text: str) -> Fix | None:
    if code == "missing-space":
        return Fix("put a space behind the colon", (ReplaceText(offset, offset, " "),))
    if code == "control-character":
        return Fix("remove the character", (ReplaceText(offset, offset + 1, ""),))
    if code != "tab":
        return None
    start = line_start(text, offset)
    indent = text[start : len(text) - len(text[start:].lstrip(" \t"))]
    for width in (2, 4, 8, 0):
        spaces = indent.replace("\t", " " * width)
        attempt = text[:start] + spaces + text[start + len(indent) :]
        try:
            parse(attempt)
        except ConfigurationError as error:
            # Further tabs below are further findings; this one is put right when the complaint moves on.
            if getattr(error, "offset", 0) <= line_end(attempt, start):
                continue
        return Fix("indent with spaces", (ReplaceText(start, start + len(indent), spaces),))
    return None


# -- faults of reading -----------------------------------------------------------------------------------------------


def _fault_finding(subject: Subject, fault: Fault) -> Finding:
    fix = _fix_of(subject, fault)
    return subject.finding(
        fault.code, fault.message, fault.remedy, (fault.start, fault.end), key=key_of(fault.path, fault.field), fix=fix
    )


def _ellipsis(subject: Subject, offset: int) -> Finding:
    message = "`...` stands before the first key: other YAML readers refuse this"
    fix = Fix("remove the line", (_line_out(subject.text, offset),))
    return subject.finding("ellipsis", message, "Remove the line.", (offset, offset + 3), fix=fix)


def _line_out(text: str, offset: int) -> ReplaceText:
    after = text.find("\n", offset)
    return ReplaceText(line_start(text, offset), after + 1 if after >= 0 else len(text), "")


def _fix_of(subject: Subject, fault: Fault) -> Fix | None:
    text = subject.text
    if fault.code == "several-documents":
        return Fix("remove the line", (_line_out(text, fault.start),))
    if fault.code == "missing-space":
        return _syntax_fix(fault.code, fault.start, text)
    if fault.code == "duplicate-key":
        return _without_earlier(subject, fault)
    if fault.field is None:
        return None
    node = subject.nodes.get(fault.field.key)
    if fault.code == "wrong-choice" and node is not None:
        from difflib import get_close_matches

        words = {word.lower(): word for word in fault.field.choices}
        near = get_close_matches(node.text.lower(), words, 1, 0.5)
        return _set(fault.field, words[near[0]]) if near else None
    if fault.code == "wrong-type" and node is not None and fault.path == fault.field.path:
        return _converted(fault.field, node)
    if fault.code == "missing-value" and isinstance(fault.path[-1], int):
        return Fix("remove the empty item", (Unset(fault.path),))
    return None


def _without_earlier(subject: Subject, fault: Fault) -> Fix | None:
    """The key's last value is the one that counts for most readers, so the earlier ones go."""
    from tui_workbench.config.editing import drop_earlier

    try:
        text = drop_earlier(subject.tree, fault.path)
    except ConfigurationError:
        return None
    return Fix(f"keep the last `{fault.path[-1]}`", (ReplaceText(0, len(subject.text), text),))


def _converted(field: Field, node: Node) -> Fix | None:
    """What a value of another type was surely meant to be."""
    if field.type == schema.STRINGS and node.kind == SCALAR:
        try:
            words = shlex.split(node.text)
        except ValueError:
            words = [node.text]
        return Fix("make it a list", (SetValue(field.path, words),)) if words else None
    if field.type == schema.BOOLEAN and node.kind == SCALAR and node.text in ("0", "1"):
        return _set(field, node.text == "1")
    if field.type in (schema.STRING, schema.CHOICE) and node.kind == "list" and len(node.items) == 1:
        return _set(field, node.items[0].text)
    return None


def _set(field: Field, value: Any) -> Fix:
    written = str(value).lower() if isinstance(value, bool) else value
    return Fix(f"set {field.key}: {written}", (SetValue(field.path, value),))


def _missing(subject: Subject, fault: Fault) -> Finding:
    assert fault.field is not None
    value: Any = None
    if fault.field.key == "type":
        value = _likely_type(subject.values)
    elif fault.field.key in ("Target", "target") and subject.surroundings is not None:
        names = subject.surroundings.names(".compute")
        own = subject.document.path.rpartition("/")[2].rpartition(".")[0]
        value = own if own in names else names[0] if len(names) == 1 else None
    fix = _set(fault.field, value) if value else None
    return subject.finding(fault.code, fault.message, fault.remedy, key=fault.field.key, fix=fix)


def _likely_type(values: dict[str, Any]) -> str:
    has_address = "address" in values
    if "baseDockerImage" in values or "nvidiaDocker" in values:
        return schema.REMOTE_DOCKER if has_address else schema.LOCAL_DOCKER
    if "yarnDeployMode" in values:
        return schema.CLUSTER
    if has_address:
        return schema.REMOTE
    return schema.LOCAL if "pythonLocation" in values or "sparkSubmitLocation" in values else ""


# -- names -----------------------------------------------------------------------------------------------------------


def _unknown_keys(subject: Subject) -> Iterator[Finding]:
    for path, key, _ in subject.reading.unknown:
        name = ".".join(path)
        known = {field.key.lower(): field.key for field in subject.kind.fields if not field.is_old}
        likely = known.get(name.lower()) or _closest(name, list(known.values()))
        fix = None
        remedy = "It is kept and has no effect. Remove it, or correct its name."
        if likely and len(path) == 1 and "." not in likely and likely not in subject.nodes:
            fix = Fix(f"rename it to {likely}", (RenameKey(path, likely),))
            remedy = f"Did you mean `{likely}`?"
        yield subject.finding(
            "unknown-key", f"`{name}` is no field of a {subject.kind.title.lower()}", remedy, key, key=name, fix=fix
        )
    if subject.kind is not fields.COMPUTE:
        return
    for field in subject.kind.fields:
        if field.key in subject.nodes and not field.applies_to(subject.target_type):
            message = f"`{field.key}` has no effect on a {subject.target_type} target"
            yield subject.about(
                field.key, "no-effect", message, "Remove it.", Unset(field.path), title=f"remove {field.key}"
            )


def _closest(name: str, names: list[str]) -> str:
    from difflib import get_close_matches

    return (get_close_matches(name, names, 1, 0.8) or [""])[0]


def _spellings(subject: Subject) -> Iterator[Finding]:
    for field in subject.kind.fields:
        node = subject.nodes.get(field.key)
        if node is None or node.kind != SCALAR or field.key not in subject.values:
            continue
        if field.type == schema.CHOICE and node.text not in field.choices:
            meant = subject.values[field.key]
            is_old = any(node.text == written for written, _ in field.synonyms)
            code = "old-form" if is_old else "other-spelling"
            message = f"`{field.key}: {node.text}` is understood as {meant}"
            yield subject.about(
                field.key, code, message, f"Write {meant}.", *_set(field, meant).edits, title=f"write {meant}"
            )
        elif field.type == schema.BOOLEAN and node.text.strip().lower() in (TRUE_WORDS | FALSE_WORDS) - {
            "true",
            "false",
        }:
            meant = "true" if subject.values[field.key] else "false"
            edit = ReplaceText(node.start, node.end, meant)
            message = f"`{field.key}: {node.text}` is understood as {meant}; other readers may differ"
            yield subject.about(field.key, "other-spelling", message, f"Write {meant}.", edit, title=f"write {meant}")


# -- compute targets -------------------------------------------------------------------------------------------------


def _compute(subject: Subject) -> Iterator[Finding]:
    values = subject.values
    for key, what in (("password", "password"), ("privateKeyPassphrase", "passphrase")):
        secret = values.get(key)
        if secret and not secret.startswith("AzureMlSecret="):
            name = os.path.splitext(os.path.basename(subject.document.path))[0]
            remedy = f"`workbench-tui computetarget login {name} --move-secrets` moves it to the keyring."
            fix = Fix(f"remove the {what}", (Unset((key,)),), is_choice=True)
            message = f"the {what} itself stands in the file"
            yield subject.finding("plain-password", message, remedy, subject.nodes[key], key=key, fix=fix)
    image = values.get("baseDockerImage")
    if image is not None and parse_image(image) is None:
        yield subject.about(
            "baseDockerImage", "bad-image", f"{image!r} is no image name", "Write REPOSITORY:TAG in small letters."
        )
    if (
        subject.target_type in schema.DOCKER_TYPES
        and values.get("sharedVolumes") is False
        and values.get("nativeSharedDirectory")
    ):
        yield subject.about(
            "sharedVolumes",
            "share-without-volumes",
            "nativeSharedDirectory needs shared volumes in Docker, and they are off",
            "Set sharedVolumes: true, or remove nativeSharedDirectory.",
            SetValue(("sharedVolumes",), True),
            title="set sharedVolumes: true",
        )
    yield from _address(subject)
    yield from _old_cluster(subject)


def _address(subject: Subject) -> Iterator[Finding]:
    address = subject.values.get("address")
    if not address:
        return
    rest = re.sub(r"\A[a-z]+://", "", address.strip())
    user, _, host = rest.rpartition("@")
    if host == address:
        return
    edits: list[Edit] = [SetValue(("address",), host)]
    if user and not subject.values.get("username"):
        edits.append(SetValue(("username",), user))
    yield subject.about(
        "address",
        "bad-address",
        f"`address` holds more than a host: {address!r}",
        "Write HOST or HOST:PORT; the user goes to username.",
        *edits,
        title=f"set address: {host}",
    )


def _old_cluster(subject: Subject) -> Iterator[Finding]:
    for key in ("cluster", "native"):
        if key not in subject.values:
            continue
        edits: list[Edit] = [Unset((key,))]
        if "type" not in subject.nodes and subject.target_type == schema.CLUSTER:
            edits.insert(0, SetValue(("type",), schema.CLUSTER))
            # The second old key is removed by its own finding once `type` is there.
        message = f"`{key}` is an old form of `type: cluster`"
        yield subject.about(key, "old-form", message, "Write type: cluster.", *edits, title="write type: cluster")


# -- run configurations ----------------------------------------------------------------------------------------------


def _old_runconfig(subject: Subject) -> Iterator[Finding]:
    root = subject.tree.root
    if root is not None and root.flow and root.entries and "#" not in subject.text:
        # With comments in it, it is not JSON, and they would be lost.
        fix = Fix("write it as YAML", (WriteAsYaml(),))
        message = "the file is written as JSON, the form from before September 2017"
        yield subject.finding(
            "json-form", message, "It is understood; YAML has room for comments.", (root.start, root.start + 1), fix=fix
        )
    if "CondaFile" in subject.nodes:
        has_new = "CondaDependenciesFile" in subject.nodes
        is_null = "CondaFile" not in subject.values
        edit: Edit = Unset(("CondaFile",)) if has_new or is_null else RenameKey(("CondaFile",), "CondaDependenciesFile")
        title = "remove CondaFile" if isinstance(edit, Unset) else "rename it to CondaDependenciesFile"
        message = "`CondaFile` is the old name of `CondaDependenciesFile`"
        yield subject.about("CondaFile", "old-form", message, "Use the new name.", edit, title=title)
    for key, why in (
        ("Description", "nothing reads it any more"),
        ("ManagedEnvironment", "the target's type decides it now"),
    ):
        if key in subject.nodes:
            message = f"`{key}` is from before September 2017; {why}"
            yield subject.about(key, "old-form", message, "Remove it.", Unset((key,)), title=f"remove {key}")


def _variables(subject: Subject, key: str) -> Iterator[Finding]:
    node = subject.nodes[key]
    for name, value in node.entries:
        if not name.text or "=" in name.text or "\0" in name.text:
            yield subject.finding(
                "bad-variable",
                f"{name.text!r} cannot be the name of a variable",
                "Use letters, digits and _.",
                name,
                key=key,
            )
        elif _SECRET_NAME.search(name.text) and len(value.text) >= 8 and not value.text.startswith("AzureMlSecret="):
            message = f"`{name.text}` looks like a secret, and this file is shared with the project"
            remedy = "Keep it out of the project, for example in the keyring or the machine's own environment."
            yield subject.finding("secret-in-file", message, remedy, value, key=key)
