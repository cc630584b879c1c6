"""`history tag|note|archive|pin`: what people say of runs."""

from __future__ import annotations

from tui_workbench.cli.history import add_run_option, emit_records
from tui_workbench.cli.output import add_output_options
from tui_workbench.errors import UsageError
from tui_workbench.project import Project
from tui_workbench.records import TYPE_CHECKING
from tui_workbench.runs import Runs

if TYPE_CHECKING:
    import argparse
    from collections.abc import Callable

    from tui_workbench.runs.annotations import Annotations


def configure_tag(parser: argparse.ArgumentParser) -> None:
    """Options of `history tag`."""
    add_run_option(parser)
    parser.add_argument("tags", metavar="NAME[=VALUE]", nargs="*", help="tags to give it")
    parser.add_argument("--remove", metavar="NAME", action="append", default=[], help="a tag to take away")
    add_output_options(parser)


def run_tag(arguments: argparse.Namespace) -> int:
    """Give a run tags, and take some away."""
    from tui_workbench.runs.annotations import with_tags

    if not arguments.tags and not arguments.remove:
        raise UsageError("no tag was named", remedy="Name some: `history tag -r ID best model=resnet`.")
    tags = {name: value for name, _, value in (word.partition("=") for word in arguments.tags)}
    removed = tuple(arguments.remove)

    def change(found: Annotations) -> Annotations:
        for name in removed:
            if name not in found.tags:
                raise UsageError(
                    f"nobody gave the run a tag {name!r}", remedy="`history info` shows its tags, its script's own too."
                )
        return with_tags(found, tags, removed)

    return _annotate(arguments, change)


def configure_note(parser: argparse.ArgumentParser) -> None:
    """Options of `history note`."""
    add_run_option(parser)
    parser.add_argument("text", metavar="TEXT", help="the note; an empty one takes it away")
    add_output_options(parser)


def run_note(arguments: argparse.Namespace) -> int:
    """Give a run a note, in place of the one it has."""
    return _annotate(arguments, lambda found: found._replace(note=arguments.text))


def configure_archive(parser: argparse.ArgumentParser) -> None:
    """Options of `history archive`."""
    add_run_option(parser)
    parser.add_argument("--undo", action="store_true", help="list it again")
    add_output_options(parser)


def run_archive(arguments: argparse.Namespace) -> int:
    """Leave a run out of lists from now on; nothing of it is removed."""
    return _annotate(arguments, lambda found: found._replace(archived=not arguments.undo))


def configure_pin(parser: argparse.ArgumentParser) -> None:
    """Options of `history pin`."""
    add_run_option(parser)
    parser.add_argument("--undo", action="store_true", help="unpin it")
    add_output_options(parser)


def run_pin(arguments: argparse.Namespace) -> int:
    """Keep a run at the head of the table of runs."""
    return _annotate(arguments, lambda found: found._replace(pinned=not arguments.undo))


def _annotate(arguments: argparse.Namespace, change: Callable[[Annotations], Annotations]) -> int:
    runs = Runs(Project.find(arguments.project))
    runs.annotate(arguments.run, change)
    emit_records(runs.history_record(arguments.run), arguments)
    return 0
