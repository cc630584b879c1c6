"""Find the errors in the code and write their texts with a name such as HOST for each value.

The code is not executed, except for constant expressions such as `LARGEST >> 20`.
"""

from __future__ import annotations

import ast
import itertools
from collections.abc import Iterator, Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import Any, NamedTuple

from tui_workbench.core.errors import CAUSES
from tui_workbench.targets.base.spark import JAVA_REMEDY

PACKAGE = Path(__file__).resolve().parent.parent / "tui_workbench"

CLASSES = {
    "UsageError": "2",
    "ProjectNotFound": "2",
    "RunNotFound": "2",
    "ImportedRun": "2",
    "LargeFiles": "2",
    "ConfigurationError": "3",
    "NotPrepared": "3",
    "NoGpu": "3",
    "TargetUnreachable": "4",
    "ConnectionLost": "4",
    "LoginRefused": "4",
    "SecretNeeded": "4",
    "HostKeyRefused": "4",
    "EngineOutOfReach": "4",
    "SlurmSilent": "4",
    "SubmissionRefused": "1",
    "StorageError": "1",
    "NeverStarted": "1",
    "EngineRefused": "1",
    "WorkbenchError": "1",
}
"""The exit codes of the errors that users see."""

FACTORIES = {
    "CheckFailed": ("1", 0, ""),
    "UnsupportedTerminal": ("2", 0, ""),
    "EditRefusedError": ("3", 0, ""),
    "YamlError": ("3", 2, ""),
    "Fault": ("3", 1, ""),
    "error": ("3", 0, ""),
    "fault": ("3", 1, ""),
    "refused": ("3", 2, "Make this change in a text editor, at this line."),
    "_error": ("3", 1, ""),
    "_refusal": ("3", 2, ""),
    "_broken_framework": ("1", 0, ""),
    "_unseen": ("1", 0, "Check that VARIABLE is not set, and that the PLATFORM libraries are installed."),
    "_bad_row": ("2", 1, "Write one value per column, and quote values that contain the separator."),
    "_needs_password": ("4", 1, "Enter the password: `workbench-tui computetarget login TARGET`."),
}
"""Other classes and functions that create errors: exit code, position of the message in the arguments, usual fix.

The fix is the keyword `remedy`, or the argument after the message.
"""

PLACEHOLDERS = {
    "__name__": "ERROR",
    "_SENT_AS": "OTHER",
    "absent": "NUMBER",
    "active": "RUNS",
    "ahead": "SECONDS",
    "all_words": "USER@HOST",
    "alternative": "[, or remove `Retry`]",
    "argv": "PROGRAM",
    "available": "GPUS",
    "bad": "HEX",
    "base_name": "IMAGE",
    "best": "FRAMEWORK",
    "cause": "REASON",
    "clean": "`workbench-tui experiment clean -t TARGET`",
    "client": "ADDRESS",
    "code": "CODE",
    "complaint": "OUTPUT",
    "compute_node": "NAME",
    "computed": "NUMBER",
    "CONDITIONS": "completes, ends or fails",
    "container": "KIND",
    "dark": "VALUE",
    "directory": "FOLDER",
    "document": "FILE",
    "done": "OUTPUT",
    "dotted(changed)": "PATH",
    "drawn": "NAME",
    "entry": "COMMAND",
    "environment": "VALUE",
    "error": "REASON",
    "existing": "FILE",
    "expected": "TYPE",
    "facts": "PLATFORM",
    "failed": "FILES",
    "file_name": "FILE",
    "extra_command": "COMMAND",
    "final": "FOLDER",
    "first": "PACKAGE",
    "first.name": "FIRST_MEMBER",
    "fix_of_check": "Apply the fix of the failed check: `workbench-tui gpu check -t TARGET` shows it.",
    "foreign": "FILES",
    "form": "FORM",
    "found": "KEY",
    "framework_reason": "Framework is PySpark",
    "fullest": "FOLDER",
    "given": "CONDITION",
    "here": "PATH",
    "hint": "Use a command of the workbench: `workbench-tui --help` lists them. The cloud service no longer exists.",
    "home": "FOLDER",
    "hunk": "CHANGES",
    "interpreter": "PATH",
    "java_remedy": JAVA_REMEDY,
    "job_name": "wb-ID",
    "known": "NAMES",
    "label": "HOST",
    "last": "OUTPUT",
    "least": "SIZE",
    "link": "FILE",
    "location": "PATH",
    "locked": "KEY",
    "login_command": "`workbench-tui computetarget login TARGET`",
    "masked": "ARGUMENT",
    "max_parallel": "NUMBER",
    "message": "REASON",
    "missing": "NAMES",
    "named": "COMMAND",
    "names": "NAMES",
    "node": "VALUE",
    "nodes": "KEYS",
    "nodes_of": "NUMBER",
    "offered": "CHOICES",
    "old_type": "OTHER",
    "oldest": "VERSION",
    "option_name": "OPTION",
    "origin": "ID",
    "other_vendor": "OTHER",
    "ours": "PLATFORM",
    "package": "PACKAGE",
    "package_command": "COMMAND",
    "package_place": "on that machine",
    "parent": "FOLDER",
    "parent_path": "PATH",
    "part": "TEXT",
    "part.name": "NAME",
    "part.target.name": "MEMBER",
    "place": "FOLDER",
    "prefix": "HOST: ",
    "prepare_command": "workbench-tui experiment prepare -c NAME",
    "presented": "FINGERPRINT",
    "problem": "REASON",
    "project.root": "PROJECT",
    "python_location": "INTERPRETER",
    "quoted": "NAME",
    "read_only": "REASON",
    "reasons": "OUTPUT",
    "record": "FILE",
    "recorded_name": "HOST",
    "reference": "IMAGE",
    "refused": "REASON",
    "remedy_of": "Correct the Slurm option that the message names. If a limit is reached, wait or request fewer "
    "resources.",
    "repeat": "NUMBER",
    "repeat_remedy": "Install the workbench again: `COMMAND`.",
    "reply['refused']": "REASON",
    "repository": "REPOSITORY",
    "request": "NAME",
    "root": "FOLDER",
    "rules": "NUMBERS",
    "run": "ID",
    "run_id": "ID",
    "said": "OUTPUT",
    "script": "SCRIPT",
    "seeds": "NAME",
    "share": "FOLDER",
    "shown": "VALUE",
    "source": "FOLDER",
    "spark_remedy": "Install Spark with `INTERPRETER -m pip install pyspark`, or add `pyspark` to the conda file.",
    "ssh_words": "USER@HOST",
    "start": "FOLDER",
    "strerror": "REASON",
    "subject": "`Retry` or another attempt",
    "suffix": ".SUFFIX",
    "summary": "OUTPUT",
    "target_name": "NAME",
    "target_type": "TYPE",
    "text": "VALUE",
    "texts": "OUTPUT",
    "theme_names": "NAMES",
    "there": "GPUS",
    "title": "STEP",
    "to": "OTHER",
    "total": "NUMBER",
    "twice": "NAME",
    "TYPE_NAMES": "TYPE",
    "type_remedy": "Write TYPE.",
    "unknown": "NAME",
    "unsaved": "FILES",
    "unsupported": "CAPABILITY",
    "verbs": "COMMANDS",
    "visible": "VALUE",
    "wanted": "NAME",
    "what": "FIELD",
    "where": "HOST",
    "why": "REASON",
    "word": "VALUE",
    "words[2]": "ADDRESS",
    "written": "KEY",
    "wrong": "VALUE",
}
"""Names of values by the variable, attribute or expression that holds them; others are named like their variable."""


class Error(NamedTuple):
    """An error in the code."""

    text: str
    remedy: str
    exit_code: str
    module: str


def errors() -> Iterator[Error]:
    """Find all errors with a message in the package."""
    trees = {str(path.relative_to(PACKAGE).with_suffix("")): _parsed(path) for path in sorted(PACKAGE.rglob("*.py"))}
    constants = _constants(trees)
    passed = _passed_remedies(trees, constants)
    for cause, remedy in CAUSES.values():
        yield Error(f"FILE: cannot ACTION: {cause}", remedy, "1", "core/errors")
    for module, tree in trees.items():
        for scope in _scopes(tree):
            for node in ast.walk(scope):
                if isinstance(node, ast.Call) and module != "core/errors":
                    for error in _errors_of(node, module, _Reader(scope, constants[module])):
                        remedies = dict.fromkeys(passed.get(getattr(scope, "name", ""), ()))
                        yield error if error.remedy else error._replace(remedy=" Or: ".join(remedies))


def _parsed(path: Path) -> ast.Module:
    return ast.parse(path.read_text(encoding="utf-8"))


def _scopes(tree: ast.Module) -> Iterator[ast.AST]:
    """Yield the functions that are not in other functions, and the other statements of the module."""
    for node in tree.body:
        yield from node.body if isinstance(node, ast.ClassDef) else [node]


def _passed_remedies(trees: Mapping[str, ast.Module], constants: Mapping[str, dict[str, Any]]) -> dict[str, list[str]]:
    """Return the fixes that callers pass to the parameter `remedy` of a function, by the name of the function."""
    positions: dict[str, int] = {}
    for tree in trees.values():
        for node in tree.body:
            names = [each.arg for each in node.args.args] if isinstance(node, ast.FunctionDef) else []
            if isinstance(node, ast.FunctionDef) and "remedy" in names:
                positions[node.name] = names.index("remedy")
    found: dict[str, list[str]] = {}
    for module, tree in trees.items():
        for scope in _scopes(tree):
            for call in ast.walk(scope):
                if isinstance(call, ast.Call) and (name := _called_name(call)) in positions:
                    for argument in call.args[positions[name] :][:1]:
                        found.setdefault(name, []).extend(_Reader(scope, constants[module]).texts(argument))
    return found


def _called_name(call: ast.Call) -> str:
    return str(getattr(call.func, "id", "") or getattr(call.func, "attr", ""))


def _errors_of(call: ast.Call, module: str, reader: _Reader) -> Iterator[Error]:
    name = _called_name(call)
    if ast.unparse(call.func).startswith("asyncssh."):
        return
    code, position, usual = (CLASSES[name], 0, "") if name in CLASSES else FACTORIES.get(name, ("", 0, ""))
    arguments = call.args[position:]
    if not code or not arguments:
        return
    named = [word.value for word in call.keywords if word.arg == "remedy"]
    remedies = reader.texts([*named, *arguments[1:]][0]) if named or arguments[1:] else []
    remedy = " Or: ".join(text.strip() for text in remedies if _has_words(text)) or usual
    if name == "CheckFailed" and len(arguments) > 2 and _has_words(reader.text(arguments[2])):
        remedy += f" Command: `{'` or `'.join(filter(None, reader.texts(arguments[2])))}`"
    for text in reader.variants(arguments[0]):
        if _has_words(text):
            yield Error(text, remedy, code, module)


def _has_words(text: str) -> bool:
    """Return True if a text contains more than names of values."""
    return any(character.islower() for character in text)


class _Reader:
    """Writes the expressions of a function as text."""

    def __init__(self, scope: ast.AST, constants: Mapping[str, Any]) -> None:
        self._scope = scope
        self._constants = constants

    def text(self, node: ast.expr) -> str:
        """Return a text with its alternatives: `is a folder or does not exist`."""
        texts = list(dict.fromkeys(self.texts(node)))
        if not any(map(_has_words, texts)):
            texts = [text for text in texts if text][:1]
        are_sentences = all(text.endswith(".") for text in texts)
        either = (" Or: " if are_sentences else " or ").join(filter(None, texts))
        return f"[{either}]" if "" in texts and either else either

    def variants(self, node: ast.expr) -> list[str]:
        """Return the text of a message, or one text for each alternative of a variable in it."""
        if not isinstance(node, ast.JoinedStr):
            return [self.text(node)]
        parts = []
        for part in node.values:
            texts = [self.text(part)]
            if isinstance(part, ast.FormattedValue) and isinstance(part.value, ast.Name):
                values = self._assigned(part.value.id)
                if len(values) == 1 and isinstance(values[0], ast.IfExp):
                    alternatives = self.texts(values[0])
                    texts = alternatives if all(" " in each for each in alternatives) else texts
            parts.append(texts)
        return ["".join(each) for each in itertools.product(*parts)]

    def texts(self, node: ast.expr) -> list[str]:
        """Return the texts that an expression can have."""
        match node:
            case ast.Constant(value=str(value)):
                return [value]
            case ast.JoinedStr(values=values):
                return ["".join(map(self.text, values))]
            case ast.FormattedValue(value=value):
                shown = self._constant(node) or self.text(value)
                return [f"'{shown}'" if node.conversion == ord("r") else shown]
            case ast.BinOp(left=left, op=ast.Add(), right=right) if _is_text(left) or _is_text(right):
                return [self.text(left) + self.text(right)]
            case ast.IfExp(body=body, orelse=orelse):
                return [*self.texts(body), *self.texts(orelse)]
            case ast.BoolOp(values=[ast.Attribute() as value, ast.Constant(value="python")]):
                return self.texts(value)  # a default, not another form of the message
            case ast.Subscript(value=ast.Name(id="_REMEDIES")):
                return list(self._constants["_REMEDIES"].values())
            case ast.BoolOp(values=values):
                return [text for value in values for text in self.texts(value)]
            case ast.Call(func=ast.Attribute(attr="key"), args=[ast.Constant(value=str(key))]):
                return [key]
            case ast.Call(func=ast.Name(id="counted"), args=[_, ast.Constant(value=str(noun))]):
                return [f"NUMBER {noun}s"]
            case ast.Call(func=ast.Attribute(value=ast.Constant(), attr="join"), args=[ast.List(elts=parts)]):
                return [" ".join(map(self.text, parts))]
            case ast.Call(func=ast.Attribute(value=ast.Name() as value, attr="format"), args=[part]):
                return [self.text(value).replace("{}", self.text(part))]
            case ast.Name(id=name) if found := self._assigned(name):
                return [text for value in found for text in self.texts(value)]
        return [self._constant(ast.FormattedValue(node, -1)) or _placeholder(node)]

    def _assigned(self, name: str) -> list[ast.expr]:
        """Return the texts assigned to a variable of the function; an empty list if a value is not a text."""
        found: list[ast.expr] = []
        for node in ast.walk(self._scope):
            match node:
                case ast.Assign(targets=[ast.Name(id=target)], value=value) if target == name:
                    found.append(value)
                case ast.Assign(targets=[ast.Tuple(elts=targets)], value=ast.Tuple(elts=values)):
                    pairs = zip(targets, values, strict=True)
                    found += [value for target, value in pairs if isinstance(target, ast.Name) and target.id == name]
        return found if all(map(_is_text, found)) else []

    def _constant(self, node: ast.FormattedValue) -> str:
        """Return the formatted value of an expression of constants, "" for other expressions."""
        layout = node.format_spec.values[0].value if isinstance(node.format_spec, ast.JoinedStr) else ""
        try:
            return format(_evaluated(node.value, self._constants), str(layout))
        except Exception:
            return ""


def _is_text(node: ast.expr) -> bool:
    match node:
        case ast.Constant(value=str()) | ast.JoinedStr():
            return True
        case ast.Call(func=ast.Attribute(attr="key"), args=[ast.Constant()]):
            return True
        case ast.IfExp(body=body, orelse=orelse):
            return _is_text(body) or _is_text(orelse)
        case ast.BoolOp(values=values):
            return any(map(_is_text, values))
        case ast.Name(id=name):
            return name.isupper()
    return False


_METHODS = {*dir(str), *dir(bytes)}  # the result of such a method is named like its object


def _placeholder(node: ast.expr) -> str:
    """Return the name of a value: HOST for `self.host.label`."""
    if known := PLACEHOLDERS.get(ast.unparse(node)):
        return known
    match node:
        case ast.Name(id=name):
            return PLACEHOLDERS.get(name, name.strip("_").upper())
        case ast.Attribute(value=value, attr="name" | "text" | "key" | "path" | "id" | "title"):
            owner = _placeholder(value)
            return "NAME" if owner in ("SELF", "REASON") else owner
        case ast.Attribute(attr=name):
            return PLACEHOLDERS.get(name.strip("_"), PLACEHOLDERS.get(name, name.strip("_").upper()))
        case ast.Constant(value=str(name)) | ast.Subscript(slice=ast.Constant(value=str(name))):
            return name.upper()
        case ast.Subscript(value=value, slice=ast.Constant()):
            return _placeholder(value).removesuffix("S")
        case ast.Call(func=ast.Name(id="len")):
            return "NUMBER"
        case ast.Call(func=ast.Name(id=name) | ast.Attribute(attr=name)) if name.strip("_") in PLACEHOLDERS:
            return PLACEHOLDERS[name.strip("_")]
        case ast.Call(func=ast.Attribute(value=value, attr=name)) if name in _METHODS and not isinstance(
            value, ast.Constant
        ):
            return _placeholder(value)
        case ast.Call(func=ast.Attribute(attr=name) | ast.Name(id=name), args=[]):
            return PLACEHOLDERS.get(name, name.upper())
        case ast.Call(func=ast.Name(id="map" | "filter"), args=[_, value]) | ast.Call(args=[value, *_]):
            return _placeholder(value)
        case ast.Call(func=ast.Attribute(value=value)) | ast.Subscript(value=value) | ast.BinOp(left=value):
            return _placeholder(value)
        case ast.BoolOp(values=[value, *_]) | ast.GeneratorExp(elt=value) | ast.FormattedValue(value=value):
            return _placeholder(value)
    return "VALUE"


def _constants(trees: Mapping[str, ast.Module]) -> dict[str, dict[str, Any]]:
    """Return the constants of each module: strings, numbers and collections of them, including imported constants."""
    found: dict[str, dict[str, Any]] = {module: {} for module in trees}
    for _ in range(3):  # a constant may depend on imported constants
        for module, tree in trees.items():
            for node in tree.body:
                match node:
                    case ast.ImportFrom(module=str(origin), names=names):
                        found[module] |= _imported(origin, names, found)
                    case ast.Assign(targets=[ast.Name(id=name)], value=value) if name.isupper():
                        found[module] |= _value(name, value, found[module])
                    case ast.Assign(targets=[ast.Tuple(elts=targets)], value=ast.Tuple(elts=values)):
                        for target, each in zip(targets, values, strict=True):
                            found[module] |= _value(ast.unparse(target), each, found[module])
                    case ast.AnnAssign(target=ast.Name(id=name), value=ast.expr() as value) if name.isupper():
                        found[module] |= _value(name, value, found[module])
    return found


def _imported(origin: str, names: list[ast.alias], found: Mapping[str, dict[str, Any]]) -> dict[str, Any]:
    place = origin.removeprefix("tui_workbench").strip(".").replace(".", "/")
    values: dict[str, Any] = {}
    for alias in names:
        if alias.name in found.get(place, {}):
            values[alias.asname or alias.name] = found[place][alias.name]
        elif module := found.get(f"{place}/{alias.name}".strip("/")):
            values[alias.asname or alias.name] = SimpleNamespace(**module)
    return values


def _value(name: str, node: ast.expr, known: dict[str, Any]) -> dict[str, Any]:
    try:
        return {name: _evaluated(node, known)}
    except Exception:  # not a constant: it calls a function, for example
        return {}


def _evaluated(node: ast.expr, known: Mapping[str, Any]) -> Any:
    return eval(ast.unparse(node), {"__builtins__": {}}, dict(known))
