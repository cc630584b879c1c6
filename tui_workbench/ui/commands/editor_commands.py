"""The commands of the editor, of the form of a configuration file, and of text fields."""

from __future__ import annotations

from tui_workbench.ui.commands.command import Command, Scope, quiet

# fmt: off
EDITOR = Scope("editor", "3 Editor", (
    quiet("editor.close", "ctrl+w", "close_tab", "Close",
        "Close the file. If it has unsaved edits, you are asked whether to save them.", priority=True),
    quiet("editor.next", "ctrl+pagedown,alt+right", "next_tab(1)", "Next file", "Go to the next tab.", priority=True),
    quiet("editor.back", "ctrl+pageup,alt+left", "next_tab(-1)", "Previous file", "Go to the previous tab.",
        priority=True),
    Command("editor.leave", "escape", "leave", "Back", "Return to the previous pane."),
))

FILE = Scope("file", "An open file", (
    Command("file.save", "ctrl+s", "save", "Save", "Save the file.", priority=True),
    Command("file.find", "ctrl+f", "find", "Find", "Find text, or go to a line number.", priority=True),
    quiet("file.edit", "alt+e", "edit", "External editor",
        "Open the file in $VISUAL or $EDITOR. Edits are saved first.", priority=True),
    Command("file.answer", "ctrl+o", "answer", "Answer", "Go to the question about this file.", priority=True),
))

CONFIGURATION = Scope("configuration", "An open configuration file", (
    Command("config.view", "ctrl+t", "change_view", "Form/text", "Switch between form and text.", priority=True),
    Command("config.problem", "f8", "next_problem", "Next problem", "Go to the next problem.", priority=True),
    Command("config.gpu_ready", "f10", "gpu_ready", "Make GPU-ready", "Configure runs to use the GPU."),
    Command("config.fix", "f9", "fix", "Fix", "Fix the problem at the cursor. Undo reverts the fix.", priority=True),
))

NOTEBOOK = Scope("notebook", "An open notebook", (
    Command("notebook.view", "ctrl+t", "change_view", "View", "Switch between cells and text.", priority=True),
    quiet("notebook.edit", "enter", "edit", "Edit", "Edit the text of the notebook."),
))

FORM = Scope("form", "The form of a configuration file", (
    quiet("form.up", "up,k", "step(-1)", "Up", "Move up a row."),
    quiet("form.down", "down,j", "step(1)", "Down", "Move down a row."),
    quiet("form.page_up", "pageup", "page(-1)", "Page up", "Move up a page."),
    quiet("form.page_down", "pagedown", "page(1)", "Page down", "Move down a page."),
    quiet("form.first", "home,g", "go_to_end(-1)", "First", "Go to the first row."),
    quiet("form.last", "end,G", "go_to_end(1)", "Last", "Go to the last row."),
    Command("form.edit", "enter", "edit", "Edit",
        "Edit the value, or toggle the switch. A value that cannot be edited here is shown in the text."),
    Command("form.toggle", "space", "switch", "Toggle", "Switch to the next value."),
    Command("form.add", "a", "add", "Add", "Add an entry to the list or map."),
    Command("form.clear", "d,delete,backspace", "clear", "Clear", "Remove the value or entry. Undo restores it."),
    Command("form.fix", "f", "fix", "Fix", "Fix the problem in this row. Undo reverts the fix."),
    quiet("form.move_up", "shift+up,K", "move(-1)", "Move up", "Move the entry up in its list."),
    quiet("form.move_down", "shift+down,J", "move(1)", "Move down", "Move the entry down in its list."),
    quiet("form.rename", "r", "rename", "Rename", "Rename the entry."),
    Command("form.undo", "u,ctrl+z", "undo", "Undo", "Undo the last edit of the form or the text."),
    quiet("form.redo", "U,ctrl+y", "redo", "Redo", "Redo the last undone edit."),
))

FORM_VALUE = Scope("form value", "A value being edited", (
    Command("form.accept", "enter", "accept", "Accept", "Accept the typed or selected value."),
    Command("form.cancel", "escape", "cancel", "Cancel", "Discard the typed value."),
    Command("form.complete", "tab", "complete", "Complete", "Fill in the selected or first suggestion."),
))

TEXT_EDITOR = Scope("text", "Text of a file", (
    # Escape has priority, because Textual's text area handles it, too.
    Command("text_editor.leave", "escape", "leave", "Back", "Return to the previous pane.", priority=True),
    quiet("text_editor.up", "up", "cursor_up", "Up", "Move up a line."),
    quiet("text_editor.down", "down", "cursor_down", "Down", "Move down a line."),
    quiet("text_editor.left", "left", "cursor_left", "Left", "Move left by a character."),
    quiet("text_editor.right", "right", "cursor_right", "Right", "Move right by a character."),
    quiet("text_editor.word_left", "ctrl+left", "cursor_word_left", "Word left", "Move left by a word."),
    quiet("text_editor.word_right", "ctrl+right", "cursor_word_right", "Word right", "Move right by a word."),
    quiet("text_editor.line_start", "home,ctrl+a", "cursor_line_start", "Line start", "Go to the start of the line."),
    quiet("text_editor.line_end", "end,ctrl+e", "cursor_line_end", "Line end", "Go to the end of the line."),
    quiet("text_editor.page_up", "pageup", "cursor_page_up", "Page up", "Move up a page."),
    quiet("text_editor.page_down", "pagedown", "cursor_page_down", "Page down", "Move down a page."),
    quiet("text_editor.first", "ctrl+home", "cursor_document_start", "Start of file", "Go to the first line."),
    quiet("text_editor.last", "ctrl+end", "cursor_document_end", "End of file", "Go to the last line."),
    quiet("text_editor.select_up", "shift+up", "cursor_up(True)", "Select up", "Extend the selection up by a line."),
    quiet("text_editor.select_down", "shift+down", "cursor_down(True)", "Select down",
        "Extend the selection down by a line."),
    quiet("text_editor.select_left", "shift+left", "cursor_left(True)", "Select left",
        "Extend the selection left by a character."),
    quiet("text_editor.select_right", "shift+right", "cursor_right(True)", "Select right",
        "Extend the selection right by a character."),
    quiet("text_editor.select_word_left", "ctrl+shift+left", "cursor_word_left(True)", "Select word left",
        "Extend the selection left by a word."),
    quiet("text_editor.select_word_right", "ctrl+shift+right", "cursor_word_right(True)", "Select word right",
        "Extend the selection right by a word."),
    quiet("text_editor.select_line_start", "shift+home", "cursor_line_start(True)", "Select to start",
        "Extend the selection to the start of the line."),
    quiet("text_editor.select_line_end", "shift+end", "cursor_line_end(True)", "Select to end",
        "Extend the selection to the end of the line."),
    quiet("text_editor.select_line", "f6", "select_line", "Select line", "Select the line."),
    quiet("text_editor.select_all", "f7", "select_all", "Select all", "Select the whole file."),
    quiet("text_editor.delete_left", "backspace", "delete_left", "Delete left", "Delete the previous character."),
    quiet("text_editor.delete_right", "delete,ctrl+d", "delete_right", "Delete right", "Delete the next character."),
    quiet("text_editor.delete_word_left", "ctrl+backspace,alt+backspace", "delete_word_left", "Delete word left",
        "Delete to the start of the word."),
    quiet("text_editor.delete_word_right", "alt+delete", "delete_word_right", "Delete word right",
        "Delete to the end of the word."),
    quiet("text_editor.delete_line_start", "ctrl+u,super+backspace", "delete_to_start_of_line", "Delete to start",
        "Delete to the start of the line."),
    quiet("text_editor.delete_line_end", "ctrl+k", "delete_to_end_of_line_or_delete_line", "Delete to end",
        "Delete to the end of the line. At the end of a line, join it with the next line."),
    quiet("text_editor.delete_line", "ctrl+shift+k", "delete_line", "Delete line", "Delete the line."),
    quiet("text_editor.cut", "ctrl+x,super+x", "cut", "Cut", "Cut the selection or the line."),
    quiet("text_editor.copy", "ctrl+c,super+c", "copy", "Copy", "Copy the selection."),
    quiet("text_editor.paste", "ctrl+v", "paste", "Paste", "Insert the text last copied in the workbench."),
    quiet("text_editor.undo", "ctrl+z,super+z", "undo", "Undo", "Undo the last edit."),
    quiet("text_editor.redo", "ctrl+y,super+y", "redo", "Redo", "Redo the last undone edit."),
    quiet("text_editor.dedent", "shift+tab", "dedent", "Dedent", "Remove a level of indentation."),
    quiet("text_editor.comment", "ctrl+underscore,ctrl+slash", "toggle_comment", "Comment",
        "Comment or uncomment lines."),
))

TEXT_KEYS = (
    quiet("field_text.left", "left", "cursor_left", "Left", "Move left by a character."),
    quiet("field_text.right", "right", "cursor_right", "Right", "Move right by a character."),
    quiet("field_text.word_left", "ctrl+left", "cursor_left_word", "Word left", "Move left by a word."),
    quiet("field_text.word_right", "ctrl+right", "cursor_right_word", "Word right", "Move right by a word."),
    quiet("field_text.start", "home,ctrl+a", "home", "Start", "Go to the start."),
    quiet("field_text.end", "end,ctrl+e", "end", "End", "Go to the end."),
    quiet("field_text.select_left", "shift+left", "cursor_left(True)", "Select left",
        "Extend the selection left by a character."),
    quiet("field_text.select_right", "shift+right", "cursor_right(True)", "Select right",
        "Extend the selection right by a character."),
    quiet("field_text.select_word_left", "ctrl+shift+left", "cursor_left_word(True)", "Select word left",
        "Extend the selection left by a word."),
    quiet("field_text.select_word_right", "ctrl+shift+right", "cursor_right_word(True)", "Select word right",
        "Extend the selection right by a word."),
    quiet("field_text.select_start", "shift+home", "home(True)", "Select to start",
        "Extend the selection to the start."),
    quiet("field_text.select_end", "shift+end", "end(True)", "Select to end", "Extend the selection to the end."),
    quiet("field_text.select_all", "ctrl+shift+a", "select_all", "Select all", "Select everything."),
    quiet("field_text.delete_left", "backspace", "delete_left", "Delete left", "Delete the previous character."),
    quiet("field_text.delete_right", "delete,ctrl+d", "delete_right", "Delete right", "Delete the next character."),
    quiet("field_text.delete_word_left", "ctrl+w,ctrl+backspace,alt+backspace", "delete_left_word", "Delete word left",
        "Delete to the start of the word."),
    quiet("field_text.delete_word_right", "alt+delete", "delete_right_word", "Delete word right",
        "Delete to the end of the word."),
    quiet("field_text.delete_start", "ctrl+u,super+backspace", "delete_left_all", "Delete to start",
        "Delete to the start of the text."),
    quiet("field_text.delete_end", "ctrl+k", "delete_right_all", "Delete to end", "Delete to the end of the text."),
    quiet("field_text.cut", "ctrl+x", "cut", "Cut", "Cut the selection."),
    quiet("field_text.copy", "ctrl+c,super+c", "copy", "Copy", "Copy the selection."),
    quiet("field_text.paste", "ctrl+v", "paste", "Paste", "Insert the text last copied in the workbench."),
)

TEXT_FIELD = Scope("text field", "Text fields", (
    *TEXT_KEYS,
    quiet("field_text.submit", "enter", "submit", "Done", "Accept the typed text."),
))

SEARCH_STEPS = (
    quiet("search_field.up", "up", "step(-1)", "Up", "Move up a row in the list."),
    quiet("search_field.down", "down", "step(1)", "Down", "Move down a row in the list."),
)

SEARCH_FIELD = Scope("search field", "Fields for searches, filters and prompts", (
    *SEARCH_STEPS,
    Command("search_field.take", "enter", "submit", "Accept", "Accept the text, or choose the selected row."),
    Command("search_field.leave", "escape", "leave", "Cancel", "Close the field and discard its text."),
))

FIND_ROW = Scope("find in file", "Search in a file", (
    Command("find.next", "enter,down,f3", "step(1)", "Next match", "Go to the next match."),
    Command("find.previous", "up,shift+f3", "step(-1)", "Previous", "Go to the previous match."),
    Command("find.close", "escape", "close", "End search", "End the search; keep the position."),
))

DIFFERENCE = Scope("difference", "Diff against the file on disk", (
    quiet("difference.up", "up,k", "scroll_up", "Up", "Scroll up a line."),
    quiet("difference.down", "down,j", "scroll_down", "Down", "Scroll down a line."),
    quiet("difference.left", "left,h", "scroll_left", "Left", "Scroll left."),
    quiet("difference.right", "right,l", "scroll_right", "Right", "Scroll right."),
    quiet("difference.page_up", "pageup,ctrl+b", "page_up", "Page up", "Scroll up a page."),
    quiet("difference.page_down", "pagedown,ctrl+f,space", "page_down", "Page down", "Scroll down a page."),
    quiet("difference.first", "home,g", "scroll_home", "First", "Go to the first line."),
    quiet("difference.last", "end,G", "scroll_end", "Last", "Go to the last line."),
    Command("difference.close", "escape", "close", "Close diff", "Return to the text."),
))
# fmt: on
