"""Why can GPT learn in-context? (Dai et al. 2023): in-context learning as implicit finetuning."""

from inweights.papers.meta_optimizers import claims as claims
