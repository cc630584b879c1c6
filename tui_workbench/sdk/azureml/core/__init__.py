"""The part of `azureml.core` for training scripts."""

from azureml.core.run import Run

__all__ = ["Run"]
