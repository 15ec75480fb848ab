"""Lets the kernel kill a Python worker when its host's supervisor is gone, however that ended.

Python imports this module when it starts: the folder is on the ``PYTHONPATH`` of a host's JVM. The supervisor alone
holds the writing end of the pipe that ``PENSTOCK_LIFELINE`` names, and it writes nothing. A worker asks for a SIGKILL
when something happens to the pipe; all that can happen is that the supervisor ends. No thread of the worker has to wait
for that or to get a turn, and the thread of the JVM that started the worker may end before (``PR_SET_PDEATHSIG`` would
take that for the end of the JVM).

On other systems than Linux it does nothing. It needs only the standard library, of a Python that may be older than
penstock's.
"""

import os
import sys

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


if sys.platform == "linux" and os.environ.get("PENSTOCK_LIFELINE"):
    hold_on(os.environ["PENSTOCK_LIFELINE"])
    # The owner of the descriptor is the process that opened it: a child opens one of its own.
    os.register_at_fork(after_in_child=lambda: hold_on(os.environ["PENSTOCK_LIFELINE"]))
import_hidden()
