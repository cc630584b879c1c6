"""The terminal: its capabilities, output, colors, glyphs, clipboard and safe text.

Only this folder uses private parts of Textual. Widgets belong to the other folders.
"""
