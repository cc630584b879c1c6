"""The GPU monitor. Sampling belongs to `targets.gpu`."""
