"""Whether `import glasshouse` is still light: NumPy alone, at most twice NumPy's time.

Run: python tools/check_import.py

Times are taken in fresh interpreters, NumPy and Glasshouse in turn, so that a busy machine slows
both. The check passes as soon as one round of medians is inside the limit: noise makes imports
slower, never faster, so a good round shows that the code is fast enough and a bad one proves
nothing.
"""

from __future__ import annotations

import json
import statistics
import subprocess
import sys

LIMIT = 2.0
RUNS_A_ROUND = 7
ROUNDS = 5

_CHILD = """
import json, sys, time
start = time.perf_counter()
import {module}
seconds = time.perf_counter() - start
print(json.dumps([seconds, sorted({{name.partition(".")[0] for name in sys.modules}})]))
"""


def import_once(module: str) -> tuple[float, set[str]]:
    """Seconds for one import in a fresh interpreter, and the top-level names loaded after it."""
    done = subprocess.run(
        [sys.executable, "-c", _CHILD.format(module=module)],
        check=True,
        stdout=subprocess.PIPE,
        text=True,
    )
    seconds, names = json.loads(done.stdout)
    return seconds, set(names)


def foreign_modules(module: str) -> set[str]:
    """Third-party packages that an import loads beyond those that NumPy loads."""
    _, with_numpy = import_once("numpy")
    _, with_module = import_once(module)
    return with_module - with_numpy - set(sys.stdlib_module_names) - {module.partition(".")[0]}


def ratio_to_numpy(module: str, runs: int = RUNS_A_ROUND) -> tuple[float, float, float]:
    """(ratio, seconds of the module, seconds of NumPy): medians of interleaved imports."""
    pairs = [(import_once("numpy")[0], import_once(module)[0]) for _ in range(runs)]
    base = statistics.median(pair[0] for pair in pairs)
    ours = statistics.median(pair[1] for pair in pairs)
    return ours / base, ours, base


def main(module: str = "glasshouse") -> int:
    """Print what was found; 0 when the import is light."""
    extra = foreign_modules(module)
    if extra:
        print(f"import {module} loads {', '.join(sorted(extra))}: move that import into a function")
        return 1
    for _ in range(ROUNDS):
        ratio, ours, base = ratio_to_numpy(module)
        print(f"import {module}: {ours * 1e3:.0f} ms; numpy: {base * 1e3:.0f} ms; x{ratio:.2f}")
        if ratio <= LIMIT:
            return 0
    print(f"import {module} takes more than {LIMIT:g} times as long as numpy; to see what is slow:")
    print(f"  python -X importtime -c 'import {module}'")
    return 1


if __name__ == "__main__":
    sys.exit(main())
