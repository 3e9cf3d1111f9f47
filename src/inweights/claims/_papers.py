"""The papers, and the files that their claims are in."""

from __future__ import annotations

from importlib import import_module

from inweights.claims._claim import CLAIMS, Claim, Paper

DHERIN = Paper("dherin", "Learning without training", "Dherin et al.", "2507.16003", 2025)
INNOCENTI = Paper(
    "innocenti",
    "A simple generalisation of the implicit dynamics of in-context learning",
    "Innocenti and Achour",
    "2512.11255",
    2025,
)
GOLDWASER = Paper(
    "goldwaser",
    "Equivalence of context and parameter updates in modern transformer blocks",
    "Goldwaser et al.",
    "2511.17864",
    2025,
)
MAZZAWI = Paper("mazzawi", "Transmuting prompts into weights", "Mazzawi et al.", "2510.08734", 2025)
OSWALD = Paper("oswald", "Transformers learn in-context by gradient descent", "von Oswald et al.", "2212.07677", 2023)
AHN = Paper("ahn", "Transformers learn to implement preconditioned gradient descent", "Ahn et al.", "2306.00297", 2023)
FU = Paper(
    "fu",
    "Transformers learn higher-order optimization methods for in-context learning",
    "Fu et al.",
    "2310.17086",
    2023,
)
AKYUREK = Paper("akyurek", "What learning algorithm is in-context learning?", "Akyürek et al.", "2211.15661", 2023)
GARG = Paper("garg", "What can transformers learn in-context?", "Garg et al.", "2208.01066", 2022)
NOTES = Paper("note", "The notes that this project began with", "", "", 2025)

FILES = {
    DHERIN: "learning_without_training",
    INNOCENTI: "simple_generalisation",
    GOLDWASER: "modern_blocks",
    MAZZAWI: "transmuting",
    OSWALD: "gradient_descent",
    AHN: "preconditioned",
    FU: "second_order",
    AKYUREK: "what_algorithm",
    GARG: "what_can",
    NOTES: "notes",
}


def load_all() -> dict[str, Claim]:
    """All claims, by paper and in the order of the paper."""
    for file in FILES.values():
        import_module(f"inweights.claims.{file}")
    papers = list(FILES)
    return dict(sorted(CLAIMS.items(), key=lambda item: papers.index(item[1].paper)))
