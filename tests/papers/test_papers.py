"""The papers: where and when they appeared."""

from __future__ import annotations

import re

import pytest

from inweights.ledger import Paper
from inweights.papers import PAPERS

OF_ARXIV = [paper for paper in PAPERS if paper.arxiv]


@pytest.mark.parametrize("paper", OF_ARXIV, ids=lambda paper: paper.key)
def test_a_paper_appeared_when_it_can_have(paper: Paper) -> None:
    """Not before its number on arXiv, at most two years after, and in the year by which it is cited or the next."""
    submitted = 2000 + int(paper.arxiv[:2])
    assert submitted <= paper.year <= submitted + 2
    years = re.findall(r"\b20\d\d\b", paper.published)
    assert len(years) == bool(paper.published)
    for year in map(int, years):
        assert submitted <= year <= submitted + 2
        assert year in (paper.year, paper.year + 1)


def test_places_of_publication_are_of_the_right_paper() -> None:
    """Some that are known: a list of them was once shifted by one."""
    where = {paper.key: paper.published for paper in PAPERS}
    known = {"garg": "NeurIPS 2022", "shen": "ICML 2024", "deutch": "NAACL 2024", "dai": "Findings of ACL 2023"}
    known |= {"falck": "ICML 2024", "li": "ICML 2023", "brown": "NeurIPS 2020", "min": "EMNLP 2022", "wei": ""}
    assert {key: where[key] for key in known} == known
