"""The papers, each with the folder of its claims."""

from __future__ import annotations

from importlib import import_module
from pathlib import Path

from inweights.ledger import CLAIMS, Claim, Paper

HERE = Path(__file__).parent
DHERIN = Paper(
    "dherin",
    "Learning without training",
    "Dherin et al.",
    "2507.16003",
    2025,
    HERE / "learning_without_training",
    "v4",
)
INNOCENTI = Paper(
    "innocenti",
    "A simple generalisation of the implicit dynamics of in-context learning",
    "Innocenti and Achour",
    "2512.11255",
    2025,
    HERE / "simple_generalisation",
    published="NeurIPS 2025 workshop",
)
GOLDWASER = Paper(
    "goldwaser",
    "Equivalence of context and parameter updates in modern transformer blocks",
    "Goldwaser et al.",
    "2511.17864",
    2025,
    HERE / "modern_blocks",
    "v3",
    published="ICML 2026",
)
MAZZAWI = Paper(
    "mazzawi", "Transmuting prompts into weights", "Mazzawi et al.", "2510.08734", 2025, HERE / "transmuting"
)
OSWALD = Paper(
    "oswald",
    "Transformers learn in-context by gradient descent",
    "von Oswald et al.",
    "2212.07677",
    2023,
    HERE / "gradient_descent",
    published="ICML 2023",
)
AHN = Paper(
    "ahn",
    "Transformers learn to implement preconditioned gradient descent",
    "Ahn et al.",
    "2306.00297",
    2023,
    HERE / "preconditioned",
    published="NeurIPS 2023",
)
FU = Paper(
    "fu",
    "Transformers learn higher-order optimization methods for in-context learning",
    "Fu et al.",
    "2310.17086",
    2023,
    HERE / "second_order",
    published="NeurIPS 2024",
)
AKYUREK = Paper(
    "akyurek",
    "What learning algorithm is in-context learning?",
    "Akyürek et al.",
    "2211.15661",
    2023,
    HERE / "what_algorithm",
    published="ICLR 2023",
)
GARG = Paper(
    "garg",
    "What can transformers learn in-context?",
    "Garg et al.",
    "2208.01066",
    2022,
    HERE / "what_can",
    published="NeurIPS 2022",
)
SHEN = Paper(
    "shen",
    "Do pretrained transformers learn in-context by gradient descent?",
    "Shen et al.",
    "2310.08540",
    2024,
    HERE / "not_gradient_descent",
    published="ICML 2024",
)
DEUTCH = Paper(
    "deutch",
    "In-context learning and gradient descent revisited",
    "Deutch et al.",
    "2311.07772",
    2024,
    HERE / "revisited",
    published="NAACL 2024",
)
DAI = Paper(
    "dai",
    "Why can GPT learn in-context? Language models secretly perform gradient descent as meta-optimizers",
    "Dai et al.",
    "2212.10559",
    2023,
    HERE / "meta_optimizers",
    published="Findings of ACL 2023",
)
FALCK = Paper(
    "falck",
    "Is in-context learning in large language models Bayesian? A martingale perspective",
    "Falck et al.",
    "2406.00793",
    2024,
    HERE / "martingale",
    published="ICML 2024",
)
LI = Paper(
    "li",
    "Transformers as algorithms: generalization and stability in in-context learning",
    "Li et al.",
    "2301.07067",
    2023,
    HERE / "as_algorithms",
    published="ICML 2023",
)
BROWN = Paper(
    "brown",
    "Language models are few-shot learners",
    "Brown et al.",
    "2005.14165",
    2020,
    HERE / "few_shot_learners",
    published="NeurIPS 2020",
)
MIN = Paper(
    "min",
    "Rethinking the role of demonstrations: what makes in-context learning work?",
    "Min et al.",
    "2202.12837",
    2022,
    HERE / "role_of_demonstrations",
    published="EMNLP 2022",
)
WEI = Paper(
    "wei",
    "Larger language models do in-context learning differently",
    "Wei et al.",
    "2303.03846",
    2023,
    HERE / "larger_models",
)
BAI = Paper(
    "bai",
    "Transformers as statisticians: provable in-context learning with in-context algorithm selection",
    "Bai et al.",
    "2306.04637",
    2023,
    HERE / "statisticians",
    published="NeurIPS 2023",
)
RAVENTOS = Paper(
    "raventos",
    "Pretraining task diversity and the emergence of non-Bayesian in-context learning for regression",
    "Raventós et al.",
    "2306.15063",
    2023,
    HERE / "task_diversity",
    published="NeurIPS 2023",
)
REUTER = Paper(
    "reuter",
    "Can transformers learn full Bayesian inference in context?",
    "Reuter et al.",
    "2501.16825",
    2025,
    HERE / "full_bayes",
    published="ICML 2025",
)
OLSSON = Paper(
    "olsson",
    "In-context learning and induction heads",
    "Olsson et al.",
    "2209.11895",
    2022,
    HERE / "induction_heads",
    published="Transformer Circuits Thread 2022",
)
HENDEL = Paper(
    "hendel",
    "In-context learning creates task vectors",
    "Hendel et al.",
    "2310.15916",
    2023,
    HERE / "task_vectors",
    published="Findings of EMNLP 2023",
)
TODD = Paper(
    "todd",
    "Function vectors in large language models",
    "Todd et al.",
    "2310.15213",
    2024,
    HERE / "function_vectors",
    published="ICLR 2024",
)
GEN_LI = Paper(
    "genli",
    "Transformers meet in-context learning: a universal approximation theory",
    "Gen Li et al.",
    "2506.05200",
    2025,
    HERE / "universal_approximation",
    "v2",
)
PARK = Paper(
    "park",
    "Can Mamba learn how to learn? A comparative study on in-context learning tasks",
    "Park et al.",
    "2402.04248",
    2024,
    HERE / "mamba_learns",
    published="ICML 2024",
)
ZHANG = Paper(
    "mosaic", "Memory Mosaics", "Zhang et al.", "2405.06394", 2024, HERE / "memory_mosaics", "v3", published="ICLR 2025"
)
NOTES = Paper("note", "The notes that this project began with", "", "", 2025, HERE / "notes")

PAPERS = (
    DHERIN, INNOCENTI, GOLDWASER, MAZZAWI, OSWALD, AHN, FU, AKYUREK, GARG, SHEN, DEUTCH, DAI, FALCK, LI, BROWN, MIN,
    WEI, BAI, RAVENTOS, REUTER, OLSSON, HENDEL, TODD, GEN_LI, PARK, ZHANG, NOTES,
)  # fmt: skip


def load_all() -> dict[str, Claim]:
    """All claims, by paper and in the order of the paper."""
    for paper in PAPERS:
        import_module(f"inweights.papers.{paper.folder.name}")
    return dict(sorted(CLAIMS.items(), key=lambda item: PAPERS.index(item[1].paper)))
