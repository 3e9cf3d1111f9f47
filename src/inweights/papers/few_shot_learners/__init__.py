"""Language models are few-shot learners (Brown et al. 2020): a few demonstrations against none."""

from inweights.papers.few_shot_learners import claims as claims
