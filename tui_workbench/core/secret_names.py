"""The names that suggest a secret: one table for variables, options, keys in YAML and JSON, headers and URL parameters.

A name is split into lower-case words, so `HF_AUTH`, `--hf-auth`, `hfAuth` and `hf.auth` are the same name. A row of the
table describes one of the words and its neighbors. Names that only look similar, such as `max_tokens`, `author` and
`key_bindings`, do not match.
"""

from __future__ import annotations

import re
import unicodedata
from functools import lru_cache
from typing import NamedTuple

_HARMLESS_NAMES = frozenset(("pwd", "oldpwd"))
"""Variables of the shell with a folder."""

_LONGEST_NAME = 256  # characters; of a longer name, only the end is compared
_LOOK_ALIKE = str.maketrans(
    "АВЕЅZІЈКМНОРСТУХаеѕіјкорсухԁԝΑΒΕΖΗΙΚΜΝΟΡΤΥΧορνυıſ", "ABESZIJKMHOPCTYXaesijkopcyxdwABEZHIKMNOPTYXopvuis"
)
"""Cyrillic, Greek and other letters that look like Latin letters."""

_NOT_IN_SHELL_NAME = re.compile(r"[^A-Za-z0-9_]")
_WORD = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+")


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


class _Row(NamedTuple):
    """A word that suggests a secret.

    `after` and `before` are the neighbors with which it does; None stands for any. `not_after` and `not_before` are the
    neighbors with which it does not. "" stands for no neighbor: the word is the first or last word of the name. With
    `is_weak`, values that are numbers, switches, paths or names of methods are not secret.
    """

    word: re.Pattern[str]
    after: frozenset[str] | None = None
    not_after: frozenset[str] = frozenset()
    before: frozenset[str] | None = None
    not_before: frozenset[str] = frozenset()
    is_weak: bool = True

    def matches(self, previous: str, word: str, following: str) -> bool:
        return (
            self.word.fullmatch(word) is not None
            and (self.after is None or previous in self.after)
            and previous not in self.not_after
            and (self.before is None or following in self.before)
            and following not in self.not_before
        )


_FIRST = _LAST = frozenset(("",))
_KEY_OWNERS = _words(
    "access account api app auth azure client consumer decryption deploy encryption functions hmac jwt licence "
    "license master openai private rsa secret service shared signing ssh storage subscription wandb webhook"
)
"""Words before `key` in names of secret keys."""

_TABLE = (
    _Row(
        re.compile(
            r".*(?:passw(?:or)?d(?!less)|passwort|kennwort|passphrase|passcode|passkey|credential|secret(?!ar)|"
            r"connectionstring|(?:api|access|account|secret|private|auth|encryption|signing|license|licence)keys?).*"
        ),
        is_weak=False,
    ),
    _Row(re.compile("creds"), is_weak=False),
    _Row(re.compile(".*pwd"), is_weak=False),
    _Row(re.compile("pw"), after=_words("admin db ftp ldap login mail my mysql root smtp ssh user") | _FIRST,
         before=_LAST),
    _Row(re.compile("keys?"), after=_KEY_OWNERS, not_before=_words("file path size bits length len type name"),
         is_weak=False),
    _Row(re.compile("string|str"), after=_words("connection conn"), is_weak=False),
    _Row(
        re.compile(".*token"),
        not_after=_words(
            "bos class cls dist end eos eot fim first image img last latent mask max min n next no num pad per prefix "
            "sep special start stop sub unk vision with"
        ),
        not_before=_words(
            "batch budget classification count counts dim dims drop dropout embed embedding embeddings frequency id "
            "ids index keep labels len length level limit loss mask merge merging mixer mixing num parallel "
            "parallelism per position positions pruning rate ratio reduction selection shift shuffle size type types "
            "weight weights"
        ),
        is_weak=False,
    ),
    _Row(re.compile("tokens"), after=_words("access api auth bearer github gitlab hf refresh secret session slack")),
    _Row(
        re.compile("(?:admin|db|ftp|ldap|login|mail|my|mysql|pg|redis|root|smtp|ssh|user|vault|wifi)?pass"),
        not_after=_words(
            "all backward band bwd by each every extra final first forward fwd high low max min multi n num number "
            "one only optimizer per second single third to total train two val warmup"
        ),
        before=_LAST,
    ),
    _Row(re.compile("auth|authorization"), before=_words("basic code data header key string value") | _LAST,
         not_after=_words("can disable enable has is needs no require requires skip use with without")),
    _Row(re.compile("cookies?"), before=_words("data header string value") | _LAST),
    _Row(re.compile("webhooks?"), before=_words("address dev endpoint link prod secret uri url urls") | _LAST),
    _Row(re.compile("licen[sc]e"), before=_words("code key keys serial string") | _LAST),
    _Row(re.compile("jwt|bearer|dsn"), before=_LAST),
    _Row(re.compile("pat|sas")),
    _Row(re.compile("signature"), after=_words("access shared"), is_weak=False),
    _Row(
        re.compile("(?:aes|deploy|gpg|hf|hmac|master|my|openai|pgp|rsa|ssh|storage|wandb)?key"),
        not_after=_words(
            "any arrow batch best cache col column config data dataset dict feature field filter foreign group hot "
            "image index input join label lookup loss main message metric model monitor name on order output "
            "partition prediction press primary prng prompt public query random response rng row sample sort split "
            "state target test text train unique val value"
        ),
        before=_words(
            "base data dev hex id json main material new old pem primary prod secondary secret staging string test "
            "value"
        )
        | _LAST,
    ),
)  # fmt: skip

_PLAIN = re.compile(
    r"""
    [+-]?(?:\d{1,6}|\d*[.]\d*(?:e[+-]?\d+)?|\d+e[+-]?\d+)         # a number
    | [\d.]+(?:[:-][\d.]+)+(?:/(?:tcp|udp))?                         # a port, as in `docker run -p`
    | true|false|yes|no|on|off|none|null|auto|default|never|always
    | basic|digest|bearer|oauth2?|kerberos|gssapi|ldap|ntlm|iam|oidc|saml|required|optional|disabled|enabled
    | (?:mit|apache|[al]?gpl|bsd|cc0?|mpl|isc|openrail|other|unlicense|proprietary)(?:[-.\d][\w.+-]*)?   # a license
    | (?:/|[.]{1,2}/|~/)[^:=]*                                    # a path
    | .*[.](?:txt|json|jsonl|ya?ml|toml|ini|cfg|csv|tsv|db|sqlite|pem|crt|py|ipynb|sh|pt|bin|log|md)
    """,
    re.VERBOSE | re.IGNORECASE,
)
_LONGEST_PLAIN = 512  # characters
_SWITCHES = frozenset(("", "true", "false", "none", "null"))


def is_shell_name(name: str) -> bool:
    """Return True if a shell can pass on a variable of this name. Others are visible in the arguments of `env`."""
    return name.isascii() and name.isidentifier()


def shell_name(name: str) -> str:
    """Return a similar name that a shell can pass on."""
    plain = _NOT_IN_SHELL_NAME.sub("_", name)
    return plain if is_shell_name(plain) else f"_{plain}"


def is_secret_name(name: str) -> bool:
    """Return True if the name of a variable, option, key, header or parameter suggests a secret value."""
    name = name.lstrip("-")[-_LONGEST_NAME:]
    return name.lower() not in _HARMLESS_NAMES and _row_of(name) is not None


def is_secret(name: str, value: str) -> bool:
    """Return True if the name suggests that `value` is a secret. Some names do so except for numbers and paths."""
    name = name.lstrip("-")[-_LONGEST_NAME:]
    row = _row_of(name)
    if row is None or value.lower() in _SWITCHES:
        return False
    if name.lower() in _HARMLESS_NAMES:
        return not value.startswith("/")
    if name == "key" and value.isalpha():
        return False  # such as `--key loss`
    return not (row.is_weak and len(value) <= _LONGEST_PLAIN and _PLAIN.fullmatch(value))


@lru_cache(4096)
def _row_of(name: str) -> _Row | None:
    """Return the first row that matches a word of a name, or None. Rows that are not weak come first."""
    if not name.isascii():
        name = unicodedata.normalize("NFKC", name).translate(_LOOK_ALIKE)
    words = [word.lower() for word in _WORD.findall(name)]
    neighbors = list(zip(["", *words], words, [*words[1:], ""], strict=False))
    return next((row for row in _TABLE if any(row.matches(*triple) for triple in neighbors)), None)
