"""Submit, follow, list and cancel the runs of a project. The screens and the command line use `facade.Runs`.

Code that depends on the type of a target belongs in `targets`.
"""
