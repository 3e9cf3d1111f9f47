"""The trial of made-up packages, as source code."""

from __future__ import annotations

TRIAL = """
from dataclasses import dataclass

@dataclass
class Trial:
    seed: int = 0

    def draw(self):
        return self.numbers(1)

    def numbers(self, n):
        return n

    def trained(self, name):
        from inweights.lab._read import read
        return read(name)
"""
