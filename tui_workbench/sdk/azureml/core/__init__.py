"""`azureml.core`: what a training script needs of it."""

from azureml.core.run import Run

__all__ = ["Run"]
