"""The options of `computetarget attach` that belong to target types. The types describe them.

An option of several types is defined once. The options of one type have their own heading in the help.
"""

from __future__ import annotations

import argparse
import contextlib
from collections.abc import Mapping, Sequence

from tui_workbench.core.errors import UsageError
from tui_workbench.targets.base.attaching import NO, YES, Address, AttachField, Attaching

_FURTHER = " " * 25
"""The indentation of the second line of a type."""

Types = Mapping[str, Attaching]


def usage(types: Types) -> str:
    """Return a line for each type, and a second line for the options of a type that has its own."""
    width, lines = max(map(len, types)), []
    for name, described in types.items():
        login = {
            Address.NEEDED: " --address HOST[:PORT] [--username USER] [login options]",
            Address.OPTIONAL: " [--address HOST[:PORT]] [--username USER] [login options]",
            Address.NONE: "",
        }[described.address]
        lines.append(f"%(prog)s {name:{width}} --name NAME{login}")
        if _own_fields(name, types):
            lines.append(_FURTHER + _literal(" ".join(map(_in_usage, described.in_help))))
    return "\n       ".join(lines)  # below the first, which argparse writes after `usage: `


def list_of_types(types: Types) -> str:
    """Return the names of the types, with explanations of unclear names."""
    named = [f"{name} ({each.explanation})" if each.explanation else name for name, each in types.items()]
    return _literal(_joined(named, "or"))


def configure(parser: argparse.ArgumentParser, shared: argparse._ArgumentGroup, types: Types) -> None:
    """Add the options of several types to the group `shared`, and a group for each type with its own options."""
    fields: dict[str, AttachField] = {}
    for field in (field for each in types.values() for field in each.in_help):
        fields.setdefault(field.option, field)  # the built-in types come first, and keep their help
    for field in fields.values():
        if len(_types_with(field.option, types)) > 1:
            _add(shared, field, types)
    for name, described in types.items():
        own = _own_fields(name, types)
        if own:
            where = f" (without --address, the workbench uses {described.service})"
            group = parser.add_argument_group(name + (where if described.address is Address.OPTIONAL else ""))
            for field in own:
                _add(group, field, types)


def values_of(arguments: argparse.Namespace, described: Attaching) -> dict[str, str]:
    """Return the values that were given, by the keys of the type's fields."""
    given = vars(arguments)
    return {field.key: value for field in described.in_help if (value := given.get(field.option))}


def refuse_options_of_others(arguments: argparse.Namespace, kind: str, types: Types) -> None:
    """Raise UsageError if options are given that the type `kind` does not have."""
    has = {field.option for field in types[kind].in_help}
    for field in (field for each in types.values() for field in each.in_help):
        value = vars(arguments).get(field.option)
        if value and field.option not in has:
            option = field.option_of_no if field.is_question and value == NO else field.option
            names = _joined(_types_with(field.option, types), "and")
            raise UsageError(
                f"{option} applies only to {names} targets, not to type {kind!r}",
                remedy=f"Omit {option}.",
            )


def _add(group: argparse._ArgumentGroup, field: AttachField, types: Types) -> None:
    """Add an option. Its value is stored under its own name, which no other option of the command has.

    A type of another package may repeat an option of the command. Then its field is only in the form.
    """
    text = _literal(field.help.replace("{types}", _joined(_types_with(field.option, types), "and")))
    if field.is_question:
        either, text_of_no = group.add_mutually_exclusive_group(), _literal(field.help_of_no)
        with contextlib.suppress(argparse.ArgumentError):
            either.add_argument(field.option, dest=field.option, action="store_const", const=YES, default="", help=text)
            either.add_argument(field.option_of_no, dest=field.option, action="store_const", const=NO, help=text_of_no)
        return
    choices = [value for value in field.choices if value] or None
    metavar = field.metavar or field.key.upper()
    with contextlib.suppress(argparse.ArgumentError):
        group.add_argument(field.option, dest=field.option, metavar=metavar, default="", choices=choices, help=text)


def _in_usage(field: AttachField) -> str:
    return f"[{field.option}]" if field.is_question else f"[{field.option} {field.metavar or field.key.upper()}]"


def _types_with(option: str, types: Types) -> Sequence[str]:
    return [name for name, each in types.items() if any(field.option == option for field in each.in_help)]


def _own_fields(name: str, types: Types) -> Sequence[AttachField]:
    return [field for field in types[name].in_help if _types_with(field.option, types) == [name]]


def _joined(names: Sequence[str], word: str) -> str:
    return f" {word} ".join([*([", ".join(names[:-1])] if names[1:] else []), names[-1]])


def _literal(text: str) -> str:
    """Return text for argparse, which replaces `%`."""
    return text.replace("%", "%%")
