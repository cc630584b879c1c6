"""Mask secrets in texts that are shown or stored: run.json, plans, the trace, exports, crash reports.

Secrets are the values of variables and options with names such as `GITHUB_PAT` and `--api-key` (see `secret_names`),
passwords in URLs, URLs of webhooks, parts of connection strings such as `AccountKey=...`, values in JSON, headers, and
values that look like tokens of well-known services. The run itself receives the original values.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from tui_workbench.core.model import Plan
from tui_workbench.core.secret_names import is_secret, is_secret_name

MASK = "***"

SHORTEST_SECRET = 6
"""Minimum length of a value that is masked wherever it appears, in characters."""

_SECRET_FILES = frozenset((".env", ".netrc", ".pypirc", "id_rsa", "id_dsa", "id_ecdsa", "id_ed25519"))
_SECRET_SUFFIXES = (".pem", ".key")

_USER_IN_URL = re.compile(r"(?<=://)([^\s/'\"]+)@")

_WEBHOOK = re.compile(
    r"""
    ( https?://
      (?: hooks?[.][^\s/'"]+                    # such as hooks.slack.com
        | [^\s/'"]{0,200}?webhook[.][^\s/'"]+   # such as example.webhook.office.com
        | [^\s'"]{0,200}?/(?:[a-z]{0,20}webhooks?\w{0,20}|with/key|hooks(?=/\w{16})|bot(?=\d+:))
      ) /?
    )
    ([^\s'"]+)
    """,
    re.VERBOSE | re.IGNORECASE,
)
"""The URL of a webhook, whose path is the secret."""

_SHORTEST_TOKEN = 14  # characters, of the values that _TOKEN finds
_SHORTEST_KEY = 32  # characters, of the values that _KEY_BY_NAME finds
_TOKEN = re.compile(
    r"""
    \b (?: (?: gh[pousr]_ | github_pat_ | hf_ | npm_ | [sr]k_(?:live|test)_ | whsec_ | gsk_ | r8_ | do[op]_v1_
        | dckr_[op]at_ | shp(?:at|ss|ca|pa)_ | lin_api_ | sntry[su]_ | glc_ | glsa_ | lsv2_(?:pt|sk)_ | sqp_ | wandb_v1_
        | ntn_ | figd_ ) (?=[A-Za-z]{0,64}\d) [A-Za-z0-9]{16,} \w*
    | (?: xai- | pplx- | nvapi- | gl(?:agent|cbt|dt|ffct|ft|imt|oas|pat|ptt|rt|soat)- | xapp- | GOCSPX- | pypi- | AIza
        | tskey-[a-z]{1,9}- | ya29[.] | hv[sbr][.] | 1//0 | sk-(?:[a-z0-9]{1,12}-){1,3}
      ) (?=[\w-]{0,64}\d) (?=[\w-]{0,64}[A-Z]) [\w-]{16,} (?:[.][\w-]{2,})*
    | sk-(?:[a-z0-9]{1,12}-){0,3}\w{20,} | pul-[0-9a-f]{40}
    | xox[a-z]-[\w-]{10,} | A(?:KIA|SIA)[A-Z0-9]{16}\b | SG[.][\w-]{16,}[.][\w-]{16,}
    | (?:SK|dapi)[0-9a-f]{32}\b | AGE-SECRET-KEY-1[A-Z0-9]{50,} | PMAK-[0-9a-f]{24}-[0-9a-f]{34} | NRAK-[A-Z0-9]{27}\b
    | \d{8,10}:AA[\w-]{33}\b | [A-Za-z0-9]{14}[.]atlasv1[.][\w-]{60,} | dp[.][a-z]{2,5}[.][A-Za-z0-9]{40,}
    | ATATT3[\w=-]{60,} | eyJhcGlfYWRkcmVzcyI6[\w+/-]{20,}={0,2}
    | (?<![\w-]) eyJ[\w-]{8,}[.](?:eyJ[\w-]{8,}(?:[.][\w-]+)? | [\w-]*[.][\w-]+[.][\w-]+[.][\w-]+) )
    | -----BEGIN\ [A-Z ]{0,40}PRIVATE\ KEY-----.*?(?:-----END\ [A-Z ]{0,40}PRIVATE\ KEY-----|\Z)
    """,
    re.VERBOSE | re.DOTALL,
)
"""A token of a well-known service, or a private key. Shapes that commit IDs and names of models have are missing."""

_LOGIN = re.compile(
    r"""
    (?<![\w.:@+-]) ([A-Za-z_][\w.+-]{0,63}) : ([^\s/@:'"]{4,256}) @
    (?= (?:(?:[A-Za-z0-9-]{1,63}[.]){1,8}[A-Za-z]{2,24} | \d{1,3}(?:[.]\d{1,3}){3} | localhost) (?:/|:\d) )
    """,
    re.VERBOSE,
)
"""A user and a password without a scheme before a host with a port or a path, such as a registry with an image."""

# A match starts only at the start of a name. Otherwise, a long name would take quadratic time.
_PAIR = re.compile(r"""(?<![\w.-])([\w.-]+)=("[^"]*"|'[^']*'|[^\s;&,'"]+)""")
_QUOTED_KEY = re.compile(
    r"""
    (\\?["'])([\w.-]{1,100})\1(\s{0,20}:\s{0,20})
    (?: (?P<double>")(?:[^"\\]|\\.)*"? | (?P<escaped>\\")(?:(?!\\").)*(?:\\")? | (?P<single>')(?:[^'\\]|\\.)*'?
      | [^\s,}\]'"\\]+ )
    """,
    re.VERBOSE | re.DOTALL,
)
"""A key in JSON or in a Python dictionary, and its value. In a shell command, quotes can be escaped."""

_HEADER = re.compile(
    r"""(?<![\w.'"-])([\w.-]+)(:[ \t]+(?:(?:Basic|Bearer|Digest|Token)[ ]+)?)([^\r\n'"]+)""", re.IGNORECASE
)
_HEADERS = frozenset(("authorization", "cookie", "password", "passwd", "passphrase"))
"""Names before a colon whose values are secrets. Names of several words follow the table of names."""

_KEY_BY_NAME = re.compile(
    r"""
    (?<![\w.-]) ([\w.-]{1,100}) ([ \t]{0,3}[:=][ \t]{0,3}['"]?)
    ( [0-9a-fA-F]{32,} | (?=\w{0,40}\d) (?=\w{0,40}[A-Z]) (?=\w{0,40}[a-z]) \w[\w+/-]{31,}={0,2} ) (?![\w+/=.-])
    """,
    re.VERBOSE | re.ASCII,
)
"""A name, such as `key` or `token`, and a long value in hexadecimal digits or Base64, which alone could be a commit."""

_QUERY = re.compile(r"(?<=[?&])((?:[\w.-]*[-_.])?(?:sig|signature))=([^\s;&,'\"]+)", re.IGNORECASE)
_ASSIGNMENT = re.compile(r"""\b([A-Za-z_]\w*)=("[^"]*"|'[^']*'|[^\s;&|'"]+)""")
_SHELL_WORD = re.compile(r"""((?:"[^"]*"|'[^']*'|[^\s;&|])+)""")
_BEARER = re.compile(r"\b(bearer) +([^\s'\"]+)", re.IGNORECASE)

_USER_OPTIONS = frozenset(("-u", "-U", "--user", "--username", "--user-name", "--login", "--proxy-user", "--userpwd"))
"""Options with a user name. A command that has one uses `-p` for the password."""

_PASSWORD_PROGRAM = re.compile(r"(?:.*/)?(?:sshpass|mysql[a-z]*|mariadb[a-z-]*|mongo[a-z]*)")
"""Programs whose `-p`, also with the value in the same word, is a password."""

_USER_AND_PASSWORD = re.compile(r"([^\s:/]+):(?!\d+\Z)([^\s/]+)")


def mask_text(text: str) -> str:
    """Return the text with the secrets masked that are recognized without the name of a variable or an option."""
    if "://" in text:
        if "@" in text:
            text = _USER_IN_URL.sub(_masked_user, text)
        text = _WEBHOOK.sub(rf"\1{MASK}", text)
    if "@" in text:
        text = _LOGIN.sub(_masked_login, text)
    if len(text) >= _SHORTEST_TOKEN:
        text = _TOKEN.sub(MASK, text)
    if ":" in text:
        text = _HEADER.sub(_masked_header, _QUOTED_KEY.sub(_masked_key, text))
    if "=" in text:
        text = _QUERY.sub(rf"\1={MASK}", _PAIR.sub(_masked_pair, text))
    if len(text) > _SHORTEST_KEY and (":" in text or "=" in text):
        text = _KEY_BY_NAME.sub(_masked_key_by_name, text)
    if "earer " in text:
        text = _BEARER.sub(lambda match: f"{match[1]} {MASK}", text)
    return text


def mask_values(text: str, values: Iterable[str]) -> str:
    """Return the text with these values masked."""
    # Start with the longest: if a secret contains another secret, the rest of the longer one would otherwise remain.
    for value in sorted(values, key=len, reverse=True):
        text = text.replace(value, MASK)
    return text


def mask_value(name: str, value: str) -> str:
    """Return MASK if the name of the variable suggests a secret. Otherwise, return the value with secrets masked."""
    return MASK if is_secret(name, value) else mask_text(value)


def secret_values(variables: Mapping[str, str]) -> tuple[str, ...]:
    """Return the values of secret variables that are masked wherever they appear.

    Short values occur in many texts by chance. A path is not a secret, whatever the name of its variable.
    """
    return tuple(
        value
        for name, value in variables.items()
        if len(value) >= SHORTEST_SECRET and not value.startswith("/") and is_secret(name, value)
    )


def mask_variables(variables: Mapping[str, str]) -> dict[str, str]:
    """Return the environment variables with their secrets masked, also where one is a part of another variable."""
    secrets = secret_values(variables)
    return {name: mask_values(mask_value(name, value), secrets) for name, value in variables.items()}


def mask_tree(tree: Any, name: str = "") -> Any:
    """Return parsed YAML or JSON with its secrets masked; `name` is the key whose value is `tree`."""
    if isinstance(tree, dict):
        # All values below a secret name may be secret, such as those of `credentials`.
        prefix = f"{name}." if is_secret_name(name) else ""
        return {str(key): mask_tree(value, f"{prefix}{key}") for key, value in tree.items()}
    if isinstance(tree, list):
        items = [mask_tree(item, name) for item in tree]
        words = mask_words(map(str, items))
        # A number can follow an option such as --api-key too.
        return [
            word if isinstance(item, str) or word == MASK else item for word, item in zip(words, items, strict=True)
        ]
    if isinstance(tree, str):
        return mask_value(name, tree)
    # A password can consist of digits.
    return MASK if isinstance(tree, int | float) and is_secret(name, str(tree)) else tree


def mask_values_in(tree: Any, values: Sequence[str]) -> Any:
    """Return parsed YAML or JSON with these values masked wherever they appear in its texts."""
    if isinstance(tree, dict):
        return {key: mask_values_in(value, values) for key, value in tree.items()}
    if isinstance(tree, list | tuple):
        return [mask_values_in(item, values) for item in tree]
    return mask_values(tree, values) if isinstance(tree, str) else tree


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
    words = list(words)
    is_program = any(map(_PASSWORD_PROGRAM.fullmatch, words))
    has_user = is_program or any(word.partition("=")[0] in _USER_OPTIONS for word in words)
    masked = []
    option = ""  # the option before the word
    for word in words:
        name, equals, value = word.partition("=")
        if option and not word.startswith("--"):
            masked.append(_masked_argument(option, word, has_user=has_user))
        elif equals and (name.startswith("-") or name.isidentifier()):
            masked.append(f"{mask_text(name)}={_masked_argument(name, value, has_user=has_user)}")
        elif word[:2] in ("-p", "-u", "-U") and len(word) > 2:
            masked.append(_masked_short(word, is_program=is_program))
        else:
            masked.append(mask_text(word))
        takes_next = name.startswith("-") and not (is_program and name[:2] in ("-p", "-u") and len(name) > 2)
        option = name if not equals and takes_next else ""
    return masked


def _masked_argument(name: str, value: str, *, has_user: bool) -> str:
    """Return the value of an option or the like masked. `has_user`: another option of the command is a user name."""
    if is_secret("pass" if has_user and name in ("-p", "-P") else name, value):
        return MASK
    if name in _USER_OPTIONS and (match := _USER_AND_PASSWORD.fullmatch(value)):
        return f"{match[1]}:{MASK}"
    return mask_text(value)


def _masked_short(word: str, *, is_program: bool) -> str:
    """Return an option of one letter and its value in the same word masked."""
    option, value = word[:2], word[2:]
    if option == "-p":
        return f"{option}{MASK}" if is_program and is_secret("pass", value) else mask_text(word)
    match = _USER_AND_PASSWORD.fullmatch(value)
    return f"{option}{match[1]}:{MASK}" if match else mask_text(word)


def mask_command(command: str) -> str:
    """Return a shell command, such as `export API_TOKEN=...`, with its secrets masked."""
    parts = _SHELL_WORD.split(_ASSIGNMENT.sub(_masked_pair, command))
    parts[1::2] = mask_words(parts[1::2])
    return "".join(parts)


def mask_plan(plan: Plan) -> Plan:
    """Return the plan with the secrets in its commands and variables masked."""
    secrets = [value for step in plan.steps for value in secret_values(step.environment)]
    steps = []
    for step in plan.steps:
        command = tuple(mask_values(word, secrets) for word in mask_words(step.command))
        steps.append(step._replace(command=command, environment=mask_variables(step.environment)))
    return plan._replace(steps=tuple(steps))


def find_mask(words: Sequence[str]) -> str:
    """Return the first argument that contains a masked secret, or ""."""
    return next((word for word in words if MASK in word), "")


def _masked_user(match: re.Match[str]) -> str:
    name, colon, _ = match[1].partition(":")
    before = match.string[: match.start()].lower()
    # The user name may be a token, except in SSH URLs.
    return f"{name}:{MASK}@" if colon else match[0] if before.endswith("ssh://") else f"{MASK}@"


def _masked_login(match: re.Match[str]) -> str:
    return f"{match[1]}:{MASK}@" if is_secret("pass", match[2]) else match[0]


def _masked_pair(match: re.Match[str]) -> str:
    return f"{match[1]}={MASK}" if is_secret(match[1], match[2].strip("'\"")) else match[0]


def _masked_key(match: re.Match[str]) -> str:
    start = f"{match[1]}{match[2]}{match[1]}{match[3]}"
    quote = match["double"] or match["escaped"] or match["single"] or ""
    value = match[0][len(start) :].removeprefix(quote).removesuffix(quote)
    return f"{start}{quote}{MASK}{quote}" if is_secret(match[2], value) else match[0]


def _masked_key_by_name(match: re.Match[str]) -> str:
    return f"{match[1]}{match[2]}{MASK}" if is_secret(match[1], match[3]) else match[0]


def _masked_header(match: re.Match[str]) -> str:
    name = match[1].lower()
    is_known = name in _HEADERS or any(sign in name for sign in "-_")
    return f"{match[1]}{match[2]}{MASK}" if is_known and is_secret(name, match[3].strip()) else match[0]


def is_secret_file(path: str) -> bool:
    """Return True if files of this name usually contain secrets, as `.env` and private keys do."""
    name = os.path.basename(path)
    return name in _SECRET_FILES or name.startswith(".env.") or name.endswith(_SECRET_SUFFIXES)
