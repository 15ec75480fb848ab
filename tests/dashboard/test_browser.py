"""The page in a real Chromium."""

from __future__ import annotations

import contextlib
import fcntl
import re
import shutil
import socket
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import attrs
import numpy as np
import pytest
import uvicorn
from axe_playwright_python.sync_playwright import Axe
from folders import Answering, Folder, setting
from playwright.sync_api import Browser, Page, expect, sync_playwright

from penstock.cluster import Cluster, Placement
from penstock.dashboard.server import make_app
from penstock.dashboard.watcher import Watcher
from penstock.load.setting import Setting
from penstock.monitor import open_view
from penstock.monitor.run import RunView
from penstock.network.shapes import hybrid
from penstock.workload import Rates

CHROMIUM = shutil.which("chromium") or shutil.which("google-chrome") or shutil.which("chromium-browser")
ROOT = Path(__file__).parent.parent.parent

pytestmark = [
    pytest.mark.browser,
    pytest.mark.skipif(CHROMIUM is None, reason="no Chromium is installed"),
    # Chromium's driver leaves its own event loop to the garbage collector.
    pytest.mark.filterwarnings("ignore::ResourceWarning", "ignore::pytest.PytestUnraisableExceptionWarning"),
]


class Served:
    """A dashboard on a port of its own."""

    def __init__(self, watcher: Watcher, port: int = 0) -> None:
        self.watcher = watcher
        self.socket = socket.socket()
        self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        self.socket.bind(("127.0.0.1", port))
        self.port = self.socket.getsockname()[1]
        app = make_app(watcher, token="right")  # noqa: S106
        self.server = uvicorn.Server(uvicorn.Config(app, log_level="error", timeout_graceful_shutdown=1))
        self.thread = threading.Thread(target=self.server.run, kwargs={"sockets": [self.socket]}, daemon=True)
        self.thread.start()
        watcher.start()
        while not self.server.started:
            time.sleep(0.02)

    @property
    def url(self) -> str:
        """Where the page is."""
        return f"http://127.0.0.1:{self.port}/"

    def end(self) -> None:
        """Serve no more."""
        self.watcher.end()
        self.server.should_exit = True
        self.thread.join(10)
        self.socket.close()


@contextlib.contextmanager
def serving(view: Any, **more: Any) -> Iterator[Served]:
    """Serve a view."""
    served = Served(Watcher(view, period=0.2, **more))
    try:
        yield served
    finally:
        served.end()


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    """A Chromium without a window."""
    with sync_playwright() as driver:
        found = driver.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        yield found
        found.close()


@pytest.fixture
def page(browser: Browser) -> Iterator[Page]:
    """A page on which no script fails."""
    context = browser.new_context(viewport={"width": 1440, "height": 900}, color_scheme="light")
    found = context.new_page()
    wrong: list[str] = []
    found.on("pageerror", lambda error: wrong.append(str(error)))
    yield found
    context.close()
    assert wrong == []


@pytest.fixture
def run(tmp_path: Path) -> Folder:
    """A run of 25 batches that goes on now."""
    folder = Folder(tmp_path, begin=time.time() - 52)
    folder.grow(25, dropped=20)
    return folder


def serious(page: Page) -> list[str]:
    """Return the accessibility findings of axe-core that are serious."""
    found = Axe().run(page, options={"resultTypes": ["violations"]})
    return [
        f"{each['id']}: {each['help']}: {each['nodes'][0]['html'][:200]}"
        for each in found.response["violations"]
        if each["impact"] in ("serious", "critical")
    ]


def test_every_part_of_a_run_is_shown(page: Page, run: Folder) -> None:
    """Network, hosts, latency beside its prediction, backlog, keep fractions and sinks are there, with figures."""
    with serving(RunView(run.path)) as served:
        page.goto(served.url)
        expect(page.locator("#name")).to_have_text("shop")
        expect(page.locator("#status")).to_have_text("running")
        expect(page.locator(".node")).to_have_count(4)
        expect(page.locator(".lane")).to_have_count(2)
        expect(page.locator(".stream.crosses")).to_have_count(1)
        expect(page.locator(".rate").first).to_contain_text("/s")
        expect(page.locator("#hosts .host")).to_have_count(2)
        expect(page.locator("#hosts")).to_contain_text("needs", timeout=20_000)
        expect(page.locator("figure.chart:visible")).to_have_count(5)
        for title in ("Latency", "Busy share", "Rates of the sources", "Backlog", "Kept"):
            expect(page.locator("figure.chart b", has_text=title)).to_be_visible()
        expect(page.locator("#s-dropped")).to_have_text("500")
        expect(page.locator("#sinks")).to_contain_text("out")
        expect(page.locator("#decisions")).to_contain_text("penstock control")
        latency = page.locator("figure.chart svg").first
        expect(latency).to_have_attribute("aria-label", re.compile("predicted .* measured"))


def test_new_batches_arrive_by_themselves(page: Page, run: Folder) -> None:
    """What a run does next is on the page a moment later."""
    with serving(RunView(run.path)) as served:
        page.goto(served.url)
        expect(page.locator("#s-dropped")).to_have_text("500")
        run.grow(dropped=30)
        expect(page.locator("#s-dropped")).to_have_text("530", timeout=5_000)


def test_time_can_be_gone_back_to(page: Page, run: Folder) -> None:
    """The slider shows an earlier moment everywhere, by keyboard too, and "Latest" goes back."""
    with serving(RunView(run.path)) as served:
        page.goto(served.url)
        expect(page.locator("#when")).to_have_text("live")
        page.wait_for_function("Number(document.querySelector('#cursor').max) > 1")
        page.locator("#cursor").focus()
        page.keyboard.press("Home")
        expect(page.locator("#when")).not_to_have_text("live")
        expect(page.locator("figure.chart .cursor").first).to_be_attached()
        assert page.evaluate("window.penstock.state.cursor") == 0
        page.locator("#now").click()
        expect(page.locator("#when")).to_have_text("live")
        page.locator("#play").click()
        page.wait_for_timeout(1000)
        assert page.evaluate("window.penstock.state.cursor") > 1
        page.locator("#play").click()


def test_what_if_is_answered(page: Page, run: Folder) -> None:
    """The form answers with latency, loads and drops; nonsense gets a sentence."""
    with serving(RunView(run.path)) as served:
        page.goto(served.url)
        page.locator("#if input[data-source=clicks]").fill("3000")
        page.locator("#if button").click()
        expect(page.locator("#answer")).to_contain_text("does not fit", timeout=20_000)
        page.locator("#if [name=shed]").check()
        page.locator("#if button").click()
        expect(page.locator("#answer")).to_contain_text("It fits", timeout=20_000)
        expect(page.locator("#answer")).to_contain_text("Keeps")
        page.locator("#if [name=shed]").uncheck()
        page.locator("#if input[data-source=clicks]").fill("50")
        page.locator("#if [name=operator]").select_option("scored")
        page.locator("#if [name=host]").select_option("h1")
        page.locator("#if button").click()
        expect(page.locator("#answer")).to_contain_text("1 operator would move: scored to h1", timeout=20_000)


def test_no_overload_is_said_in_words(page: Page, run: Folder) -> None:
    """Where the model counts only overload, the answer says so and does not claim a latency of 0 s."""
    view = RunView(run.path)
    view.batches = False
    with serving(view) as served:
        page.goto(served.url)
        page.locator("#if input[data-source=clicks]").fill("10")
        page.locator("#if button").click()
        expect(page.locator("#answer")).to_contain_text("no overload", timeout=20_000)
        expect(page.locator("#answer")).to_contain_text("because a host is overloaded")
        expect(page.locator("#answer tbody").first).not_to_contain_text("0 s")


def test_decisions_are_shown_and_actions_done(page: Page, run: Folder) -> None:
    """Decisions stand with their reasons; an action shows first what it would do, needs the token and a yes."""
    with Answering(run.path) as controller, serving(RunView(run.path)) as served:
        controller.decide(20.0, {"moves": [{"operator": "scored", "from": "h1", "to": "h2"}]}, "h1 is full")
        page.goto(served.url)
        expect(page.locator("#decisions .decision")).to_contain_text("h1 is full")
        expect(page.locator("#marks i")).to_have_count(1)
        page.locator("#decisions .decision").click()
        expect(page.locator("#when")).not_to_have_text("live")
        page.locator("#act [name=operator]").select_option("scored")
        page.locator("#act [name=host]").select_option("h1")
        page.locator("#act button").click()
        page.locator("#ask-token input").fill("wrong")
        page.locator("#confirm button.main").click()
        expect(page.locator("#acted")).to_contain_text("needs the token")
        page.locator("#act button").click()
        page.locator("#ask-token input").fill("right")
        page.locator("#ask-token input").press("Enter")
        expect(page.locator("#preview")).to_contain_text("Moves scored from h2 to h1")
        assert [each["dry"] for each in controller.asked] == [True]
        page.locator("#confirm button.quiet").click()
        expect(page.locator("#acted")).to_contain_text("Nothing was done")
        page.locator("#act button").click()
        page.locator("#confirm button.main").click()
        expect(page.locator("#acted")).to_contain_text("Done: asked to move scored to h1")
        assert [each["dry"] for each in controller.asked] == [True, True, False]


def test_decisions_before_the_window_cannot_be_selected(page: Page, tmp_path: Path) -> None:
    """A decision whose moment is no longer held says so and shows no other; those that are held do."""
    folder = Folder(tmp_path, setting(seconds=1200), begin=time.time() - 1200)
    folder.number = 589
    folder.grow(10)
    with open(folder.path / "lock", "w") as lock, Answering(folder.path) as controller:
        fcntl.flock(lock, fcntl.LOCK_EX)  # it goes on: the window is a quarter of an hour
        for when in (100.0, 1190.0):
            controller.decide(when, {"moves": [{"operator": "scored", "from": "h1", "to": "h2"}]}, "h1 is full")
        with serving(RunView(folder.path)) as served:
            page.goto(served.url)
            newer, older = page.locator(".decision").first, page.locator(".decision").last
            expect(older).to_be_disabled()
            expect(older).to_have_attribute("title", "before the time that is shown")
            newer.click()
            expect(page.locator("#when")).not_to_have_text("live")


def test_an_error_is_told_once(page: Page, run: Folder) -> None:
    """The alert changes when an error comes and when it goes, not each second: a screen reader would read it again."""
    run.write("errors/h1.json", {"error": "boom"})
    with serving(RunView(run.path)) as served:
        page.goto(served.url)
        alert = page.locator("#lost")
        expect(alert).to_have_text("h1: boom")
        page.evaluate(
            """() => new MutationObserver(() => window.touched = true).observe(document.getElementById("lost"),
                { attributes: true, childList: true })"""
        )
        page.wait_for_timeout(1_000)
        assert page.evaluate("window.touched") is None
        (run.path / "errors/h1.json").unlink()
        expect(alert).to_be_hidden()


def test_figures_between_gaps_are_seen(page: Page, run: Folder) -> None:
    """Of a stream that drops, what it keeps is drawn where single values stand alone too, and told beside it."""
    with serving(RunView(run.path)) as served:
        page.goto(served.url)
        label = page.locator(".rate").filter(has_text="keeps")
        expect(label).to_have_count(1)
        served.watcher.end()
        left = page.locator(".node[data-n=clicks] rect.box").bounding_box()
        mine = label.bounding_box()
        assert left is not None
        assert mine is not None
        assert left["x"] + left["width"] <= mine["x"]
        drawn = page.evaluate(
            """() => { const { state } = window.penstock, keep = state.live.series.keep;
                for (const row of Object.values(keep)) row.forEach((_, k) => { row[k] = k % 2 ? 0.9 : null; });
                window.penstock.seek(null);
                return new Promise(done => requestAnimationFrame(() => requestAnimationFrame(() => done(
                    [...document.querySelectorAll(".chart")].find(each => each.innerText.startsWith("Kept"))
                        .querySelector("path").getAttribute("d"))))); }"""
        )
        assert drawn.count("h0") == drawn.count("M") > 5


def test_the_network_can_be_walked_by_keyboard(page: Page, run: Folder) -> None:
    """Arrow keys go from operator to operator, Enter tells about one, and a table tells the same."""
    with serving(RunView(run.path)) as served:
        page.goto(served.url)
        page.locator(".node").first.focus()
        page.keyboard.press("ArrowRight")
        assert page.evaluate("document.activeElement.dataset.n") == "views"
        page.keyboard.press("Enter")
        expect(page.locator("#detail")).to_contain_text("views")
        expect(page.locator("#detail")).to_contain_text("kind = 'view'")
        page.locator("#table summary").click()
        expect(page.locator("#table tbody tr")).to_have_count(2)


def test_a_lost_connection_is_told_and_mended(page: Page, run: Folder) -> None:
    """When the dashboard goes away the page says so and keeps what it has; when it comes back, it goes on."""
    with serving(RunView(run.path)) as served:
        page.goto(served.url)
        expect(page.locator("#status")).to_have_text("running")
        served.end()
        expect(page.locator("#status")).to_have_text("connection lost", timeout=10_000)
        expect(page.locator("#lost")).to_be_visible()
        expect(page.locator(".node")).to_have_count(4)
        again = Served(Watcher(RunView(run.path), period=0.2), served.port)
        try:
            expect(page.locator("#status")).to_have_text("running", timeout=15_000)
            expect(page.locator("#lost")).to_be_hidden()
        finally:
            again.end()


def test_an_event_log_is_shown(page: Page) -> None:
    """Recorded queries are shown with their batches and findings; a dash stands for waiting rows that are unknown."""
    with serving(open_view([str(ROOT / "examples/event-log/spark-4.3.zstd")])) as served:
        page.goto(served.url)
        expect(page.locator("#status")).to_have_text("recorded")
        expect(page.locator("#decisions .finding").first).to_be_visible()
        expect(page.locator("#h-sinks")).to_have_text("Batches by query")
        expect(page.locator("#s-backlog")).to_have_text("–")
        expect(page.locator("#hosts")).to_contain_text("waiting rows unknown")
        expect(page.locator("#notes")).to_contain_text("Spark does not report what waits for")
        assert serious(page) == []


def hidden(page: Page, part: str) -> tuple[int, int]:
    """Return how much of a part is out of sight, across and down (px)."""
    box = f"document.querySelector('{part}')"
    told = page.evaluate(f"[{box}.scrollWidth - {box}.clientWidth, {box}.scrollHeight - {box}.clientHeight]")
    return told[0], told[1]


def test_what_there_is_room_for_is_shown(page: Page, run: Folder) -> None:
    """The table of sinks is as high as its card and cuts names, not figures; Fit shows the whole network."""
    with serving(open_view([str(ROOT / "examples/event-log/spark-4.3.zstd")])) as served:
        page.goto(served.url)
        expect(page.locator("#sinks tbody tr")).to_have_count(12)
        assert hidden(page, "#sinks") == (0, 0)
        page.set_viewport_size({"width": 400, "height": 900})
        page.wait_for_function("document.querySelector('#canvas').clientWidth < 400")
        assert hidden(page, "#canvas")[0] > 0
        page.locator("#fit").click()
        assert hidden(page, "#canvas") == (0, 0)
    with serving(RunView(run.path)) as served:
        page.goto(served.url)
        expect(page.locator("#sinks tbody tr")).to_have_count(1)
        page.evaluate("document.querySelector('#sinks td').textContent = 'long'.repeat(20)")
        assert hidden(page, "#sinks")[0] == 0


def test_before_a_run_the_page_waits(page: Page, run: Folder) -> None:
    """Without a run the page says how to start one, and shows it as soon as it begins."""
    found: list[Any] = []
    with serving(None, newer=lambda _: found.pop() if found else None) as served:
        page.goto(served.url)
        expect(page.locator("#empty")).to_be_visible()
        expect(page.locator("#empty")).to_contain_text("penstock demo")
        found.append(RunView(run.path))
        expect(page.locator("#name")).to_have_text("shop", timeout=5_000)
        expect(page.locator("#empty")).to_be_hidden()


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [1440, 390])
def test_nothing_serious_against_accessibility(browser: Browser, run: Folder, scheme: Any, width: int) -> None:
    """Axe finds nothing serious, in light and dark, on a screen and on a phone; nothing is wider than the phone."""
    context = browser.new_context(viewport={"width": width, "height": 844}, color_scheme=scheme)
    page = context.new_page()
    with serving(RunView(run.path)) as served:
        page.goto(served.url)
        expect(page.locator("#hosts")).to_contain_text("needs", timeout=20_000)
        page.locator("#if button").click()
        expect(page.locator("#answer table").first).to_be_visible(timeout=20_000)
        assert serious(page) == []
        assert page.evaluate("document.documentElement.scrollWidth") <= width
        context.close()


def large(operators: int) -> Setting:
    """A random network of many operators on eight hosts."""
    network = hybrid(operators, 20, 0.7, np.random.default_rng(1))
    cluster = Cluster.uniform(8)
    places = {name: f"h{1 + k % 8}" for k, name in enumerate(network.operators)}
    rates = Rates.of(1.0, {name: [10.0] * 60 for name in network.sources})
    return attrs.evolve(setting(), network=network, cluster=cluster, placement=Placement(places), rates=rates)


def test_a_thousand_operators_are_drawn_within_a_second(page: Page, tmp_path: Path) -> None:
    """From the document to the drawn page a network of 1,000 operators takes at most a second."""
    folder = Folder(tmp_path, large(1000), begin=time.time() - 10)
    view = RunView(folder.path)
    with serving(view) as served:
        page.goto(served.url)
        expect(page.locator("#name")).to_have_text(view.network.name, timeout=20_000)
        page.wait_for_timeout(1000)
        took = page.evaluate(
            """async () => {
                const about = await (await fetch("/api/about")).json(), live = await (await fetch("/api/live")).json();
                const took = [];
                for (let k = 0; k < 3; k++) {
                    const begin = performance.now();
                    window.penstock.take("about", about);
                    window.penstock.take("live", live);
                    await new Promise(done => requestAnimationFrame(() => requestAnimationFrame(done)));
                    took.push(performance.now() - begin);
                }
                return Math.min(...took);
            }"""
        )
        assert page.locator(".node").count() >= 1000
        assert took <= 1000


def test_an_hour_of_updates_does_not_grow(page: Page, run: Folder) -> None:
    """After 3,600 updates the page holds as much as after 600: the window slides, nothing is kept."""
    view = RunView(run.path)
    with serving(view) as served:
        page.goto(served.url)
        expect(page.locator("#status")).to_have_text("running")
        served.watcher.end()
        client = page.context.new_cdp_session(page)

        def heap(updates: int, begin: int) -> float:
            page.evaluate(
                """([count, begin]) => {
                    const { state, take } = window.penstock, live = state.live, bins = 900;
                    const row = () => Array.from({ length: 3 }, () => Math.random() * 100);
                    for (let k = begin; k < begin + count; k++) {
                        const end = Math.min(bins, live.length + 1), over = Math.max(0, k - bins);
                        const series = {};
                        for (const [key, value] of Object.entries(live.series))
                            series[key] = Array.isArray(value) ? (Array.isArray(value[0]) ? value.map(row) : row())
                                : Object.fromEntries(Object.keys(value).map(name => [name, row()]));
                        take("live", { ...live, series, revision: state.about.revision, now: live.now + 1,
                            start: live.start + (end === bins ? 1 : 0), from: Math.max(1, end - 3), length: end });
                    }
                }""",
                [updates, begin],
            )
            page.wait_for_timeout(300)
            client.send("HeapProfiler.collectGarbage")
            page.wait_for_timeout(100)
            return float(client.send("Runtime.getHeapUsage")["usedSize"])

        client.send("HeapProfiler.enable")
        first = heap(1200, 60)
        last = heap(2400, 1260)
        assert page.evaluate("window.penstock.state.live.series.rates[0].length") <= 900
        assert last <= first * 1.15 + 500_000
