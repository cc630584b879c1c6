"""The page that shows the screens in a browser, and the one that refuses to. Nothing in them comes from elsewhere.

The names of elements and classes are those that the script of textual-serve looks for.
"""

from __future__ import annotations

_HEAD = """\
<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<title>{title}</title>
<link rel="icon" href="data:,">
<style>
  html, body { margin: 0; height: 100%; overflow: hidden; background: #14171c; color: #d8dee6; }
  body { font: 16px/1.5 monospace; }
  .textual-terminal { width: 100vw; height: 100vh; }
  .xterm .xterm-viewport { overflow: hidden; background: #14171c; }
  .note { position: fixed; inset: 0; display: flex; align-items: center; justify-content: center; text-align: center; }
  .note a { color: #6cb6ff; }
  .closed { display: none; background: #14171ce0; }
  body.-first-byte .opening { display: none; }
  body.-closed .closed { display: flex; }
</style>
"""

PAGE = (
    _HEAD
    + """\
<link rel="stylesheet" href="/static/css/xterm.css">
<script src="/static/js/textual.js"></script>
<script src="/focus.js"></script>
</head>
<body>
<div id="terminal" class="textual-terminal" data-session-websocket-url="{socket}" data-font-size="16"></div>
<div class="note opening">workbench-tui opens …</div>
<div class="note closed"><p>The workbench was left. <a href="/">Open it again</a></p></div>
<span id="start" hidden></span>
</body>
</html>
"""
)

FOCUS = "addEventListener('load', () => document.querySelector('.xterm-helper-textarea').focus());\n"
"""What the page runs beside that: keys are for the screens, without a click on them first."""

REFUSED = (
    _HEAD
    + """\
</head>
<body>
<div class="note"><p>{reason}</p></div>
</body>
</html>
"""
)
