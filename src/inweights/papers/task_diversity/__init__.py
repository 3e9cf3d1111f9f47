"""Pretraining task diversity (Raventós et al. 2023, arXiv 2306.15063): pools of tasks, dMMSE and ridge regression."""

from inweights.papers.task_diversity import dimension as dimension
from inweights.papers.task_diversity import limit as limit
from inweights.papers.task_diversity import pretrained as pretrained
from inweights.papers.task_diversity import threshold as threshold
