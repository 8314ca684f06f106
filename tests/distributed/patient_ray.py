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
    """What `start` gives; Ray has half a minute for a node, which a busy machine may need twice."""
    import ray

    for left in reversed(range(times)):
        try:
            return start()
        except Exception as error:
            ray.shutdown()
            if not left or "timed out during startup" not in str(error):
                raise
    raise AssertionError("not tried once")
