"""Output, prompts, progress and option parsing that several commands share."""
