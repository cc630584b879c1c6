"""`doctor`: check system requirements."""
