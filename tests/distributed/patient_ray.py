"""Ray's time limits, made long: a machine that does other work must not look like one that broke.

Imported before Ray is.
"""

import os

PATIENCE = {
    "RAY_worker_niceness": "0",  # 15 is meant for machines that do nothing else
    "RAY_agent_register_timeout_ms": "200000",
    "RAY_SERVE_PROXY_READY_CHECK_TIMEOUT_S": "200",
    "RAY_SERVE_PROXY_HEALTH_CHECK_TIMEOUT_S": "200",
}
os.environ.update(PATIENCE)


def patiently(start, times=5):
    """What `start` gives; Ray has half a minute for a node and one for a proxy, whatever is set,
    and a busy machine may need that twice."""
    for left in reversed(range(times)):
        try:
            return start()
        except Exception as error:
            late = "timed out during startup" in str(error) or "not available after" in str(error)
            if not left or not late:
                raise
    raise AssertionError("not tried once")
