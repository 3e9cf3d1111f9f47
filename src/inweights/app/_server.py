"""The server: addresses and answers. It loads no model; what takes time is a job of the worker."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from fastapi import FastAPI, Response
from fastapi import Request as Call
from fastapi.exceptions import RequestValidationError
from fastapi.responses import FileResponse, JSONResponse
from pydantic import ValidationError
from starlette.exceptions import HTTPException

from inweights import __version__
from inweights.app._guard import Guard
from inweights.app._jobs import OVER, FullError, Job, Jobs
from inweights.app._limits import BODY, KINDS, QUEUE, SECONDS, UPLOAD, WAIT, PromptRequest
from inweights.app._names import under
from inweights.app._process import Process
from inweights.app._records import Records
from inweights.app._settings import ServerSettings
from inweights.app._upload import parsed

STATIC = Path(__file__).parent / "static"
TYPES = {".html": "text/html", ".css": "text/css", ".js": "text/javascript", ".svg": "image/svg+xml"}
TOO_LONG = {"string_too_long", "too_long"}
POLL = 0.05
"""Seconds between two checks of a job that a request waits for."""


def make_app(settings: ServerSettings) -> Guard:
    """The application, behind its guard."""
    jobs = Jobs(settings.root, Process(settings.root, settings.models))
    records = Records(settings)

    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        jobs.process.start()  # torch is loaded while the user reads the page
        jobs.start()
        yield
        await asyncio.to_thread(jobs.close)

    app = FastAPI(title="inweights", docs_url=None, redoc_url=None, openapi_url=None, lifespan=lifespan)
    _errors(app)
    _pages(app)
    _work(app, jobs, settings)
    _results(app, jobs, settings, records)
    return Guard(app, settings)


def sentence(error: ValidationError | RequestValidationError) -> str:
    """What is wrong with a request: each field with its problem."""
    parts = []
    for each in list(error.errors())[:5]:
        where = ".".join(str(p) for p in each["loc"] if p != "body")
        parts.append(f"{where}: {each['msg']}" if where else str(each["msg"]))
    return "; ".join(parts)


def _errors(app: FastAPI) -> None:
    @app.exception_handler(HTTPException)
    async def plain(call: Call, error: HTTPException) -> JSONResponse:
        return JSONResponse({"error": str(error.detail)}, error.status_code, headers=error.headers)

    @app.exception_handler(RequestValidationError)
    async def invalid(call: Call, error: RequestValidationError) -> JSONResponse:
        return JSONResponse({"error": sentence(error)}, 422)


def _pages(app: FastAPI) -> None:
    @app.get("/")
    async def index() -> FileResponse:
        return FileResponse(STATIC / "index.html", media_type="text/html")

    @app.get("/static/{name:path}")
    async def static(name: str) -> FileResponse:
        path = under(STATIC, name)
        if path is None or path.suffix not in TYPES:
            raise HTTPException(404, "There is no such file.")
        return FileResponse(path, media_type=TYPES[path.suffix])


def _work(app: FastAPI, jobs: Jobs, settings: ServerSettings) -> None:
    def known(id: str) -> Job:
        if id not in jobs.all:
            raise HTTPException(404, "There is no such job: it may have been dropped as one of the oldest.")
        return jobs.all[id]

    @app.get("/api/state")
    async def state() -> dict[str, Any]:
        recent = sorted(jobs.all.values(), key=lambda j: j.created, reverse=True)
        limits = {"body": BODY, "upload": UPLOAD, "queue": QUEUE, "seconds": SECONDS}
        views = [j.view(len(j.news)) for j in recent]
        return {"version": __version__, "models": settings.models, "limits": limits, "jobs": views}

    @app.post("/api/jobs/{kind}", status_code=202)
    async def submit(kind: str, call: Call) -> dict[str, Any]:
        if kind not in KINDS:
            raise HTTPException(404, f"There is no kind of job {kind!r}.")
        try:
            checked = KINDS[kind].model_validate_json(await call.body())
        except ValidationError as error:
            kinds = {each["type"] for each in error.errors()}
            status = 400 if "json_invalid" in kinds else 413 if kinds <= TOO_LONG else 422
            raise HTTPException(status, sentence(error)) from None
        name = getattr(checked, "model", settings.models[0])
        if name not in settings.models:
            raise HTTPException(422, "This model is not one of those that the server was started with.")
        if isinstance(checked, PromptRequest) and checked.fold is not None:
            known(checked.fold)
        try:
            return jobs.submit(kind, checked.model_dump()).view()
        except FullError:
            words = f"{QUEUE} jobs wait already: try again when one is done."
            raise HTTPException(429, words, {"Retry-After": "2"}) from None

    @app.get("/api/jobs/{id}")
    async def news(id: str, version: int = -1, since: int = 0, wait: float = 0.0) -> dict[str, Any]:
        """The job; with `wait`, as soon as its version is another, or when that time is over."""
        job, end = known(id), time.monotonic() + min(max(wait, 0.0), WAIT)
        while job.version == version and job.state not in OVER and time.monotonic() < end:
            await asyncio.sleep(POLL)
        place = list(jobs.waiting).index(job) + 1 if job in jobs.waiting else 0
        return job.view(max(0, since)) | {"place": place}

    @app.post("/api/jobs/{id}/cancel")
    async def cancel(id: str) -> dict[str, Any]:
        await asyncio.to_thread(jobs.cancel, known(id).id)
        return jobs.all[id].view(len(jobs.all[id].news))

    @app.get("/api/jobs/{id}/result")
    async def result(id: str) -> Response:
        data = jobs.result(known(id).id)
        if data is None:
            raise HTTPException(404, "This job has no result.")
        return Response(data, media_type="application/json")


def _results(app: FastAPI, jobs: Jobs, settings: ServerSettings, records: Records) -> None:
    @app.post("/api/upload")
    async def upload(name: str, call: Call) -> dict[str, Any]:
        status, answer = await asyncio.to_thread(parsed, name, await call.body())
        if status != 200:
            raise HTTPException(status, answer)
        return {"text": answer}

    @app.get("/api/folds")
    async def folds() -> list[dict[str, Any]]:
        made = [j for j in jobs.all.values() if j.kind == "fold"]
        made.sort(key=lambda j: j.created, reverse=True)
        return [j.view(len(j.news)) | {k: j.request[k] for k in ("model", "context", "method")} for j in made]

    @app.get("/api/folds/{id}/adapter.zip")
    async def adapter(id: str) -> FileResponse:
        path = under(settings.root / "folds", f"{id}.zip")
        if id not in jobs.all or path is None:
            raise HTTPException(404, "There is no such adapter.")
        return FileResponse(path, media_type="application/zip", filename=f"inweights-{id}.zip")

    @app.get("/api/ledger")
    async def ledger() -> Response:
        return Response(await asyncio.to_thread(records.ledger), media_type="application/json")

    @app.get("/api/compare")
    async def compare() -> list[dict[str, Any]]:
        return await asyncio.to_thread(records.comparisons)
