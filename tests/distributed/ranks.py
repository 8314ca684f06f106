"""Starts the ranks of a script, waits for all of them, and reads what each wrote."""

import json
import os
import subprocess
import sys
from pathlib import Path


def run_ranks(script, folder, case, world=2, environment=None, seconds=600):
    """What each rank wrote as JSON; where one failed, what it said."""
    given = {
        **os.environ, "GLOO_SOCKET_IFNAME": "lo", "OMP_NUM_THREADS": "1",
        "LOCAL_WORLD_SIZE": str(world), **(environment or {}),
    }  # fmt: skip
    outs = [folder / f"rank{rank}.json" for rank in range(world)]
    ranks = [
        subprocess.Popen(
            [sys.executable, Path(__file__).with_name(script), str(rank), str(world),
             str(folder / "store"), str(out), json.dumps(case)],
            env={**given, "RANK": str(rank), "LOCAL_RANK": str(rank)},
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
        )
        for rank, out in enumerate(outs)
    ]  # fmt: skip
    try:
        said = [rank.communicate(timeout=seconds)[0] for rank in ranks]
    finally:
        for rank in ranks:
            rank.kill()
    assert [rank.returncode for rank in ranks] == [0] * world, "\n".join(said)
    return [json.loads(out.read_text()) for out in outs]
