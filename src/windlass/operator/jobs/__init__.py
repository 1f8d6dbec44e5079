"""TFJob and PyTorchJob objects as jobs, with their status. Imports nothing of `pods`."""
