"""The requests behind the page."""

from __future__ import annotations

import asyncio
import gc
import json
import os
import re
import shutil
import threading
import time
import tracemalloc
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from fastapi.testclient import TestClient
from folders import BEGIN, Answering, Folder

from penstock.dashboard.serve import _anew, _newer, serve
from penstock.dashboard.server import make_app
from penstock.dashboard.watcher import WAITING, Watcher, event
from penstock.monitor.run import RunView


@pytest.fixture
def watcher(tmp_path: Path) -> Watcher:
    """A watcher of a run of 20 batches that has looked once."""
    folder = Folder(tmp_path)
    folder.grow(20)
    found = Watcher(RunView(tmp_path), clock=lambda: BEGIN + 43)
    found.look()
    return found


@pytest.fixture
def client(watcher: Watcher) -> TestClient:
    """Somebody who asks."""
    return TestClient(make_app(watcher, token="right"), base_url="http://127.0.0.1:8765")  # noqa: S106


def test_the_page_needs_no_network(client: TestClient) -> None:
    """The page and what it loads come from here alone, and the browser is told to load nothing else."""
    page = client.get("/")
    assert page.status_code == 200
    assert "default-src 'none'" in page.headers["content-security-policy"]
    assert page.headers["x-content-type-options"] == "nosniff"
    here = Path(__file__).parent.parent.parent / "src/penstock/dashboard/page"
    for file in here.iterdir():
        text = file.read_text()
        assert "https://" not in text, file.name
        assert client.get(f"/static/{file.name}").status_code == 200


def test_enter_means_yes(client: TestClient) -> None:
    """Of each form the only button that submits is the main one: it is what Enter in a field presses."""
    forms = re.findall(r"<form.*?</form>", client.get("/").text, re.DOTALL)
    assert len(forms) == 3
    for form in forms:
        submits = [tag for tag in re.findall(r"<button[^>]*>", form) if 'type="button"' not in tag]
        assert ['class="main"' in tag for tag in submits] == [True]


def test_documents_are_json(client: TestClient) -> None:
    """About, live and history are plain JSON, and say the same as the view."""
    about, live = client.get("/api/about").json(), client.get("/api/live").json()
    assert about["name"] == "shop"
    assert about["operators"]["views"]["where"] == "kind = 'view'"
    assert len(live["series"]["rates"]) == len(about["streams"]) == 3
    assert all(len(row) == live["length"] for row in live["series"]["rates"])
    assert client.get("/api/history").json() == {"decisions": []}


def test_openapi_names_every_request(client: TestClient) -> None:
    """The description at /api is OpenAPI and names every request with its meaning."""
    found = client.get("/api").json()
    assert found["openapi"].startswith("3.")
    assert {"/api/about", "/api/live", "/api/what-if", "/metrics", "/healthz"} <= set(found["paths"])
    for path in found["paths"].values():
        for request in path.values():
            assert request["description"]


def test_health_and_metrics(client: TestClient) -> None:
    """The health check says ok, and metrics are text for Prometheus."""
    assert client.get("/healthz").text == "ok\n"
    found = client.get("/metrics")
    assert found.headers["content-type"].startswith("text/plain; version=0.0.4")
    assert 'penstock_stream_rows_total{stream="clicks->views"}' in found.text


def test_questions_are_answered_or_refused(client: TestClient) -> None:
    """A what-if question is answered; a wrong one is refused in a sentence, with 422."""
    found = client.post("/api/what-if", json={"rates": {"clicks": 300}}).json()
    assert found["fits"]
    refused = client.post("/api/what-if", json={"rates": {"clik": 300}})
    assert refused.status_code == 422
    assert "did you mean 'clicks'" in refused.json()["detail"]


@pytest.mark.parametrize(
    ("body", "says"),
    [
        ({"rate": {"clicks": 300}}, "rate: is no key (did you mean 'rates'?)"),
        ({"foo": 1}, "foo: is no key (keys: rates, duration, placement, algorithm, keep, shed)"),
        ({"rates": {"clicks": "many"}}, "rates.clicks: input should be a valid number"),
        ([], "the request: input should be a valid dictionary"),
        ("{", "the request is no JSON: "),
    ],
)
def test_misspelt_questions_are_refused_in_a_sentence(client: TestClient, body: object, says: str) -> None:
    """A body that is not understood is answered with one sentence, not with what a validator holds."""
    text = body if isinstance(body, str) else json.dumps(body)
    refused = client.post("/api/what-if", content=text, headers={"Content-Type": "application/json"})
    assert refused.status_code == 422
    assert refused.json()["detail"].startswith(says)
    assert "\n" not in refused.json()["detail"]


def test_whoever_begins_early_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Where no run is yet, the terminal says so and names the folder; where one is, it does not."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("uvicorn.Server.run", lambda *_, **__: None)
    serve([], port=0)
    assert f"no run is in {tmp_path / '.penstock'} yet: the page fills when one starts there" in capsys.readouterr().err
    Folder(tmp_path / ".penstock" / "one")
    serve([], port=0)
    told = capsys.readouterr().err
    assert "penstock dashboard: http://127.0.0.1:" in told
    assert "no run" not in told


def test_actions_need_the_token(client: TestClient) -> None:
    """Nothing is asked of a controller without the token, nor where none runs."""
    wanted = {"kind": "move", "operator": "scored", "host": "h1"}
    assert client.post("/api/actions", json=wanted).status_code == 401
    wrong = client.post("/api/actions", json=wanted, headers={"Authorization": "Bearer left"})
    assert wrong.status_code == 401
    none = client.post("/api/actions", json=wanted, headers={"Authorization": "Bearer right"})
    assert none.status_code == 422
    assert "no controller runs here" in none.json()["detail"]


def test_a_token_of_any_letters(watcher: Watcher) -> None:
    """A token may hold any letters, sent as UTF-8; another one is refused, not an error."""
    client = TestClient(make_app(watcher, token="geheimüÅ→"), base_url="http://127.0.0.1:8765")  # noqa: S106

    def status(token: str) -> int:
        header = {b"Authorization": f"Bearer {token}".encode()}
        return client.post("/api/actions", json={"kind": "stop"}, headers=header).status_code  # type: ignore[arg-type]

    assert status("geheimüÅ→") == 422  # nothing runs here that could be stopped
    assert status("geheim") == status("geheimü") == 401
    client = TestClient(make_app(watcher, token="right"), base_url="http://127.0.0.1:8765")  # noqa: S106
    assert status("rightü") == 401
    assert status("right") == 422


@pytest.mark.parametrize("chosen", ["right\r", " right \n", "right"])
def test_what_surrounds_a_token_is_no_part_of_it(watcher: Watcher, chosen: str) -> None:
    """A token that was read with the end of its line is the one without it; a blank one is none."""
    client = TestClient(make_app(watcher, token=chosen), base_url="http://127.0.0.1:8765")
    header = {"Authorization": "Bearer right"}
    assert client.post("/api/actions", json={"kind": "stop"}, headers=header).status_code == 422
    client = TestClient(make_app(watcher, token=" \r"), base_url="http://127.0.0.1:8765")  # noqa: S106
    assert client.post("/api/actions", json={"kind": "stop"}, headers={"Authorization": "Bearer"}).status_code == 401


@pytest.mark.parametrize(
    ("path", "token", "status", "most"),
    [("/api/actions", b"left", 401, 0), ("/api/actions", b"right", 413, 5), ("/api/what-if", b"", 413, 5)],
)
def test_an_endless_body_is_not_read(watcher: Watcher, path: str, token: bytes, status: int, most: int) -> None:
    """Of a body little more is read than ours have, and nothing without the token where one is needed."""
    app, read, told = make_app(watcher, token="right"), list[int](), list[Any]()  # noqa: S106

    async def receive() -> dict[str, Any]:
        read.append(2**14)
        return {"type": "http.request", "body": b" " * 2**14, "more_body": True}

    async def send(message: Any) -> None:
        told.append(message)

    headers = [(b"host", b"localhost"), (b"content-type", b"application/json"), (b"authorization", b"Bearer " + token)]
    scope = {"type": "http", "method": "POST", "path": path, "headers": headers, "query_string": b""}
    asyncio.run(app(scope, receive, send))
    assert told[0]["status"] == status
    assert len(read) <= most


def test_a_stop_is_shown_where_something_runs(tmp_path: Path) -> None:
    """What a stop would do is told while a controller runs; where none does, it is refused as the stop would be."""
    Folder(tmp_path)
    watcher = Watcher(RunView(tmp_path), clock=lambda: BEGIN + 43)
    client = TestClient(make_app(watcher, token="right"), base_url="http://127.0.0.1:8765")  # noqa: S106
    header = {"Authorization": "Bearer right"}
    watcher.look()
    assert client.post("/api/actions", json={"kind": "stop"}, headers=header).status_code == 422
    with Answering(tmp_path) as controller:
        watcher.look()
        told = client.post("/api/actions", json={"kind": "stop"}, headers=header)
        assert told.json() == {"done": False, "why": "the controller and what it runs would stop"}
        assert controller.asked == []


@pytest.mark.parametrize("host", ["no.such.host.invalid", "x" * 80, "192.0.2.1"])
def test_a_host_that_is_none_is_named(
    penstock: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, host: str
) -> None:
    """An address that is unknown, or of another machine, is a fault of --host and not of --port."""
    monkeypatch.setattr("uvicorn.Server.run", lambda *_, **__: None)
    Folder(tmp_path)
    done = penstock("dashboard", tmp_path, "--port", 0, "--host", host)
    assert done.code == 2
    assert done.err.startswith("penstock: --host: ")
    assert "--port" not in done.err


@pytest.mark.parametrize("port", [-1, 65_536, 99_999])
def test_ports_that_are_none_are_refused(
    penstock: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, port: int
) -> None:
    """A port outside the range is refused: nobody shall find the page elsewhere."""
    monkeypatch.setattr("uvicorn.Server.run", lambda *_, **__: None)
    Folder(tmp_path)
    done = penstock("dashboard", tmp_path, "--port", port)
    assert done.code == 2
    assert f"--port: expected a port from 0 to 65535, got {port}" in done.err


def test_strange_names_are_refused(watcher: Watcher) -> None:
    """Whoever reaches us by a name that is not ours is sent away: it may be a web page from elsewhere."""
    app = make_app(watcher)
    for name in ("evil.example", "testserver"):
        assert TestClient(app, base_url=f"http://{name}").get("/api/about").status_code == 403
    assert TestClient(app, base_url="http://localhost:1").get("/api/about").status_code == 200
    client = TestClient(app, base_url="http://localhost")
    for odd in ("a`b.evil.com", "[::1", "", "::1", "localhost:80:80", "user@localhost", "[localhost"):
        assert client.get("/api/about", headers={"Host": odd}).status_code == 403
    for ours in ("[::1]:80", "LocalHost", "127.0.0.1:8765"):
        assert client.get("/api/about", headers={"Host": ours}).status_code == 200
    assert TestClient(make_app(watcher, names=()), base_url="http://evil.example").get("/").status_code == 200


def test_nothing_to_see_yet() -> None:
    """Before there is a run the page comes, and the documents do not."""
    client = TestClient(make_app(Watcher(None)), base_url="http://127.0.0.1")
    assert client.get("/").status_code == 200
    assert client.get("/api/about").status_code == 404
    assert client.get("/metrics").text == ""


class Broken(RunView):
    """A view whose looks fail until it is mended."""

    mended = False

    def look(self, now: float) -> None:
        """Fail with an error that nobody foresaw."""
        if not self.mended:
            raise IndexError("out of range")
        super().look(now)


def test_the_watcher_outlives_errors_and_says_so(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """An error that nobody foresaw does not end the watcher: pages and health check are told, until it is over."""
    Folder(tmp_path).grow(2)
    view, told = Broken(tmp_path), list[str]()
    watcher = Watcher(view, clock=lambda: BEGIN + 43, period=0.01)
    watcher._tell = told.append  # type: ignore[method-assign]
    client = TestClient(make_app(watcher), base_url="http://127.0.0.1")
    watcher.start()
    try:
        until(lambda: bool(told))
        assert told[0] == event(
            "trouble", "The dashboard cannot read the run and tries again: IndexError: out of range"
        )
        assert client.get("/healthz").status_code == 503
        view.mended = True
        until(lambda: any(message.startswith("event: live") for message in told))
        until(lambda: client.get("/healthz").status_code == 200)
        assert event("trouble", None) in told
    finally:
        watcher.end()
        watcher.join(5)
    assert capfd.readouterr().err.count("please report it") == 1


@pytest.mark.parametrize(
    ("broken", "says"),
    [("{", "/run.json: is damaged"), ('{"placement": {}, "units": null}', ": is damaged, or of another version")],
)
def test_a_run_that_cannot_be_read_hides_no_other(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, broken: str, says: str
) -> None:
    """The newest run that can be read is shown; page and health check say why a newer one is not, until it can."""
    monkeypatch.chdir(tmp_path)
    good, bad = (Folder(tmp_path / ".penstock" / name, run=name) for name in ("good", "bad"))
    for folder, age in ((good, 20), (bad, 10)):
        os.utime(folder.path / "about.json", (BEGIN - age, BEGIN - age))
    whole = (bad.path / "run.json").read_text()
    (bad.path / "run.json").write_text(broken)
    watcher, told = Watcher(None, _newer, clock=lambda: BEGIN + 43), list[str]()
    watcher._tell = told.append  # type: ignore[method-assign]
    client = TestClient(make_app(watcher), base_url="http://127.0.0.1")
    for _ in range(2):
        watcher._find()
    assert isinstance(watcher.view, RunView)
    assert watcher.view.identity == "good"
    health = client.get("/healthz")
    assert health.status_code == 200
    assert health.text.startswith(f"ok\n.penstock/bad{says}")
    alert = f"You see an older run, since what is there now cannot be read: {watcher.unread}"
    assert told == [event("trouble", alert)] == watcher.everything()[-1:]
    (good.path / "run.json").unlink()
    watcher.view = None
    watcher._find()
    assert client.get("/healthz").status_code == 503
    (bad.path / "run.json").write_text(whole)
    watcher._find()
    assert watcher.view is not None
    assert client.get("/healthz").text == "ok\n"
    assert told[-1] == event("trouble", None)


def test_what_waits_for_a_page_that_does_not_read_is_bounded(tmp_path: Path) -> None:
    """A page that reads nothing has a few messages wait for it, and gets everything anew when it reads again."""
    Folder(tmp_path).grow(2)
    watcher = Watcher(RunView(tmp_path), clock=lambda: BEGIN + 43)

    async def page() -> None:
        heard = watcher.listen()
        everything = [await anext(heard), await anext(heard)]
        for number in range(WAITING + 1000):
            watcher._tell(event("beat", {"now": float(number)}))
            await asyncio.sleep(0)
        (queue,) = watcher._pages
        assert queue.qsize() <= WAITING
        assert [await anext(heard), await anext(heard)] == everything
        watcher._tell(event("beat", None))
        assert await anext(heard) == event("beat", None)
        watcher.end()
        assert [each async for each in heard] == []

    asyncio.run(page())


def test_an_end_in_mid_look_is_no_fault(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """A watcher that is ended while it looks finishes its look, hands in what is to be worked out, and says nothing."""
    Folder(tmp_path).grow(2)
    worked = threading.Event()

    class Ending(RunView):
        """A view that is no longer wanted once it has been seen."""

        def look(self, now: float) -> None:
            """Look, and end the watcher."""
            super().look(now)
            watcher.end()

        def needs_expecting(self, now: float) -> Callable[[], object]:
            """Return something to be worked out."""
            return worked.set

    watcher = Watcher(Ending(tmp_path), clock=lambda: BEGIN + 43)
    watcher.start()
    watcher.join(10)
    assert not watcher.is_alive()
    assert worked.wait(10)
    assert capfd.readouterr().err == ""


def test_a_run_that_begins_anew_is_shown(tmp_path: Path) -> None:
    """Another run in the folder that was named takes the place of the one before; a folder that is gone is told."""
    Folder(tmp_path / "run", run="first").grow(2)
    watcher = Watcher(RunView(tmp_path / "run"), _anew, clock=lambda: BEGIN + 43)
    watcher._find()
    assert isinstance(watcher.view, RunView)
    assert watcher.view.identity == "first"
    shutil.rmtree(tmp_path / "run")
    watcher._find()
    assert "no run is in this folder" in str(watcher.unread)
    Folder(tmp_path / "run", run="second").grow(1)
    watcher._find()
    assert watcher.view.identity == "second"
    assert watcher.unread is None


def test_hosts_are_indexed_by_an_order_that_json_keeps(client: TestClient) -> None:
    """The page finds a host's series by the order that it is told, not by that of an object's keys."""
    assert client.get("/api/about").json()["host_order"] == ["h1", "h2"]
    page = Path(__file__).parent.parent.parent / "src/penstock/dashboard/page"
    assert not [file.name for file in page.glob("*.js") if "Object.keys(about.hosts)" in file.read_text()]


def test_actions_name_what_they_need(client: TestClient) -> None:
    """An action without what it is about is refused before a controller is asked."""
    header = {"Authorization": "Bearer right"}
    for body, key in (({"kind": "move", "operator": "scored"}, "host"), ({"kind": "drain"}, "host")):
        refused = client.post("/api/actions", json=body, headers=header)
        assert refused.status_code == 422
        assert refused.json()["detail"].startswith(f"{key}: is missing")


@pytest.mark.parametrize("path", ["/", "/healthz", "/metrics"])
def test_probes_may_ask_for_the_head_alone(client: TestClient, path: str) -> None:
    """What is asked for by HEAD answers as for GET."""
    assert client.head(path).status_code == 200


def until(holds: Callable[[], bool], patience: float = 10.0) -> None:
    """Wait until something holds."""
    end = time.monotonic() + patience
    while not holds():
        assert time.monotonic() < end
        time.sleep(0.01)


@pytest.mark.slow
def test_an_hour_of_a_run_does_not_grow(tmp_path: Path) -> None:
    """After an hour of updates the dashboard holds as much memory as after a quarter of it: the window slides."""
    folder = Folder(tmp_path)
    now = [BEGIN]
    watcher = Watcher(RunView(tmp_path), clock=lambda: now[0])
    held = []
    tracemalloc.start()
    try:
        for _ in range(4):
            for _ in range(15):
                # Each look is at a minute more of the run.
                folder.grow(30)
                now[0] += 60
                watcher.look()
            gc.collect()
            held.append(tracemalloc.get_traced_memory()[0])
    finally:
        tracemalloc.stop()
        watcher.end()
    assert held[3] <= 1.1 * held[1] + 200_000, held


def test_what_if_is_quick(client: TestClient) -> None:
    """A question is answered within 300 ms of the processor, once the kernels are loaded."""
    question = {"rates": {"clicks": 300}, "duration": 60, "shed": True}
    client.post("/api/what-if", json=question)
    took = []
    for _ in range(3):
        begin = time.process_time()
        assert client.post("/api/what-if", json=question).status_code == 200
        took.append(time.process_time() - begin)
    assert min(took) <= 0.3


def test_updates_add_up(tmp_path: Path) -> None:
    """All updates put together are the document that is got at once."""
    folder = Folder(tmp_path)
    now = [BEGIN]
    view = RunView(tmp_path)
    watcher = Watcher(view, clock=lambda: now[0])
    told: list[str] = []
    watcher._tell = told.append  # type: ignore[method-assign]
    for _ in range(25):
        folder.grow()
        now[0] += 2
        watcher.look()
    time.sleep(0.1)
    held: dict[str, list[object]] = {}
    for message in told:
        kind, _, data = message.partition("\ndata: ")
        if kind == "event: live":
            live = json.loads(data)
            for key in ("rates", "busy", "backlog"):
                for n, values in enumerate(live["series"][key]):
                    row = held.setdefault(f"{key}{n}", [])
                    del row[live["from"] :]
                    row += [None] * (live["from"] - len(row)) + values
    whole = json.loads(event("live", view.live(now[0])).partition("\ndata: ")[2])
    for key in ("rates", "busy", "backlog"):
        for n, values in enumerate(whole["series"][key]):
            assert held[f"{key}{n}"] == values, f"{key}{n}"
