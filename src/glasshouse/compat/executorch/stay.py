"""How long a script that opened pages lives: until Ctrl-C, where somebody is there.

Model Explorer waits inside the call; here the script runs on, opens what else it opens, and waits
at its end. Without a terminal nobody could end the wait, so there is none.
"""

from __future__ import annotations

import atexit
import sys
from typing import Any

_waiting_for: list[Any] = []


def stay_for(view: Any) -> None:
    """Keep a page's server beyond the last line of a script that runs in a terminal."""
    interactive = hasattr(sys, "ps1") or sys.flags.interactive or "ipykernel" in sys.modules
    if interactive or not sys.stdin or not sys.stdin.isatty():
        return
    if not _waiting_for:
        atexit.register(_wait)
    _waiting_for.append(view)


def _wait() -> None:
    running = [view for view in _waiting_for if view.server.is_running]
    if not running:
        return
    for view in running:
        print(view.url)
    print("Ctrl-C ends.")
    try:
        for view in running:
            view.server.wait()
    except KeyboardInterrupt:
        for view in running:
            view.close()
