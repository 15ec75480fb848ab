"""The requests behind the page."""

from __future__ import annotations

import hmac
import re
import secrets
from collections.abc import Awaitable, Callable, Coroutine
from importlib import resources
from string import whitespace
from typing import Any, Literal

from fastapi import Depends, FastAPI, HTTPException, Request, Response
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse, PlainTextResponse, StreamingResponse
from fastapi.routing import APIRoute
from fastapi.security import HTTPBearer
from fastapi.staticfiles import StaticFiles
from pydantic import BaseModel, Field
from starlette.types import Message

import penstock
from penstock.dashboard.watcher import Watcher
from penstock.errors import InputError, PenstockError
from penstock.files import Document, plain, suggest
from penstock.monitor import Question, View
from penstock.monitor.exposition import exposition

LOOPBACK = ("127.0.0.1", "localhost", "::1")
"""Names by which a page on this machine may ask; others are refused: a web page elsewhere may have our address."""

_HOST = re.compile(r"(?:\[([^][]+)\]|([^][:]+))(?::\d*)?")
"""Header ``Host``: a name or address, and a port."""

MOST_BODY = 2**16
"""Bytes of a request's body; none of ours has more."""

HEADERS = {
    "Content-Security-Policy": "default-src 'none'; script-src 'self'; style-src 'self' 'unsafe-inline'; "
    "img-src 'self' data:; connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cache-Control": "no-store",
}


class WhatIf(BaseModel, extra="forbid"):
    """What would happen if …"""

    rates: dict[str, float] = Field(default_factory=dict, description="Rows per second by source.")
    duration: float = Field(60.0, description="How long these rates last (s).")
    placement: dict[str, str] = Field(default_factory=dict, description="Operators that would run elsewhere.")
    algorithm: str | None = Field(None, description="Place everything by this algorithm instead.")
    keep: dict[str, float] = Field(default_factory=dict, description="Keep fractions by stream.")
    shed: bool = Field(False, description="Drop as much as the hosts need.")


class Act(BaseModel, extra="forbid"):
    """What shall be done."""

    kind: Literal["move", "drain", "stop"] = Field(description="What to do.")
    operator: str | None = Field(None, description="What moves.")
    host: str | None = Field(None, description="Where it moves to, or what is emptied.")
    dry: bool = Field(True, description="Only say what it would do.")


NEEDED: dict[str, tuple[str, ...]] = {"move": ("operator", "host"), "drain": ("host",), "stop": ()}
"""What each kind of action has to name."""

BODIES: dict[str, type[BaseModel]] = {"/api/what-if": WhatIf, "/api/actions": Act}
"""What is expected of each request that has a body."""


TOKEN = Depends(HTTPBearer(auto_error=False))
"""What a request depends on that needs the token; before its body is read, see `_Bounded`."""


class _Bounded(APIRoute):
    """A request whose body is read as far only as ours go, and not before its token was seen where it needs one."""

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        handle = super().get_route_handler()

        async def handled(request: Request) -> Response:
            if TOKEN in self.dependencies:
                allowed(request.app.state.token, request.headers.get("authorization"))
            count = 0

            async def receive() -> Message:
                nonlocal count
                message = await request.receive()
                count += len(message.get("body", b""))
                if count > MOST_BODY:
                    raise HTTPException(413, f"expected a body of at most {MOST_BODY >> 10} kB")
                return message

            return await handle(Request(request.scope, receive))

        return handled


def make_app(watcher: Watcher, *, token: str | None = None, names: tuple[str, ...] = LOOPBACK) -> FastAPI:
    """Return the application.

    Parameters
    ----------
    watcher
        What is looked at; whoever serves starts and ends it.
    token
        Without it nothing that changes anything is done; None, or blank: a new one.
    names
        Host names by which it may be asked; empty: all.
    """
    app = FastAPI(
        title="penstock",
        version=penstock.__version__,
        description="What penstock's dashboard shows, for programs.",
        openapi_url="/api",
        docs_url=None,
        redoc_url=None,
    )
    # Headers come without blanks around them, so that no token can have any.
    app.state.token = (token or "").strip(whitespace) or secrets.token_urlsafe(24)
    app.router.route_class = _Bounded
    _guard(app, names)
    _serve_page(app, watcher)
    _serve_views(app, watcher)
    _serve_questions(app, watcher)
    return app


def _guard(app: FastAPI, names: tuple[str, ...]) -> None:
    """Refuse other names, put the headers on every answer, and turn errors into statuses."""

    @app.middleware("http")
    async def guard(request: Request, proceed: Callable[[Request], Awaitable[Response]]) -> Response:
        if names and name_of(request.headers.getlist("host")) not in names:
            return PlainTextResponse("this name is not served\n", 403)
        response = await proceed(request)
        response.headers.update(HEADERS)
        return response

    @app.exception_handler(PenstockError)
    async def refused(_: Request, error: PenstockError) -> JSONResponse:
        return JSONResponse({"detail": str(error)}, 422 if isinstance(error, InputError) else 409)

    @app.exception_handler(RequestValidationError)
    async def misunderstood(request: Request, error: RequestValidationError) -> JSONResponse:
        wrong = error.errors()[0]
        return JSONResponse({"detail": str(wrong_body(wrong, BODIES.get(request.url.path)))}, 422)


def _serve_page(app: FastAPI, watcher: Watcher) -> None:
    """Serve the page, its health, and metrics."""
    page = resources.files("penstock.dashboard") / "page"

    @app.api_route("/", methods=["GET", "HEAD"], include_in_schema=False)
    def index() -> Response:
        return Response((page / "index.html").read_bytes(), media_type="text/html; charset=utf-8")

    @app.head("/healthz", include_in_schema=False)
    @app.get("/healthz", response_class=PlainTextResponse)
    def healthy() -> Response:
        """Say that the dashboard lives, and why a newer run is not shown; 503 and why, while it can read nothing."""
        if watcher.trouble is not None:
            return PlainTextResponse(f"{watcher.trouble}\n", 503)
        return PlainTextResponse("ok\n" if watcher.unread is None else f"ok\n{watcher.unread}\n")

    @app.head("/metrics", include_in_schema=False)
    @app.get("/metrics", response_class=PlainTextResponse)
    def metrics() -> Response:
        """Return the metrics in Prometheus' text format."""
        text = "" if watcher.view is None else exposition(watcher.view, watcher.clock())
        return Response(text, media_type="text/plain; version=0.0.4; charset=utf-8")

    app.mount("/static", StaticFiles(directory=str(page)), name="static")


def _serve_views(app: FastAPI, watcher: Watcher) -> None:
    """Serve what is seen."""

    @app.get("/api/about")
    def about() -> Any:
        """Return what is looked at: network, hosts, placement."""
        return plain(view_of(watcher).about())

    @app.get("/api/live")
    def live() -> Any:
        """Return what is measured and predicted, over the window."""
        return plain(view_of(watcher).live(watcher.clock()))

    @app.get("/api/history")
    def history() -> Any:
        """Return the decisions, the oldest first."""
        return {"decisions": plain(view_of(watcher).decisions)}

    @app.get("/api/events", response_class=StreamingResponse)
    def events() -> StreamingResponse:
        """Stream what is new, as server-sent events: about, live, beat."""
        return StreamingResponse(watcher.listen(), media_type="text/event-stream")


def _serve_questions(app: FastAPI, watcher: Watcher) -> None:
    """Serve what-if questions, and hand actions to the controller."""

    @app.post("/api/what-if")
    def ask(question: WhatIf) -> Any:
        """Say what would happen under other rates, on another placement, with other drops. Nothing is changed."""
        return plain(view_of(watcher).ask(Question(**question.model_dump())))

    @app.post("/api/actions", dependencies=[TOKEN])
    def act(wanted: Act) -> Any:
        """Ask the controller to move an operator, empty a host, or stop. Needs the token, also for a dry run."""
        for key in NEEDED[wanted.kind]:
            if getattr(wanted, key) is None:
                raise InputError(
                    "is missing", at=key, hint=f"a {wanted.kind} needs {' and '.join(NEEDED[wanted.kind])}"
                )
        given = {key: value for key, value in wanted.model_dump().items() if key != "kind" and value is not None}
        view = view_of(watcher)
        if wanted.kind == "stop" and wanted.dry:
            if "stop" not in view.actions:
                raise InputError("nothing runs here that could be stopped", file=view.folder)
            return {"done": False, "why": "the controller and what it runs would stop"}
        return plain(view.act(wanted.kind, given))


def wrong_body(wrong: Document, body: type[BaseModel] | None) -> InputError:
    """Return in one sentence what is wrong with a request.

    Parameters
    ----------
    wrong
        What the validator found first.
    body
        What was expected.
    """
    if wrong["type"] == "json_invalid":
        return InputError(f"the request is no JSON: {wrong['ctx']['error']}")
    at = ".".join(str(part) for part in wrong["loc"][1:])
    if wrong["type"] == "extra_forbidden" and body is not None:
        return InputError("is no key", at=at, hint=suggest(at, body.model_fields, "keys"))
    says = str(wrong["msg"])
    return InputError(says[:1].lower() + says[1:], at=at or "the request")


def view_of(watcher: Watcher) -> View:
    """Return what is looked at, or answer that there is nothing yet."""
    if watcher.view is None:
        raise HTTPException(404, "there is nothing to see yet")
    return watcher.view


def name_of(hosts: list[str]) -> str:
    """Return the name in the headers ``Host`` of a request; empty where it has none, more than one, or an odd one.

    Examples
    --------
    >>> name_of(["LocalHost:80"]), name_of(["[::1]:80"]), name_of(["[::1"]), name_of([])
    ('localhost', '::1', '', '')
    """
    found = _HOST.fullmatch(hosts[0].lower()) if len(hosts) == 1 else None
    return "" if found is None else found[1] or found[2]


def allowed(token: str, given: str | None) -> None:
    """Refuse whoever does not have the token, whose bytes are compared: it may hold any letters.

    Parameters
    ----------
    token
        Needed.
    given
        The header, as HTTP reads it: a letter a byte.

    Raises
    ------
    HTTPException
        401.
    """
    scheme, _, word = (given or "").encode("latin-1").partition(b" ")
    if scheme.lower() != b"bearer" or not hmac.compare_digest(word.strip(), token.encode(errors="surrogateescape")):
        raise HTTPException(401, "this needs the token that `penstock dashboard` printed")
