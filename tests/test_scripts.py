"""Servers that the scripts start."""

import signal
import subprocess
import sys
from pathlib import Path

import psutil

SCRIPTS = Path(__file__).parents[1] / "scripts"

PROGRAM = """
import contextlib, os, sys, time
from pathlib import Path
from processes import Server, end_as_asked, free_ports

server = Server(Path(sys.argv[1]), "pages")
end_as_asked()
with contextlib.ExitStack() as stack:
    stack.callback(server.end)
    [port] = free_ports(1)
    server.start([sys.executable, "-m", "http.server", "--bind", "127.0.0.1", port], os.environ).wait(port)
    print(server.pid, flush=True)
    time.sleep(60)
"""


def test_servers_end_with_a_program_that_is_terminated(tmp_path: Path) -> None:
    """A request to terminate ends what a program has started before the program itself."""
    command = [sys.executable, "-c", PROGRAM, str(tmp_path)]
    with subprocess.Popen(command, cwd=SCRIPTS, stdout=subprocess.PIPE, text=True) as program:
        assert program.stdout is not None
        server = psutil.Process(int(program.stdout.readline()))
        assert server.is_running()
        program.send_signal(signal.SIGTERM)
        assert program.wait(30) == 128 + signal.SIGTERM
    assert not psutil.pid_exists(server.pid)
