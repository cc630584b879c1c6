"""The commands of the editor, of a configuration's form, and of any text that is typed."""

from __future__ import annotations

from tui_workbench.ui.commands.command import Command, Scope, quiet

# fmt: off
EDITOR = Scope("editor", "3 Editor", (
    quiet("editor.close", "ctrl+w", "close_tab", "Close", "Closes the file; asks if it is not saved.", priority=True),
    quiet("editor.next", "ctrl+pagedown,alt+right", "next_tab(1)", "Next file", "Shows the next tab.", priority=True),
    quiet("editor.back", "ctrl+pageup,alt+left", "next_tab(-1)", "File before", "Shows the tab before.", priority=True),
    Command("editor.leave", "escape", "leave", "Leave", "Goes back to the pane you came from."),
))

FILE = Scope("file", "An open file", (
    Command("file.save", "ctrl+s", "save", "Save", "Writes the file, all of it or nothing.", priority=True),
    Command("file.find", "ctrl+f", "find", "Find", "Finds a text in this file, or goes to a line.", priority=True),
    quiet("file.edit", "alt+e", "edit", "Own editor",
        "Saves the file and opens it in $VISUAL or $EDITOR, at the line of the cursor.", priority=True),
    Command("file.answer", "ctrl+o", "answer", "Answer", "Goes to the question about this file.", priority=True),
))

CONFIGURATION = Scope("configuration", "An open configuration file", (
    Command("config.view", "ctrl+t", "change_view", "View", "Changes between form and text.", priority=True),
    Command("config.problem", "f8", "next_problem", "Problem", "Goes to the next problem of this file.", priority=True),
    Command("config.gpu_ready", "f10", "gpu_ready", "GPU-ready", "Shows all that runs need to use the GPU, to apply."),
    Command("config.fix", "f9", "fix", "Fix", "Puts right what is wrong here, as one undo step.", priority=True),
))

FORM = Scope("form", "The form of a configuration file", (
    quiet("form.up", "up,k", "step(-1)", "Up", "Moves a row up."),
    quiet("form.down", "down,j", "step(1)", "Down", "Moves a row down."),
    quiet("form.page_up", "pageup", "page(-1)", "Page up", "Moves a page up."),
    quiet("form.page_down", "pagedown", "page(1)", "Page down", "Moves a page down."),
    quiet("form.first", "home,g", "go_to_end(-1)", "First", "Moves to the first row."),
    quiet("form.last", "end,G", "go_to_end(1)", "Last", "Moves to the last row."),
    Command("form.edit", "enter", "edit", "Edit", "Edits the value in place; turns a switch over."),
    Command("form.toggle", "space", "switch", "Change", "Turns a switch over; takes the next of a few words."),
    Command("form.add", "a", "add", "Add", "Adds an entry to the list or map."),
    Command("form.clear", "d,delete,backspace", "clear", "Clear",
        "Removes the value or the entry; undo brings it back."),
    Command("form.fix", "f", "fix", "Fix", "Puts right what is wrong in this row, as one undo step."),
    quiet("form.move_up", "shift+up,K", "move(-1)", "Move up", "Moves the entry up in its list."),
    quiet("form.move_down", "shift+down,J", "move(1)", "Move down", "Moves the entry down in its list."),
    quiet("form.rename", "r", "rename", "Rename", "Changes the name of the entry."),
    Command("form.undo", "u,ctrl+z", "undo", "Undo", "Takes back the last edit, in the form or in the text."),
    quiet("form.redo", "U,ctrl+y", "redo", "Redo", "Makes again what was taken back."),
))

FORM_VALUE = Scope("form value", "A value that is being typed", (
    Command("form.accept", "enter", "accept", "Accept", "Takes what was typed."),
    Command("form.cancel", "escape", "cancel", "Cancel", "Leaves the value as it was."),
    Command("form.complete", "tab", "complete", "Complete", "Fills in the first suggestion."),
))

TEXT_EDITOR = Scope("text", "Text of a file", (
    # Everything else that leaves a pane is text here. Priority, because a text area takes escape for itself.
    Command("text_editor.leave", "escape", "leave", "Leave", "Goes back to the pane you came from.", priority=True),
    quiet("text_editor.up", "up", "cursor_up", "Up", "Goes a line up."),
    quiet("text_editor.down", "down", "cursor_down", "Down", "Goes a line down."),
    quiet("text_editor.left", "left", "cursor_left", "Left", "Goes a character left."),
    quiet("text_editor.right", "right", "cursor_right", "Right", "Goes a character right."),
    quiet("text_editor.word_left", "ctrl+left", "cursor_word_left", "Word left", "Goes a word left."),
    quiet("text_editor.word_right", "ctrl+right", "cursor_word_right", "Word right", "Goes a word right."),
    quiet("text_editor.line_start", "home,ctrl+a", "cursor_line_start", "Line start", "Goes to the line's start."),
    quiet("text_editor.line_end", "end,ctrl+e", "cursor_line_end", "Line end", "Goes to the line's end."),
    quiet("text_editor.page_up", "pageup", "cursor_page_up", "Page up", "Goes a page up."),
    quiet("text_editor.page_down", "pagedown", "cursor_page_down", "Page down", "Goes a page down."),
    quiet("text_editor.first", "ctrl+home", "cursor_document_start", "Start of file", "Goes to the first line."),
    quiet("text_editor.last", "ctrl+end", "cursor_document_end", "End of file", "Goes to the last line."),
    quiet("text_editor.select_up", "shift+up", "cursor_up(True)", "Select up", "Selects a line up."),
    quiet("text_editor.select_down", "shift+down", "cursor_down(True)", "Select down", "Selects a line down."),
    quiet("text_editor.select_left", "shift+left", "cursor_left(True)", "Select left", "Selects a character left."),
    quiet("text_editor.select_right", "shift+right", "cursor_right(True)", "Select right",
        "Selects a character right."),
    quiet("text_editor.select_word_left", "ctrl+shift+left", "cursor_word_left(True)", "Select word left",
        "Selects a word left."),
    quiet("text_editor.select_word_right", "ctrl+shift+right", "cursor_word_right(True)", "Select word right",
        "Selects a word right."),
    quiet("text_editor.select_line_start", "shift+home", "cursor_line_start(True)", "Select to start",
        "Selects to the line's start."),
    quiet("text_editor.select_line_end", "shift+end", "cursor_line_end(True)", "Select to end",
        "Selects to the line's end."),
    quiet("text_editor.select_line", "f6", "select_line", "Select line", "Selects the line."),
    quiet("text_editor.select_all", "f7", "select_all", "Select all", "Selects the whole file."),
    quiet("text_editor.delete_left", "backspace", "delete_left", "Delete left", "Deletes the character before."),
    quiet("text_editor.delete_right", "delete,ctrl+d", "delete_right", "Delete right", "Deletes the character here."),
    quiet("text_editor.delete_word_left", "ctrl+backspace,alt+backspace", "delete_word_left", "Delete word left",
        "Deletes to the start of the word."),
    quiet("text_editor.delete_word_right", "alt+delete", "delete_word_right", "Delete word right",
        "Deletes to the end of the word."),
    quiet("text_editor.delete_line_start", "ctrl+u,super+backspace", "delete_to_start_of_line", "Delete to start",
        "Deletes to the line's start."),
    quiet("text_editor.delete_line_end", "ctrl+k", "delete_to_end_of_line_or_delete_line", "Delete to end",
        "Deletes to the line's end; an empty line whole."),
    quiet("text_editor.delete_line", "ctrl+shift+k", "delete_line", "Delete line", "Deletes the line."),
    quiet("text_editor.cut", "ctrl+x,super+x", "cut", "Cut", "Cuts what is selected, or the line."),
    quiet("text_editor.copy", "ctrl+c,super+c", "copy", "Copy", "Copies what is selected, or the line."),
    quiet("text_editor.paste", "ctrl+v", "paste", "Paste", "Inserts what was copied here."),
    quiet("text_editor.undo", "ctrl+z,super+z", "undo", "Undo", "Takes back the last edit."),
    quiet("text_editor.redo", "ctrl+y,super+y", "redo", "Redo", "Makes again what was taken back."),
    quiet("text_editor.dedent", "shift+tab", "dedent", "Dedent", "Takes a level of indentation away."),
    quiet("text_editor.comment", "ctrl+underscore,ctrl+slash", "toggle_comment", "Comment",
        "Makes the lines comments, or text again."),
))

TEXT_KEYS = (
    quiet("field_text.left", "left", "cursor_left", "Left", "Goes a character left."),
    quiet("field_text.right", "right", "cursor_right", "Right", "Goes a character right."),
    quiet("field_text.word_left", "ctrl+left", "cursor_left_word", "Word left", "Goes a word left."),
    quiet("field_text.word_right", "ctrl+right", "cursor_right_word", "Word right", "Goes a word right."),
    quiet("field_text.start", "home,ctrl+a", "home", "Start", "Goes to the start."),
    quiet("field_text.end", "end,ctrl+e", "end", "End", "Goes to the end."),
    quiet("field_text.select_left", "shift+left", "cursor_left(True)", "Select left", "Selects a character left."),
    quiet("field_text.select_right", "shift+right", "cursor_right(True)", "Select right", "Selects a character right."),
    quiet("field_text.select_word_left", "ctrl+shift+left", "cursor_left_word(True)", "Select word left",
        "Selects a word left."),
    quiet("field_text.select_word_right", "ctrl+shift+right", "cursor_right_word(True)", "Select word right",
        "Selects a word right."),
    quiet("field_text.select_start", "shift+home", "home(True)", "Select to start", "Selects to the start."),
    quiet("field_text.select_end", "shift+end", "end(True)", "Select to end", "Selects to the end."),
    quiet("field_text.select_all", "ctrl+shift+a", "select_all", "Select all", "Selects everything."),
    quiet("field_text.delete_left", "backspace", "delete_left", "Delete left", "Deletes the character before."),
    quiet("field_text.delete_right", "delete,ctrl+d", "delete_right", "Delete right", "Deletes the character here."),
    quiet("field_text.delete_word_left", "ctrl+w,ctrl+backspace,alt+backspace", "delete_left_word", "Delete word left",
        "Deletes to the start of the word."),
    quiet("field_text.delete_word_right", "alt+delete", "delete_right_word", "Delete word right",
        "Deletes to the end of the word."),
    quiet("field_text.delete_start", "ctrl+u,super+backspace", "delete_left_all", "Delete to start",
        "Deletes all that stands before."),
    quiet("field_text.delete_end", "ctrl+k", "delete_right_all", "Delete to end", "Deletes all that stands behind."),
    quiet("field_text.cut", "ctrl+x", "cut", "Cut", "Cuts what is selected."),
    quiet("field_text.copy", "ctrl+c,super+c", "copy", "Copy", "Copies what is selected."),
    quiet("field_text.paste", "ctrl+v", "paste", "Paste", "Inserts what was copied here."),
)

TEXT_FIELD = Scope("text field", "Text fields", (
    *TEXT_KEYS,
    quiet("field_text.submit", "enter", "submit", "Done", "Takes what was typed."),
))

SEARCH_STEPS = (
    quiet("search_field.up", "up", "step(-1)", "Up", "Moves a row up in the list."),
    quiet("search_field.down", "down", "step(1)", "Down", "Moves a row down in the list."),
)

SEARCH_FIELD = Scope("search field", "Search fields over a list", (
    *SEARCH_STEPS,
    Command("search_field.take", "enter", "submit", "Choose", "Takes the row under the cursor."),
    Command("search_field.leave", "escape", "leave", "Leave", "Leaves the search and shows everything again."),
))

FIND_ROW = Scope("find in file", "Search in a file", (
    Command("find.next", "enter,down,f3", "step(1)", "Next match", "Goes to the next match."),
    Command("find.previous", "up,shift+f3", "step(-1)", "Previous", "Goes to the previous match."),
    Command("find.close", "escape", "close", "Back to text", "Ends the search; the cursor stays at the match."),
))

DIFFERENCE = Scope("difference", "The difference to the file on disk", (
    quiet("difference.up", "up,k", "scroll_up", "Up", "Goes a line up."),
    quiet("difference.down", "down,j", "scroll_down", "Down", "Goes a line down."),
    quiet("difference.left", "left,h", "scroll_left", "Left", "Shows what is further left."),
    quiet("difference.right", "right,l", "scroll_right", "Right", "Shows what is further right."),
    quiet("difference.page_up", "pageup,ctrl+b", "page_up", "Page up", "Goes a page up."),
    quiet("difference.page_down", "pagedown,ctrl+f,space", "page_down", "Page down", "Goes a page down."),
    quiet("difference.first", "home,g", "scroll_home", "First", "Goes to the first line."),
    quiet("difference.last", "end,G", "scroll_end", "Last", "Goes to the last line."),
    Command("difference.close", "escape", "close", "Back to text", "Shows the text again."),
))
# fmt: on
