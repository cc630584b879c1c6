"""Send notifications about runs to the user's channels, such as e-mail or Slack.

The notifications of the screens are in `ui`.
"""
