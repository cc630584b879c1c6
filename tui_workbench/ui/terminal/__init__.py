"""The terminal: its capabilities, output, colors, glyphs, clipboard and safe text.

The only folder that uses private parts of Textual. Widgets belong to the other folders.
"""
