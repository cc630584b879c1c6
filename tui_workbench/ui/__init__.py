"""The screens: `start.run` opens them. Each folder holds a feature; `screens` names what is imported when it is opened.

Nothing below this folder is known to the command line but `start`, the commands and their keys.
"""
