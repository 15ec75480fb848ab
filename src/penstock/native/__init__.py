"""Kernels whose machine code ships with the package: functions of one record of numbers and addresses."""

from penstock.native.kernel import Kernel

__all__ = ["Kernel"]
