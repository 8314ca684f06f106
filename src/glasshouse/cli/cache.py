"""`glasshouse cache`: looks at, verifies and prunes the cache of built code."""

from __future__ import annotations

import time
from argparse import ArgumentParser, Namespace
from pathlib import Path

HELP = "look at the cache of built code, verify it (exit code 1: damaged), or prune it"


def add_arguments(parser: ArgumentParser) -> None:
    """What to do, and how much to leave."""
    parser.add_argument(
        "do", nargs="?", choices=("look", "verify", "prune"), default="look", help="(look)"
    )
    parser.add_argument(
        "--size", metavar="SIZE", help="prune to this, as in 500M (GLASSHOUSE_CACHE_SIZE, or 5G)"
    )
    parser.add_argument("--all", action="store_true", help="prune everything")


def run(args: Namespace) -> int:
    """Do it and tell."""
    from glasshouse.backend.cache_folder import cache_folder, check_trust
    from glasshouse.backend.cache_size import parse_size, prune, size_limit
    from glasshouse.backend.sealed import damaged

    folder = cache_folder()
    if not folder.exists():
        print(f"{folder}: nothing is kept there yet")
        return 0
    check_trust(folder)
    if args.do == "look":
        _look(folder)
    elif args.do == "verify":
        found = damaged(folder)
        for path in found:
            print(f"damaged: {path}")
        what = "are damaged, and built again when needed" if found else "is damaged"
        print(f"{folder}: {len(found) or 'nothing'} {what}")
        return 1 if found else 0
    else:
        limit = 0 if args.all else parse_size(args.size) if args.size else size_limit()
        gone = prune(folder, limit, keep_recent=False)
        print(f"{folder}: {_shown(gone)} removed")
    return 0


def _look(folder: Path) -> None:
    from glasshouse.backend.cache_size import entries, size_limit
    from glasshouse.backend.store import described

    held = entries(folder)
    files = [path for entry in held for path in entry.files]
    print(folder)
    behind = described()
    if behind:
        print(f"store: {behind['url']}, {'with a key' if behind['keyed'] else 'without a key'}")
    size = sum(e.bytes for e in held)
    print(f"{len(files)} files, {_shown(size)} of at most {_shown(size_limit())}")
    kinds = ((".so", "libraries"), (".o", "objects"), (".cpp", "generated sources"))
    for suffix, name in kinds:
        print(f"  {sum(p.suffix == suffix for p in files):6} {name}")
    if held:
        days = (time.time() - held[0].used) / 86400
        print(f"longest unused: {days:.1f} days")


def _shown(count: int) -> str:
    number = float(count)
    for unit in ("B", "KB", "MB"):
        if number < 1024:
            return f"{number:.0f} {unit}"
        number /= 1024
    return f"{number:.1f} GB"
