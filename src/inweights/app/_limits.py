"""The limits of a request: sizes, counts, times. Everything else is refused before any work."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field, StringConstraints

BODY = 256 * 1024
"""Bytes of a request."""
UPLOAD = 4 * 1024 * 1024
"""Bytes of a document."""
AT_ONCE = 100
"""Requests that are answered at the same time."""
QUEUE = 8
"""Jobs that wait."""
KEPT = 60
"""Finished jobs, other than folds, that are remembered."""
WAIT = 10.0
"""Seconds that a request for changes of a job is held open, and that a body may take to arrive."""
LINGER = 1.0
"""Seconds for which the rest of a refused body is discarded."""
SECONDS = {"prompt": 300, "layer": 300, "fold": 4 * 3600, "chat": 300, "trajectory": 300, "claim": 600, "rows": 600}
"""Wall time of a job of each kind."""
NAME = r"^[A-Za-z0-9._-]{1,64}$"

Name = Annotated[str, StringConstraints(pattern=NAME)]
Short = Annotated[str, StringConstraints(min_length=1, max_length=2000)]
Long = Annotated[str, StringConstraints(min_length=1, max_length=12_000)]


class Request(BaseModel):
    """A request has these fields and no others."""

    model_config = ConfigDict(extra="forbid", frozen=True)


class OnModel(Request):
    """A request to a model of the list."""

    model: Annotated[str, StringConstraints(min_length=1, max_length=300)]


class PromptRequest(OnModel):
    """A context and a query: updates, proof, continuations."""

    context: Long
    query: Short
    chat: bool = False
    dtype: Literal["float64", "float32"] = "float64"
    new_tokens: Annotated[int, Field(ge=1, le=64)] = 24
    strength: Annotated[float, Field(ge=0, le=1.5)] = 1.0
    fold: Name | None = None


class LayerRequest(PromptRequest):
    """One layer of the same, and one of its context tokens."""

    layer: Annotated[int, Field(ge=0, le=500)]
    token: Annotated[int, Field(ge=0, le=20_000)] = 0


class Asked(Request):
    """A question of the user's own, and what a right answer contains."""

    query: Short
    answer: Annotated[str, StringConstraints(min_length=1, max_length=200)]


class FoldRequest(OnModel):
    """A prompt to fold; the questions are never studied, and decide which facts are known."""

    context: Annotated[str, StringConstraints(min_length=1, max_length=60_000)]
    method: Literal["match", "closed", "vector"] = "match"
    calibration: Annotated[int, Field(ge=8, le=256)] = 64
    questions: Annotated[list[Asked], Field(max_length=64)] = []


class PastTurn(Request):
    """A turn of the conversation so far."""

    query: Short
    answer: Annotated[str, StringConstraints(max_length=4000)]


class ChatRequest(Request):
    """The next turn of three conversations."""

    fold: Name
    query: Short
    prompted: Annotated[list[PastTurn], Field(max_length=8)] = []
    bare: Annotated[list[PastTurn], Field(max_length=8)] = []
    folded: Annotated[list[PastTurn], Field(max_length=8)] = []
    new_tokens: Annotated[int, Field(ge=1, le=96)] = 48


class TrajectoryRequest(OnModel):
    """The implicit descent of one query, and the linear regression beside it."""

    context: Long
    query: Short
    chat: bool = False
    examples: Annotated[int, Field(ge=2, le=40)] = 20
    seed: Annotated[int, Field(ge=0, le=10_000)] = 0


class ClaimRequest(Request):
    """An exact claim of the ledger."""

    id: Name


class RowsRequest(Request):
    """Training rows of a table, those that stay in the context by their numbers."""

    data: Literal["iris", "wine", "breast_cancer"] = "iris"
    rows: Annotated[int, Field(ge=4, le=60)] = 30
    kept: Annotated[list[Annotated[int, Field(ge=0, lt=60)]], Field(min_length=2, max_length=60)]
    grid: Annotated[int, Field(ge=4, le=20)] = 12
    seed: Annotated[int, Field(ge=0, le=10_000)] = 0


KINDS: dict[str, type[Request]] = {
    "prompt": PromptRequest, "layer": LayerRequest, "fold": FoldRequest, "chat": ChatRequest,
    "trajectory": TrajectoryRequest, "claim": ClaimRequest, "rows": RowsRequest,
}  # fmt: skip
