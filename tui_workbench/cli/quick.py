"""The plain case of a command line, read without `argparse`: options in full with their values, words in their places.

A command declares its options to this as it would to `argparse`. Whatever is not plain (help, an error, an option
stuck to its value, a declaration of a kind that is not known here) is left to `argparse`; where this gives an answer,
it is the same.
"""

from __future__ import annotations

from tui_workbench.records import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import Any

_KNOWN = frozenset(("metavar", "required", "help", "default", "action", "type", "choices", "dest", "nargs"))
_REST = "..."


class NotPlain(Exception):
    """`argparse` is to look at it."""


class Parsed:
    """The values by their names, as attributes."""

    def __init__(self, values: dict[str, Any]) -> None:
        self.__dict__.update(values)

    if TYPE_CHECKING:

        def __getattr__(self, name: str) -> Any: ...


class _Argument(NamedTuple):
    name: str
    is_switch: bool
    required: bool
    convert: Callable[[str], Any] | None
    choices: Sequence[str] | None
    nargs: str | None

    def value(self, word: str) -> Any:
        try:
            value = word if self.convert is None else self.convert(word)
        except Exception as error:
            raise NotPlain from error
        if self.choices is not None and value not in self.choices:
            raise NotPlain
        return value


class QuickParser:
    """Takes the declarations of a command, then its words."""

    names_script = False
    """True for a command whose options end at the name of a script."""

    usage = epilog = ""

    def __init__(self) -> None:
        self._options: dict[str, _Argument] = {}
        self._positionals: list[_Argument] = []
        self._values: dict[str, Any] = {}

    def add_argument(self, *names: str, **settings: Any) -> None:
        """As that of `argparse`. Raises NotPlain for a kind of argument that is left to it."""
        action, nargs, convert = settings.get("action", "store"), settings.get("nargs"), settings.get("type")
        is_option = names[0].startswith("-")
        plain = nargs is None or (not is_option and (nargs == "?" or (nargs == _REST and self.names_script)))
        if not plain or action not in ("store", "store_true") or not _KNOWN.issuperset(settings):
            raise NotPlain
        long = next((name for name in names if name.startswith("--")), names[0])
        name = settings.get("dest") or long.lstrip("-").replace("-", "_")
        is_switch = action == "store_true"
        required = settings.get("required", False) if is_option else nargs is None
        argument = _Argument(name, is_switch, required, convert, settings.get("choices"), nargs)
        default = settings.get("default", False if is_switch else [] if nargs == _REST else None)
        if isinstance(default, str) and convert is not None:
            default = argument.value(default)
        self._values.setdefault(name, default)
        if is_option:
            self._options.update(dict.fromkeys(names, argument))
        else:
            self._positionals.append(argument)

    def __getattr__(self, name: str) -> Any:
        raise NotPlain(name)

    def parse(self, words: Sequence[str]) -> Parsed:
        """The words parsed. Raises NotPlain when they are not plain, or wrong."""
        values = dict(self._values)
        missing = {argument.name for argument in self._options.values() if argument.required}
        waiting = list(self._positionals)
        index = 0
        while index < len(words):
            word = words[index]
            index += 1
            argument = self._options.get(word)
            if argument is not None and argument.is_switch:
                values[argument.name] = True
            elif argument is not None:
                if index == len(words) or words[index].startswith("-"):
                    raise NotPlain
                values[argument.name] = argument.value(words[index])
                missing.discard(argument.name)
                index += 1
            elif word.startswith("-") or not waiting:
                raise NotPlain
            elif self.names_script:
                values["script"], values["arguments"] = word, list(words[index:])
                waiting.clear()
                break
            else:
                positional = waiting.pop(0)
                values[positional.name] = positional.value(word)
        if missing or any(argument.required for argument in waiting):
            raise NotPlain
        return Parsed(values)
