"""Take the pictures of the dashboard in the documentation, light and dark, from a run's folder.

uv run python scripts/screenshot.py .penstock/demo/run
"""

from __future__ import annotations

import shutil
import sys
import threading
from pathlib import Path

import uvicorn
from playwright.sync_api import sync_playwright

from penstock.dashboard.serve import _listening
from penstock.dashboard.server import make_app
from penstock.dashboard.watcher import Watcher
from penstock.monitor import open_view

DOCS = Path(__file__).resolve().parent.parent / "docs"
SIZE = {"width": 1360, "height": 1180}


def main(paths: list[str]) -> None:
    """Serve what is at the paths, and photograph it once a question is answered."""
    watcher = Watcher(open_view(paths))
    listening = _listening("127.0.0.1", 0)
    server = uvicorn.Server(uvicorn.Config(make_app(watcher), log_level="error", timeout_graceful_shutdown=1))
    thread = threading.Thread(target=server.run, kwargs={"sockets": [listening]}, daemon=True)
    watcher.start()
    thread.start()
    with sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=shutil.which("chromium"), args=["--no-sandbox"])
        for scheme, name in (("light", "dashboard.png"), ("dark", "dashboard-dark.png")):
            page = browser.new_page(viewport=SIZE, color_scheme=scheme)  # type: ignore[arg-type]
            page.goto(f"http://127.0.0.1:{listening.getsockname()[1]}/")
            page.wait_for_selector("#hosts:has-text('needs')", timeout=60_000)
            page.wait_for_timeout(1500)
            page.screenshot(path=DOCS / name)
        browser.close()
    watcher.end()
    server.should_exit = True
    thread.join(5)


if __name__ == "__main__":
    main(sys.argv[1:])
