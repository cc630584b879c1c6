"""Check a file against the schema: syntax, types, names and old forms."""

from __future__ import annotations

import contextlib
import re
import shlex
from collections.abc import Iterator
from difflib import get_close_matches
from typing import Any

from tui_workbench.config.checks.findings import (
    CODES,
    WARNING,
    Edit,
    Finding,
    Fix,
    MoveSecret,
    RenameKey,
    ReplaceText,
    SetValue,
    Unset,
    WriteAsYaml,
    remove_field,
    set_field,
)
from tui_workbench.config.checks.image_names import parse_image
from tui_workbench.config.checks.project_context import Subject
from tui_workbench.config.loading import MEMBERS_REMEDY, members_problem, missing_fields
from tui_workbench.config.schema import field_types, fields
from tui_workbench.config.schema.data_references import KEY
from tui_workbench.config.schema.field_types import FALSE_WORDS, TRUE_WORDS, Field
from tui_workbench.config.schema.slurm_options import SECTION, corrected
from tui_workbench.config.yaml_edit.editing import DUPLICATES, drop_earlier
from tui_workbench.config.yaml_edit.layout import line_end, line_start
from tui_workbench.config.yaml_edit.syntax import LIST, SCALAR, Node, Path, parse
from tui_workbench.config.yaml_edit.syntax_errors import indent_above, neighbors_columns
from tui_workbench.config.yaml_edit.values import Fault, is_placeholder
from tui_workbench.core import target_types
from tui_workbench.core.addresses import address_mistake, username_mistake
from tui_workbench.core.errors import ConfigurationError
from tui_workbench.core.masking import MASK, mask_text
from tui_workbench.core.secret_names import is_secret, is_shell_name, shell_name


def check(subject: Subject) -> Iterator[Finding]:
    """Yield the findings that follow from the file alone, and those about the members of a group."""
    duplicates = _duplicate_fixes(subject)
    for fault in subject.reading.faults:
        names = ".".join(step for step in fault.path if isinstance(step, str))
        key = fault.field.key if fault.field is not None else names
        fix = duplicates.get(fault.path) if fault.code == "duplicate-key" else _fix_of(subject, fault)
        at = (fault.start, fault.end)
        yield subject.finding(fault.code, fault.message, fault.remedy, key, fix, at=at)
    for fault in missing_fields(subject.tree, subject.kind, subject.reading, subject.target_type):
        yield _missing(subject, fault)
    ellipsis = subject.tree.ellipsis
    if ellipsis >= 0:
        message = "`...` precedes the first key: other YAML readers reject the file"
        fix = Fix("remove the line", (_line_out(subject.tree.text, ellipsis),))
        yield subject.finding("ellipsis", message, "Remove the line.", "", fix, at=(ellipsis, ellipsis + 3))
    yield from _unknown_keys(subject)
    yield from _spellings(subject)
    if subject.kind is fields.COMPUTE:
        yield from _compute(subject)
    elif subject.kind is fields.RUNCONFIG:
        yield from _old_runconfig(subject)
    else:
        yield from _registry_password(subject)
    variables = "EnvironmentVariables" if subject.kind is fields.RUNCONFIG else "environment.environmentVariables"
    if variables in subject.values:
        yield from _variables(subject, variables)


# -- syntax errors ---------------------------------------------------------------------------------------------------


def syntax_finding(path: str, text: str, error: ConfigurationError) -> Finding:
    """Return the finding for a syntax error."""
    code, offset = getattr(error, "code", "refused"), getattr(error, "offset", 0)
    severity, end = CODES[code].severity, min(offset + 1, len(text))
    position = (path, error.line, error.column, offset, end)
    return Finding(severity, code, error.message, error.remedy, *position, fix=_syntax_fix(code, offset, text))


def _syntax_fix(code: str, offset: int, text: str) -> Fix | None:
    start = line_start(text, offset)
    match code:
        case "missing-space":
            return Fix("add a space after the colon", (ReplaceText(offset, offset, " "),))
        case "missing-comma":
            return Fix("add a comma", (ReplaceText(offset, offset, ","),))
        case "control-character":
            return Fix("remove the character", (ReplaceText(offset, offset + 1, ""),))
        case "indentation":
            blanks = " " * indent_above(text, start).indent
            return Fix("indent the line like the one above", (ReplaceText(start, offset, blanks),))
        case "tab":
            return _tab_fix(start, text)
    return None


def _tab_fix(start: int, text: str) -> Fix | None:
    indent = text[start : len(text) - len(text[start:].lstrip(" \t"))]
    columns = [*neighbors_columns(text, start), *(len(indent.replace("\t", " " * width)) for width in (2, 4, 8, 0))]
    for column in dict.fromkeys(columns):
        attempt = text[:start] + " " * column + text[start + len(indent) :]
        try:
            parse(attempt)
        except ConfigurationError as error:
            # Tabs in later lines are separate findings. This tab is fixed if the next error is in a later line.
            if getattr(error, "offset", 0) <= line_end(attempt, start):
                continue
        return Fix("indent with spaces", (ReplaceText(start, start + len(indent), " " * column),))
    return None


# -- wrong values ----------------------------------------------------------------------------------------------------


def _line_out(text: str, offset: int) -> ReplaceText:
    after = text.find("\n", offset)
    return ReplaceText(line_start(text, offset), after + 1 if after >= 0 else len(text), "")


def _duplicate_fixes(subject: Subject) -> dict[Path, Fix]:
    """Return the fixes of duplicate keys by their paths. A file with many duplicates gets no fixes.

    The whole file is parsed again for each fix.
    """
    paths = [fault.path for fault in subject.reading.faults if fault.code == "duplicate-key"]
    fixes: dict[Path, Fix] = {}
    for path in dict.fromkeys(paths if len(paths) < DUPLICATES else ()):
        with contextlib.suppress(ConfigurationError):
            # Most YAML readers use the last value of a key.
            text = drop_earlier(subject.tree, path)
            fixes[path] = Fix(f"keep the last `{path[-1]}`", (ReplaceText(0, len(subject.tree.text), text),))
    return fixes


def _fix_of(subject: Subject, fault: Fault) -> Fix | None:
    field = fault.field
    node = subject.nodes.get(field.key) if field is not None else None
    match fault.code:
        case "several-documents":
            return Fix("remove the line", (_line_out(subject.tree.text, fault.start),))
        case "missing-space":
            return _syntax_fix(fault.code, fault.start, subject.tree.text)
        case "wrong-choice" if field is not None and node is not None:
            words = {word.lower(): word for word in field.choices}
            near = get_close_matches(node.text.lower(), words, 1, 0.5)
            return set_field(field.key, words[near[0]]) if near else None
        case "wrong-type" if field is not None and node is not None and fault.path == field.path and not field.secret:
            # A secret gets no fix, because the title of a fix shows the value.
            return _converted(field, node)
        case "wrong-form" if field is not None and node is not None and fault.path == field.path:
            meant = corrected(field, node.text)
            return set_field(field.key, meant) if meant else None
        case "bad-address" if node is not None:
            return _only_host(subject, node.text)
        case "reserved-option":
            return Fix("remove the option", (Unset(fault.path),))
        case "missing-value" if field is not None and isinstance(fault.path[-1], int):
            return Fix("remove the empty item", (Unset(fault.path),))
    return None


def _only_host(subject: Subject, address: str) -> Fix | None:
    """Return the fix for an address with a user or a scheme, which keeps the user, or None."""
    mistake = address_mistake(address)
    if mistake is None or not mistake.host or address_mistake(mistake.host) is not None:
        return None
    edits: list[Edit] = [SetValue(("address",), mistake.host)]
    if mistake.user and username_mistake(mistake.user) is None and not subject.values.get("username"):
        edits.append(SetValue(("username",), mistake.user))
    return Fix(f"set address: {mistake.host}", tuple(edits))


def _converted(field: Field, node: Node) -> Fix | None:
    """Return the fix for a value of a wrong type, or None if its meaning is uncertain."""
    if field.type == field_types.REFERENCES and node.kind == SCALAR:
        return Fix("make it a list", (SetValue(field.path, [node.text]),)) if node.text.strip() else None
    if field.type == field_types.STRINGS and node.kind == SCALAR:
        try:
            # A command of `setup` is one item.
            words = [node.text] if field.key == "setup" else shlex.split(node.text)
        except ValueError:
            words = [node.text]
        return Fix("make it a list", (SetValue(field.path, words),)) if node.text.strip() else None
    if field.type == field_types.BOOLEAN and node.kind == SCALAR and node.text in ("0", "1"):
        return set_field(field.key, node.text == "1")
    if field.type in (field_types.STRING, field_types.CHOICE) and node.kind == LIST and len(node.items) == 1:
        return set_field(field.key, node.items[0].text)
    return None


def _missing(subject: Subject, fault: Fault) -> Finding:
    key = str(fault.path[-1])
    value = ""
    if key == "type":
        value = _likely_type(subject.values)
    elif key in ("Target", "target") and subject.context is not None:
        names = subject.context.names(".compute")
        value = subject.name if subject.name in names else names[0] if len(names) == 1 else ""
    fix = set_field(key, value) if value else None
    return subject.finding(fault.code, fault.message, fault.remedy, key, fix, at=(0, 0))


def _likely_type(values: dict[str, Any]) -> str:
    has_address = "address" in values
    if "baseDockerImage" in values or "nvidiaDocker" in values:
        return target_types.REMOTE_DOCKER.name if has_address else target_types.LOCAL_DOCKER.name
    if "runRoot" in values or any(key.startswith(f"{SECTION}.") for key in values):
        return target_types.SLURM.name
    if "yarnDeployMode" in values:
        return target_types.CLUSTER.name
    if has_address:
        return target_types.REMOTE.name
    return target_types.LOCAL.name if "pythonLocation" in values or "sparkSubmitLocation" in values else ""


def _members(subject: Subject) -> Iterator[Finding]:
    context, members = subject.context, subject.values.get("members")
    if context is None or members is None or subject.target_type != target_types.GROUP.name:
        return

    def type_named(name: str) -> str:
        target = context.target(name)
        return target.type if target is not None else ""

    problem = members_problem(members, subject.name, type_named)
    if problem:
        yield subject.finding("wrong-members", problem, MEMBERS_REMEDY, "members")


# -- names -----------------------------------------------------------------------------------------------------------


def _unknown_keys(subject: Subject) -> Iterator[Finding]:
    read_by_type = target_types.find(subject.target_type).keys if subject.kind is fields.COMPUTE else ()
    keys = {field.key.lower(): field.key for field in subject.kind.fields if not field.is_old}
    for path, key, _ in subject.reading.unknown:
        name = ".".join(path)
        if name in read_by_type:
            continue
        likely = keys.get(name.lower()) or _sibling(subject, path)
        likely = likely or next(iter(get_close_matches(name, keys.values(), 1, 0.8)), "")
        fix = None
        remedy = "It has no effect. Remove it, or correct its name."
        *section, new = likely.split(".")
        if likely and section == list(path[:-1]) and likely not in subject.nodes:
            fix = Fix(f"rename to {new}", (RenameKey(path, new),))
            remedy = f"Did you mean `{likely}`?"
        elif likely and section and likely not in subject.nodes:
            remedy = f"Did you mean `{likely}`?"
        if subject.kind is fields.SDK_RUNCONFIG and name == "dataReferences":
            remedy = f"It has no effect. Use a run configuration with the key `Target`, and name the data in `{KEY}`."
        message = f"unknown field `{name}`"
        yield subject.finding("unknown-key", message, remedy, name, fix, at=key)
    for field in subject.kind.fields if subject.kind is fields.COMPUTE else ():
        if field.key in subject.nodes and not field.applies_to(subject.target_type):
            message = f"`{field.key}` has no effect on a {subject.target_type} target"
            yield subject.finding("no-effect", message, *_misplaced(subject, field))


def _misplaced(subject: Subject, field: Field) -> tuple[str, str, Fix]:
    """Return the remedy, key and fix for a field without effect: remove it, or move it to the Slurm section."""
    right, value = subject.kind.field(f"{SECTION}.{field.key}"), subject.values.get(field.key) or ""
    if right is None or not right.applies_to(subject.target_type) or not value.isdigit():
        return f"Remove `{field.key}`.", field.key, remove_field(field.key)
    edits = (Unset(field.path), SetValue(right.path, int(value)))
    return f"Write it as `{right.key}`.", field.key, Fix(f"move it to {right.key}", edits)


def _sibling(subject: Subject, path: tuple[str, ...]) -> str:
    """Return the key in the section of `path` whose last word is most similar to the last word of `path`, or "".

    For a top-level key, return the Slurm option with this name, or "".
    """
    section = path[:-1]
    if not section:
        options = (field.key for field in subject.kind.fields if field.path[0].lower() == SECTION)
        return next((key for key in options if key.partition(".")[2] == path[0]), "")
    words = {field.path[-1]: field.key for field in subject.kind.fields if field.path[:-1] == section}
    return next((words[word] for word in get_close_matches(path[-1], words, 1, _LIKE)), "")


_LIKE = 0.65
"""Minimum similarity of names in a section. `memory` is similar to `mem`, but `cores` is not similar to `nodes`."""


def _spellings(subject: Subject) -> Iterator[Finding]:
    for field in subject.kind.fields:
        node = subject.nodes.get(field.key)
        if node is None or node.kind != SCALAR or field.key not in subject.values:
            continue
        code = "other-spelling"
        message = f"`{field.key}: {node.text}` is read as "
        if field.type == field_types.CHOICE and node.text not in field.offered:
            meant = subject.values[field.key]
            if any(node.text == word for word, _ in field.synonyms):
                code = "old-form"
            edit: Edit = SetValue(field.path, meant)
            message += meant
        elif field.type == field_types.BOOLEAN and node.text.strip().lower() in _ODD_BOOLEANS:
            meant = "true" if subject.values[field.key] else "false"
            edit = ReplaceText(node.start, node.end, meant)
            message += f"{meant}; other YAML readers may differ"
        else:
            continue
        yield subject.finding(code, message, f"Write {meant}.", field.key, Fix(f"write {meant}", (edit,)))


_ODD_BOOLEANS = (TRUE_WORDS | FALSE_WORDS) - {"true", "false"}


# -- compute targets -------------------------------------------------------------------------------------------------


def _compute(subject: Subject) -> Iterator[Finding]:
    values = subject.values
    name = shlex.quote(subject.name)
    remedy = f"Move it to the keyring: `workbench-tui computetarget login {name} --move-secrets`."
    for key, noun in (("password", "password"), ("privateKeyPassphrase", "passphrase")):
        if not (values.get(key) or "AzureMlSecret=").startswith("AzureMlSecret="):
            fix = remove_field(key, f"the {noun}", is_choice=True)
            yield subject.finding("plain-password", f"the {noun} is in plain text", remedy, key, fix)
    yield from _members(subject)
    image = values.get("baseDockerImage")
    # In Slurm jobs, paths and addresses such as docker://python:3.12 are also valid.
    names_image = subject.target_type != target_types.SLURM.name or not re.search(r"^\.?/|://", image or "")
    if image is not None and names_image and parse_image(image) is None:
        yield _bad_image(subject, image)
    yield from _old_cluster(subject)


def _bad_image(subject: Subject, image: str) -> Finding:
    """Return the finding for an image name that Docker does not accept, with a fix if possible."""
    key, shown = "baseDockerImage", repr(mask_text(image))
    stripped = "".join(image.split())
    name, colon, tag = image.rpartition(":")
    small = f"{name.lower()}{colon}{tag}" if name and "/" not in tag else image.lower()
    if stripped != image and parse_image(stripped) is not None:
        at_end = image.strip() == stripped
        message = f"the image name {shown} {'begins or ends with' if at_end else 'contains'} a space"
        fix = set_field(key, stripped, is_choice=not at_end)
        return subject.finding("bad-image", message, "Remove the space.", key, fix)
    if parse_image(small) is not None:
        message = f"{shown} is not an image name: the repository has uppercase letters"
        remedy = "Write the repository in lowercase."
        return subject.finding("bad-image", message, remedy, key, set_field(key, small, is_choice=True))
    remedy = (
        "Write REPOSITORY:TAG." if MASK not in shown else "Remove the login, and use `docker login` on the machine."
    )
    return subject.finding("bad-image", f"{shown} is not an image name", remedy, key)


def _old_cluster(subject: Subject) -> Iterator[Finding]:
    for key in ("cluster", "native"):
        if key not in subject.values:
            continue
        edits: list[Edit] = [Unset((key,))]
        if "type" not in subject.nodes and subject.target_type == target_types.CLUSTER.name:
            edits.insert(0, SetValue(("type",), target_types.CLUSTER.name))
            # The finding of the other old key removes that key after `type` is set.
        message, fix = f"`{key}` is an old form of `type: cluster`", Fix("write type: cluster", tuple(edits))
        yield subject.finding("old-form", message, "Write `type: cluster`.", key, fix)


# -- run configurations ----------------------------------------------------------------------------------------------


def _old_runconfig(subject: Subject) -> Iterator[Finding]:
    root = subject.tree.root
    if root is not None and root.flow and root.entries and "#" not in subject.tree.text:
        # The conversion would lose comments.
        fix = Fix("convert to YAML", (WriteAsYaml(),))
        message = "the file is JSON, the format before September 2017"
        remedy = "Convert it to YAML, which allows comments. JSON still works."
        yield subject.finding("json-form", message, remedy, "", fix, at=(root.start, root.start + 1))
    old, new = "CondaFile", "CondaDependenciesFile"
    if old in subject.nodes:
        is_renamed = new not in subject.nodes and old in subject.values
        fix = Fix(f"rename to {new}", (RenameKey((old,), new),)) if is_renamed else remove_field(old)
        yield subject.finding("old-form", f"`{old}` is the old name of `{new}`", f"Write `{new}` instead.", old, fix)
    for key, why in (
        ("Description", "it has no effect"),
        ("ManagedEnvironment", "the target's type replaces it"),
    ):
        if key in subject.nodes:
            message = f"`{key}` is an old field from before September 2017: {why}"
            yield subject.finding("old-form", message, f"Remove `{key}`.", key, remove_field(key))


def _registry_password(subject: Subject) -> Iterator[Finding]:
    key = "environment.docker.baseImageRegistry.password"
    if subject.values.get(key):
        message, remedy = (
            "the registry's password is in plain text",
            "Remove it, and run `docker login` on this machine.",
        )
        yield subject.finding("plain-password", message, remedy, key, remove_field(key, "the password", is_choice=True))


def _variables(subject: Subject, key: str) -> Iterator[Finding]:
    for name, value in subject.nodes[key].entries:
        if not name.text or "=" in name.text or "\0" in name.text:
            message = f"{name.text!r} is not a valid name of an environment variable"
            yield subject.finding("bad-variable", message, "Use letters, digits and _.", key, at=name)
        elif is_secret(name.text, value.text) and not is_shell_name(name.text):
            message = f"the secret variable {name.text!r} would be visible in the list of processes"
            remedy = f"Rename it, for example to {shell_name(name.text)}, and read this name in the script."
            yield subject.finding("visible-secret", message, remedy, key, at=name)
        elif is_placeholder(value.text):
            message = f"`{name.text}` is still the placeholder {value.text!r}"
            yield subject.finding("placeholder", message, "Enter the real value.", key, at=value, severity=WARNING)
        elif is_secret(name.text, value.text) and len(value.text) >= 8 and not value.text.startswith("AzureMlSecret="):
            message = f"`{name.text}` looks like a secret in plain text"
            remedy = "Move it out of the project: `workbench-tui config fix FILE`. Runs then get the value as before."
            fix = Fix(f"move the value of {name.text} out of the project", (MoveSecret((*key.split("."), name.text)),))
            yield subject.finding("secret-in-file", message, remedy, key, fix, at=value)
