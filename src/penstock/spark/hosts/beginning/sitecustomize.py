"""What Python processes of an embedded host begin with: a lifeline, and a short cut for Spark's workers.

Python imports this module when it starts: the folder is on the ``PYTHONPATH`` of a host's JVM.

The lifeline: the kernel kills a worker when the host's supervisor is gone, however that ended. The supervisor alone
holds the writing end of the pipe that ``PENSTOCK_LIFELINE`` names, and it writes nothing. A worker asks for a SIGKILL
when something happens to the pipe; all that can happen is that the supervisor ends. No thread of the worker has to wait
for that or to get a turn, and the thread of the JVM that started the worker may end before (``PR_SET_PDEATHSIG`` would
take that for the end of the JVM).

The short cut: a worker goes on in a fork of the process behind ``PENSTOCK_NURSERY``, if that runs, which has imported
everything already (`nursery.py`).

On other systems than Linux it does neither. It needs only the standard library, of a Python that may be older than
penstock's.
"""

import os
import sys

WORKERS = ("pyspark.daemon", "pyspark.sql.connect.streaming.worker.", "pyspark.sql.streaming.")
SIGKILL = 9  # importing signal would take a third of Python's own start


def hold_on(path):  # type: ignore[no-untyped-def]  # any Python 3
    """Die with the supervisor; at once if it is gone."""
    import fcntl

    try:
        line = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
    except FileNotFoundError:
        os._exit(1)
    fcntl.fcntl(line, fcntl.F_SETOWN, os.getpid())
    fcntl.fcntl(line, fcntl.F_SETSIG, SIGKILL)
    fcntl.fcntl(line, fcntl.F_SETFL, os.O_RDONLY | os.O_NONBLOCK | os.O_ASYNC)
    # From here on its end would be signalled; was it before?
    try:
        if os.read(line, 1) == b"":
            os._exit(1)
    except BlockingIOError:
        pass


def go_on_in_nursery(path):  # type: ignore[no-untyped-def]
    """Let a fork of the nursery do what this interpreter was started for, and end with it; return if there is none."""
    command = getattr(sys, "orig_argv", [])
    module = command[command.index("-m") + 1] if "-m" in command[:-1] else ""
    if not module.startswith(WORKERS):
        return
    import json
    import socket

    here = os.path.dirname(os.path.abspath(__file__))
    wanted = {
        "module": module,
        "arguments": command[command.index(module) + 1 :],
        "environ": dict(os.environ),
        "folder": os.getcwd(),
        "path": [place for place in sys.path if os.path.abspath(place) != here],
    }
    text = json.dumps(wanted).encode()
    with socket.socket(socket.AF_UNIX) as call:
        try:
            call.connect(path)
        except OSError:
            return
        try:
            socket.send_fds(call, [len(text).to_bytes(4, "big")], [0, 1, 2])
            call.sendall(text)
            while call.recv(1):
                pass
        except OSError:
            os._exit(1)
    os._exit(0)


def import_hidden():  # type: ignore[no-untyped-def]
    """Import the ``sitecustomize`` that this one hides, if there is one."""
    ours = sys.modules.pop(__name__)
    here = os.path.dirname(os.path.abspath(__file__))
    sys.path[:] = [place for place in sys.path if os.path.abspath(place) != here]
    try:
        __import__(__name__)
    except ImportError as error:
        if error.name != __name__:
            raise
    finally:
        sys.modules.setdefault(__name__, ours)


if sys.platform == "linux":
    if os.environ.get("PENSTOCK_LIFELINE"):
        hold_on(os.environ["PENSTOCK_LIFELINE"])
        # The owner of the descriptor is the process that opened it: a child opens one of its own.
        os.register_at_fork(after_in_child=lambda: hold_on(os.environ["PENSTOCK_LIFELINE"]))
    if os.environ.get("PENSTOCK_NURSERY"):
        go_on_in_nursery(os.environ["PENSTOCK_NURSERY"])
import_hidden()
