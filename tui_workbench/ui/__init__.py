"""The screens. `run` opens them; everything that they need is imported there, and only then."""

from __future__ import annotations

from tui_workbench.records import TYPE_CHECKING

if TYPE_CHECKING:
    from tui_workbench.errors import WorkbenchError
    from tui_workbench.model import Run
    from tui_workbench.ui.file_tree import Listing
    from tui_workbench.ui.remembered import Remembered


def run(project_path: str, *, ascii_only: bool = False) -> int:
    """Open the project at `project_path`, or in its nearest parent that is one, until the user leaves. Returns 0.

    Raises ProjectNotFound when there is none, and UnfitTerminal when the terminal cannot show the screens. `ascii_only`
    keeps to ASCII even where more can be shown.
    """
    import gc
    import os
    import sys
    import threading

    from tui_workbench.project import Project
    from tui_workbench.ui.file_tree import FileTree, read_folder
    from tui_workbench.ui.pace import Pace
    from tui_workbench.ui.terminal import settle_in_browser, terminal_here, told_to_textual

    # Nothing that is made while starting is garbage; looking for some costs a twentieth of the first frame. The main
    # screen turns it on when it is complete.
    gc.disable()
    terminal = terminal_here(ascii_only=ascii_only)
    project = Project.find(project_path)
    tree = FileTree(project.root)
    listings: dict[str, Listing] = {}

    remembered: list[Remembered] = []

    def list_files() -> None:
        from tui_workbench.ui.remembered import recall

        remembered.append(recall(project.root))
        if folders := remembered[0].values.part("files").texts("folders"):
            tree.open_folders = {"", *folders}
        for folder in tree.to_read():
            listings[folder] = read_folder(project.root, folder)

    # The disk is read while the screens are imported.
    listing = threading.Thread(target=list_files, name="first listing", daemon=True)
    listing.start()
    pace = Pace(os.environ)

    keymap_trouble = use_keymap()  # before anything is imported that binds a key
    with told_to_textual(terminal):
        pace.tell_textual()
    from tui_workbench.ui import themes
    from tui_workbench.ui.app import WorkbenchApp
    from tui_workbench.ui.remembered import Remembered, Values

    theme, theme_trouble = themes.remembered_theme()
    in_browser = settle_in_browser()
    listing.join(FIRST_LISTING_SECONDS)
    values, trouble = remembered[0] if remembered else Remembered(Values())
    app = WorkbenchApp(project, tree, theme, theme_trouble or keymap_trouble or trouble, terminal, values)
    pace.settle(app)
    if not listing.is_alive():
        for folder, found in listings.items():
            tree.accept(folder, found)
    going_on = app.run() or []
    # A browser has no terminal behind the screens.
    for line in [] if in_browser else farewell(going_on):
        sys.stdout.write(f"{line}\n")
    return app.return_code or 0


def use_keymap() -> WorkbenchError | None:
    """Have the commands the keys that the user has chosen for them. Gives what is wrong with the keymap, if anything.

    What is right in it counts, whatever is wrong with the rest.
    """
    import os

    from tui_workbench import resources

    if not os.path.lexists(resources.keymap_path()):
        return None
    from tui_workbench.errors import ConfigurationError
    from tui_workbench.ui.command import use_keys
    from tui_workbench.ui.keymap import load_keymap

    keymap = load_keymap()
    use_keys(keymap.keys)
    if len(keymap.errors) < 2:
        return next(iter(keymap.errors), None)
    first = keymap.errors[0]
    remedy = f"{first.remedy} `workbench-tui keys` tells of {len(keymap.errors) - 1} more.".lstrip()
    return ConfigurationError(first.message, file=first.file, line=first.line, column=first.column, remedy=remedy)


def farewell(active: list[Run]) -> list[str]:
    """What stands in the terminal after the screens: which runs go on, and how to follow one from there."""
    from tui_workbench.ui.safetext import safe_text
    from tui_workbench.ui.words import count, run_title

    if not active:
        return []
    names = ", ".join(safe_text(run_title(run)) for run in active)
    verb = "goes" if len(active) == 1 else "go"
    return [
        f"{count(len(active), 'run')} {verb} on: {names}",
        f"Follow with: workbench-tui logs -f {active[0].run_number}",
    ]


FIRST_LISTING_SECONDS = 0.05
"""How long the first frame waits for a slow disk before it is drawn without the files."""
