"""Rethinking the role of demonstrations (Min et al. 2022): random labels in place of the right ones."""

from inweights.papers.role_of_demonstrations import claims as claims
