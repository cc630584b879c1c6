"""Mask secrets in texts that are shown or stored: run.json, plans, the trace, exports, crash reports.

Secrets are the values of variables and options with names such as `GITHUB_PAT` and `--api-key`, passwords in URLs,
parts of connection strings such as `AccountKey=...`, and bearer tokens. The run itself receives the original values.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from tui_workbench.core.model import Plan

MASK = "***"

_NAME_HINTS = (
    "PASSWORD", "PASSWD", "PASSPHRASE", "SECRET", "TOKEN", "KEY", "CREDENTIAL", "CONNECTION_STRING", "CONNECTIONSTRING",
)  # fmt: skip
_NAME_WORDS = frozenset(("PAT", "PWD", "SAS"))
_HARMLESS_NAMES = frozenset(("PWD", "OLDPWD", "TOKENIZERS_PARALLELISM"))

_SECRET_FILES = frozenset((".env", ".netrc", ".pypirc", "id_rsa", "id_dsa", "id_ecdsa", "id_ed25519"))
_SECRET_SUFFIXES = (".pem", ".key")

_ENDINGS = (
    "password", "passwd", "passphrase", "secret", "token", "pat", "credential", "credentials",
    "apikey", "api-key", "api_key", "accesskey", "access-key", "access_key", "accountkey", "account-key", "account_key",
    "secretkey", "secret-key", "secret_key",
)  # fmt: skip
"""Endings of options with secret values. `key` is not one of them: `--key 3` is rarely a secret."""

_SPECIAL_TOKENS = frozenset(("bos", "cls", "end", "eos", "mask", "max", "num", "pad", "sep", "start", "stop", "unk"))
"""Words before `token` in options of language models, such as `--pad-token`."""

_USER_IN_URL = re.compile(r"(?<=://)([^\s/'\"]+)@")
# A match starts only at the start of a name. Otherwise, a long name would take quadratic time.
_PAIR = re.compile(
    r"(?<![\w.-])([\w.-]*(?:password|passwd|pwd|passphrase|secret|token|credentials?|signature|\bsig|"
    r"(?:api|access|account|secret)[-_]?key))=([^\s;&,'\"]+)",
    re.IGNORECASE,
)
_PAIR_HINTS = ("pass", "pwd", "secret", "token", "credential", "signature", "sig=", "key=")
_MASKED_FORMS = (f"={MASK}", f":{MASK}@", f"//{MASK}@", f"earer {MASK}")
_ASSIGNMENT = re.compile(r"""\b([A-Za-z_]\w*)=("[^"]*"|'[^']*'|[^\s;&|'"]+)""")
_SHELL_WORD = re.compile(r"""((?:"[^"]*"|'[^']*'|[^\s;&|])+)""")
_BEARER = re.compile(r"\b(bearer) +([^\s'\"]+)", re.IGNORECASE)


def is_secret_name(name: str) -> bool:
    """Return True if the name of a variable suggests a secret value."""
    upper = name.upper()
    if upper in _HARMLESS_NAMES:
        return False
    return any(hint in upper for hint in _NAME_HINTS) or not _NAME_WORDS.isdisjoint(upper.split("_"))


def mask_text(text: str) -> str:
    """Return the text with passwords in URLs, parts of connection strings, and bearer tokens masked."""
    if "://" in text and "@" in text:
        text = _USER_IN_URL.sub(_masked_user, text)
    if "=" in text:
        lower = text.lower()
        if any(hint in lower for hint in _PAIR_HINTS):
            text = _PAIR.sub(_masked_pair, text)
    if "earer " in text:
        text = _BEARER.sub(lambda found: f"{found[1]} {MASK}", text)
    return text


def mask_value(name: str, value: str) -> str:
    """Return MASK if the name of the variable suggests a secret. Otherwise, return the value with secrets masked."""
    return MASK if is_secret_name(name) else mask_text(value)


def mask_variables(variables: Mapping[str, str]) -> dict[str, str]:
    """Return the environment variables with their secrets masked."""
    return {name: mask_value(name, value) for name, value in variables.items()}


def mask_tree(tree: Any, name: str = "") -> Any:
    """Return parsed YAML or JSON with its secrets masked; `name` is the key whose value is `tree`."""
    if isinstance(tree, dict):
        return {str(key): mask_tree(value, str(key)) for key, value in tree.items()}
    if isinstance(tree, list):
        items = [mask_tree(item, name) for item in tree]
        words = mask_words(map(str, items))
        # A number can follow an option such as --api-key too.
        return [
            word if isinstance(item, str) or word == MASK else item for word, item in zip(words, items, strict=True)
        ]
    return mask_value(name, tree) if isinstance(tree, str) else tree


def secrets_of(tree: Any) -> dict[tuple[str | int, ...], Any]:
    """Return the values that `mask_tree` masks, by their path in parsed YAML or JSON."""
    return dict(_differences(tree, mask_tree(tree), ()))


def _differences(tree: Any, masked: Any, path: tuple[str | int, ...]) -> Iterator[tuple[tuple[str | int, ...], Any]]:
    if isinstance(tree, dict) and isinstance(masked, dict):
        for key, value in tree.items():
            yield from _differences(value, masked[str(key)], (*path, str(key)))
    elif isinstance(tree, list) and isinstance(masked, list):
        for index, pair in enumerate(zip(tree, masked, strict=True)):
            yield from _differences(*pair, (*path, index))
    elif tree != masked:
        yield path, tree


def mask_words(words: Iterable[str]) -> list[str]:
    """Return the words of a command, or the arguments of a script, with their secrets masked."""
    found = []
    follows_secret = False
    for word in words:
        name, equals, value = word.partition("=")
        if follows_secret and not word.startswith("--"):
            found.append(MASK)
        elif equals and value and _is_secret_option(name):
            found.append(f"{name}={MASK}")
        else:
            found.append(mask_text(word))
        follows_secret = not equals and name.startswith("-") and _is_secret_option(name)
    return found


def mask_command(command: str) -> str:
    """Return a shell command, such as `export API_TOKEN=...`, with its secrets masked."""
    parts = _SHELL_WORD.split(_ASSIGNMENT.sub(_masked_assignment, command))
    parts[1::2] = mask_words(parts[1::2])
    return "".join(parts)


def mask_plan(plan: Plan) -> Plan:
    """Return the plan with the secrets in its commands and variables masked."""
    steps = []
    for step in plan.steps:
        environment = mask_variables(step.environment)
        steps.append(step._replace(command=tuple(mask_words(step.command)), environment=environment))
    return plan._replace(steps=tuple(steps))


def find_mask(words: Sequence[str]) -> str:
    """Return the first argument that contains a masked secret, or ""."""
    return next((word for word in words if word == MASK or any(form in word for form in _MASKED_FORMS)), "")


def _is_secret_option(name: str) -> bool:
    if name.isupper():
        return name.isidentifier() and is_secret_name(name)
    lower = name.lower()
    if not lower.endswith(_ENDINGS) or _is_special_token(lower):
        return False
    return not lower.endswith("pat") or lower.lstrip("-").replace("_", "-").split("-")[-1] == "pat"


def _is_special_token(name: str) -> bool:
    """Return True for names such as `eos_token`."""
    words = name.lower().lstrip("-").replace("-", "_").split("_")
    return words[-1] == "token" and len(words) > 1 and words[-2] in _SPECIAL_TOKENS


def _masked_user(found: re.Match[str]) -> str:
    name, colon, _ = found[1].partition(":")
    before = found.string[: found.start()].lower()
    # The user name may be a token, except in SSH URLs.
    return f"{name}:{MASK}@" if colon else found[0] if before.endswith("ssh://") else f"{MASK}@"


def _masked_pair(found: re.Match[str]) -> str:
    is_folder = found[1].upper() in _HARMLESS_NAMES and found[2].startswith("/")
    return found[0] if is_folder or _is_special_token(found[1]) else f"{found[1]}={MASK}"


def _masked_assignment(found: re.Match[str]) -> str:
    return f"{found[1]}={MASK}" if is_secret_name(found[1]) else found[0]


def is_secret_file(path: str) -> bool:
    """Return True if files of this name usually contain secrets, as `.env` and private keys do."""
    name = os.path.basename(path)
    return name in _SECRET_FILES or name.startswith(".env.") or name.endswith(_SECRET_SUFFIXES)
