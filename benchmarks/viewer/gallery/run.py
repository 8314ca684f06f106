"""The gallery: graphs folded and unfolded, light and dark, at three sizes, with measured layout.

    make gallery                          all of it, into build/gallery/index.html
    make gallery ARGS="-g mlp,bert --quick"    some graphs, one size, light alone

Beside the pictures stand the measures of the unfolded drawings: edge crossings, length of all
edges, wrapped edges, overlaps and cut labels, and the same for ELK layered (elkjs, which only this
page needs) on the same boxes and edges. Measures are of geometry, not of time.
"""

from __future__ import annotations

import argparse
import html
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[2]
sys.path.insert(0, str(HERE.parent))
sys.path.insert(0, str(ROOT / "tools"))

from playwright.sync_api import Page, sync_playwright  # noqa: E402
from watch import FLAGS  # noqa: E402

import glasshouse as gh  # noqa: E402
from models import GALLERY  # noqa: E402
from viewer_bundle import require_node  # noqa: E402

SIZES = {"small": (900, 640), "laptop": (1280, 720), "wide": (1920, 1080)}
FOLDS = {"first": "", "unfolded": "unfoldAll"}


def write(names: list[str], folder: Path, again: bool) -> None:
    """The recording and the page of each graph; recordings are kept unless asked for `again`."""
    for name in names:
        path = folder / f"{name}.glass"
        if again or not path.is_file():
            path.write_bytes(GALLERY[name]().to_bytes())
        gh.plot_graph(path, folder / f"{name}.html")


def take(names: list[str], folder: Path, sizes: list[str], themes: list[str]) -> None:
    """One picture for each graph, fold state, theme and size."""
    chromium = os.environ.get("CHROMIUM") or shutil.which("chromium")
    with sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=chromium, args=FLAGS)
        for size in sizes:
            for theme in themes:
                width, height = SIZES[size]
                scheme: Any = theme
                context = browser.new_context(
                    viewport={"width": width, "height": height}, color_scheme=scheme,
                    reduced_motion="reduce", offline=True,
                )  # fmt: skip
                page = context.new_page()
                for name in names:
                    page.goto((folder / f"{name}.html").as_uri())
                    page.wait_for_selector("html[data-ready]", state="attached", timeout=60000)
                    for fold, method in FOLDS.items():
                        if method:
                            page.evaluate(f"() => window.glasshouse.{method}()")
                        shoot(page, folder / f"{name}-{fold}-{theme}-{size}.png")
                context.close()
        browser.close()


def shoot(page: Page, path: Path) -> None:
    page.evaluate(
        """() => new Promise(r =>
          requestAnimationFrame(() => requestAnimationFrame(() => setTimeout(r, 80))))"""
    )
    page.screenshot(path=str(path))


def measure(names: list[str], folder: Path) -> list[dict[str, Any]]:
    """What `quality.ts` finds for each graph; elkjs is installed beside it on first use."""
    node = require_node(install=True)
    if not (HERE / "node_modules" / "elkjs").is_dir():
        subprocess.run([*node.npm, "ci", "--silent"], cwd=HERE, check=True)
    script = folder / "quality.cjs"
    subprocess.run([node.node, str(HERE / "build.mjs"), str(script)], check=True)
    files = [str(folder / f"{n}.glass") for n in names]
    out = subprocess.run(
        [node.node, str(script), *files], check=True, stdout=subprocess.PIPE, text=True
    )
    rows: list[dict[str, Any]] = [json.loads(line) for line in out.stdout.splitlines()]
    (folder / "quality.json").write_text(json.dumps(rows, indent=1))
    return rows


COLUMNS = "graph fold boxes edges cross elk length elk wrapped overlaps cuts width height".split()


def table(rows: list[dict[str, Any]]) -> str:
    """One line for each graph and fold state, as text."""
    cells = [COLUMNS]
    for r in rows:
        o, e = r["ours"], r["elk"]
        figures = [r["boxes"], r["edges"], o["crossings"], _n(e, "crossings"), f"{o['length']:.0f}"]
        figures += [_n(e, "length"), o["wrapped"], o["overlaps"], o["cuts"]]
        size = [f"{o['width']:.0f}", f"{o['height']:.0f}"]
        cells.append([r["name"], r["fold"], *map(str, figures), *size])
    wide = [max(len(row[k]) for row in cells) for k in range(len(COLUMNS))]
    return "\n".join("  ".join(c.rjust(w) for c, w in zip(row, wide, strict=True)) for row in cells)


def _n(e: dict[str, Any] | None, key: str) -> str:
    return "-" if not e else f"{e[key]:.0f}"


def page_of(names: list[str], folder: Path, sizes: list[str], themes: list[str], text: str) -> Path:
    """One page with all pictures and the table."""
    parts = [
        "<!doctype html><meta charset=utf-8><title>Glasshouse gallery</title><style>",
        "body{font:13px system-ui;margin:24px;background:#f4f4f2}h2{margin:28px 0 8px}",
        "div{display:flex;flex-wrap:wrap;gap:8px}img{width:420px;border:1px solid #ccc}",
        "pre{background:#fff;border:1px solid #ccc;padding:12px;overflow:auto}</style>",
        f"<h1>Gallery</h1><pre>{html.escape(text)}</pre>",
    ]
    for name in names:
        parts.append(f"<h2 id={name}>{name}</h2><div>")
        for fold in FOLDS:
            for size in sizes:
                for theme in themes:
                    file = f"{name}-{fold}-{theme}-{size}.png"
                    parts.append(
                        f'<a href="{file}"><img loading=lazy src="{file}" title="{file}"></a>'
                    )
        parts.append("</div>")
    out = folder / "index.html"
    out.write_text("\n".join(parts))
    return out


def main() -> None:
    asked = argparse.ArgumentParser(description=__doc__.split("\n")[0] if __doc__ else "")
    asked.add_argument("-g", "--graphs", default=",".join(GALLERY))
    asked.add_argument("-o", "--out", type=Path, default=ROOT / "build" / "gallery")
    asked.add_argument("--quick", action="store_true", help="one size, light alone")
    asked.add_argument("--again", action="store_true", help="make the recordings again")
    asked.add_argument("--no-pictures", action="store_true")
    asked.add_argument("--no-measures", action="store_true")
    args = asked.parse_args()
    names = [n for n in args.graphs.split(",") if n]
    sizes, themes = (["laptop"], ["light"]) if args.quick else (list(SIZES), ["light", "dark"])
    args.out.mkdir(parents=True, exist_ok=True)
    write(names, args.out, args.again)
    text = "" if args.no_measures else table(measure(names, args.out))
    print(text, flush=True)
    if not args.no_pictures:
        take(names, args.out, sizes, themes)
        print(page_of(names, args.out, sizes, themes, text))


if __name__ == "__main__":
    main()
