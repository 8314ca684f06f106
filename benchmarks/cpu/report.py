"""How measurements are shown: a table, and a plot of each peer's time over ours."""

from __future__ import annotations

from typing import Any

NOISE = 0.05  # share of the processors that others used, above which a time is marked
OURS = "glasshouse"
Results = dict[str, dict[str, Any]]
COLOURS = (
    "#4477aa",
    "#66ccee",
    "#228833",
    "#ccbb44",
    "#ee6677",
    "#aa3377",
)  # for colour-blind eyes


def table(results: Results, flops: dict[str, float], machine: dict[str, float]) -> str:
    """Markdown: medians, the best peer over ours, share of the machine's limit, and the cost."""
    systems = list(dict.fromkeys(s for row in results.values() for s in row))
    head = [
        "workload, ms", *systems, "best peer / ours", "GFLOP/s", "of limit", "first s: ours",
        "torch.compile", "error", "peak MB: ours", "deployed", "eager",
    ]  # fmt: skip
    lines = [f"| {' | '.join(head)} |", "|" + "---|" * len(head)]
    for name, row in results.items():
        lines.append(f"| {name} | {' | '.join(_cells(name, row, systems, flops, machine))} |")
    return "\n".join(lines)


def _cells(
    name: str,
    row: dict[str, Any],
    systems: list[str],
    flops: dict[str, float],
    machine: dict[str, float],
) -> list[str]:
    cells = []
    for system in systems:
        of = row.get(system, {})
        mark = "~" if of.get("noise", 0) > NOISE else ""
        spread = f" ({of['p10_ms']:.3g}..{of['p90_ms']:.3g})" if "median_ms" in of else ""
        spread += " wrong" if of.get("wrong") else ""
        cells.append(f"{mark}{of['median_ms']:.4g}{spread}" if "median_ms" in of else "-")
    ours = row.get(OURS, {})
    if "median_ms" not in ours:
        return cells + ["-"] * 9
    peers = ratios(row)
    low = "bf16" in name or "allowed" in name
    limit = machine["peak_bf16_gflops" if low else "peak_gflops"]
    rate = flops[name] / ours["median_ms"] / 1e6
    cells.append(f"{min(peers.values()):.2f}" if peers else "-")
    cells += [f"{rate:.1f}", f"{rate / limit:.0%}", f"{ours['compile_s']:.1f}"]
    cells.append(_number(row.get("compile", {}).get("compile_s"), ".1f"))
    cells += [f"{ours['error']:.0e}", f"{ours['peak_mb']:.0f}"]
    cells.append(_number(ours.get("deployed_mb"), ".0f"))
    cells.append(_number(row.get("eager", {}).get("peak_mb"), ".0f"))
    return cells


def _number(value: float | None, form: str) -> str:
    return "-" if value is None else f"{value:{form}}"


def ratios(row: dict[str, Any]) -> dict[str, float]:
    """The median of each peer whose result is right over ours."""
    ours = row.get(OURS, {}).get("median_ms")
    if ours is None:
        return {}
    peers = {s: r for s, r in row.items() if s != OURS and "p10_ms" in r and not r.get("wrong")}
    return {s: r["median_ms"] / ours for s, r in peers.items()}


def plot(results: Results) -> str:
    """An SVG: for each workload a bar a peer, as long as its time over ours; the line is ours."""
    width, bar, longest = 900, 11, 4.0
    systems = list(dict.fromkeys(s for row in results.values() for s in ratios(row)))
    colours = dict(zip(systems, COLOURS, strict=False))
    left, right = 190, 70
    scale = (width - left - right) / longest
    parts: list[str] = []
    y = 46
    for name, row in results.items():
        found = ratios(row)
        parts.append(_text(left - 10, y + bar * max(len(found), 1) / 2 + 4, name, "end"))
        for system, ratio in found.items():
            size = min(ratio, longest) * scale
            colour = colours.get(system, "#bbbbbb")
            box = f'<rect x="{left}" y="{y}" width="{size:.1f}" height="{bar - 2}"'
            parts.append(f'{box} fill="{colour}"><title>{system} {ratio:.2f}</title></rect>')
            parts.append(_text(left + size + 4, y + bar - 3, f"{ratio:.2f}", "start", 9))
            y += bar
        y += 10
    legend = [
        f'<rect x="{left + 110 * i}" y="14" width="10" height="10" fill="{colours[s]}"/>'
        + _text(left + 110 * i + 14, 23, s, "start")
        for i, s in enumerate(systems)
    ]
    one = left + scale
    line = f'<path d="M{one:.1f} 36V{y}" stroke="#222" stroke-dasharray="3 3"/>'
    frame = f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{y + 24}">'
    style = '<rect width="100%" height="100%" fill="white"/>'
    note = _text(one, y + 14, "1.00 = glasshouse; longer is slower", "middle")
    return "\n".join([frame, style, *legend, *parts, line, note, "</svg>"]) + "\n"


def _text(x: float, y: float, text: str, anchor: str, size: int = 12) -> str:
    style = f'font-family="sans-serif" font-size="{size}" text-anchor="{anchor}" fill="#222"'
    return f'<text x="{x:.1f}" y="{y:.1f}" {style}>{text}</text>'
