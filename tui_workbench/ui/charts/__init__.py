"""Line charts and sparklines. The callers choose the curves."""
