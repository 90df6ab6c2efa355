#!/usr/bin/env python3
"""Draws tokens/s against GPU memory for Strata and llama.cpp from the JSON of their benchmarks.

    plot_vram.py FOLDER OUT.svg

FOLDER has points.json: {"strata": {"strata-8g.json": 8.6, ...}, "llama.cpp": {"llama-n30.json":
7.1, ...}}, a file of `strata bench --json` or `llama-bench -o json` each, with the GB it had. The
table is printed, the plot is of single tokens. Standard library only.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

WIDTH, HEIGHT, LEFT, RIGHT, TOP, BOTTOM = 640, 360, 60, 20, 20, 50
COLOURS = {"strata": "#1f6feb", "llama.cpp": "#b35900"}


def speeds(path: Path) -> dict[str, float]:
    """Median (llama-bench: mean) tokens/s by test: pp4096, tg64."""
    found = {}
    for test in json.loads(path.read_text()):
        name = f"tg{test['n_gen']}" if test["n_gen"] else f"pp{test['n_prompt']}"
        found[name] = test.get("median_tok_s", test.get("avg_ts"))
    return found


def svg(lines: dict[str, list[tuple[float, float]]]) -> str:
    most_x = max(x for points in lines.values() for x, _ in points)
    most_y = max(y for points in lines.values() for _, y in points)
    step = 50

    def at(x: float, y: float) -> tuple[float, float]:
        return (LEFT + x / most_x * (WIDTH - LEFT - RIGHT),
                HEIGHT - BOTTOM - y / most_y * (HEIGHT - TOP - BOTTOM))

    out = [f'<svg xmlns="http://www.w3.org/2000/svg" width="{WIDTH}" height="{HEIGHT}" '
           f'font-family="sans-serif" font-size="12">',
           f'<rect width="{WIDTH}" height="{HEIGHT}" fill="white"/>']
    for y in range(0, int(most_y) + 1, step):
        left, top = at(0, y)
        out.append(f'<line x1="{left}" y1="{top:.1f}" x2="{WIDTH - RIGHT}" y2="{top:.1f}" '
                   f'stroke="#ddd"/>')
        out.append(f'<text x="{LEFT - 8}" y="{top + 4:.1f}" text-anchor="end">{y}</text>')
    for x in range(0, int(most_x) + 1, 2):
        left, _ = at(x, 0)
        out.append(f'<text x="{left:.1f}" y="{HEIGHT - BOTTOM + 18}" '
                   f'text-anchor="middle">{x}</text>')
    out.append(f'<text x="{WIDTH / 2}" y="{HEIGHT - 10}" '
               f'text-anchor="middle">GB of GPU memory</text>')
    out.append(f'<text x="{LEFT}" y="{TOP - 6}">tokens/s, one after the other</text>')
    for i, (name, points) in enumerate(lines.items()):
        path = " ".join("%.1f,%.1f" % at(x, y) for x, y in sorted(points))
        colour = COLOURS[name]
        out.append(f'<polyline points="{path}" fill="none" stroke="{colour}" stroke-width="2"/>')
        for x, y in points:
            cx, cy = at(x, y)
            out.append(f'<circle cx="{cx:.1f}" cy="{cy:.1f}" r="3.5" fill="{colour}"/>')
        out.append(f'<text x="{LEFT + 20}" y="{TOP + 20 + 18 * i}" fill="{colour}">{name}</text>')
    return "\n".join([*out, "</svg>\n"])


def main() -> int:
    if len(sys.argv) != 3:
        print(__doc__, file=sys.stderr)
        return 2
    folder = Path(sys.argv[1])
    points = json.loads((folder / "points.json").read_text())
    lines: dict[str, list[tuple[float, float]]] = {}
    print(f"{'':<12}{'GB':>6}{'pp4096':>10}{'tg64':>9}")
    for engine, files in points.items():
        for name, gigabytes in files.items():
            found = speeds(folder / name)
            prompt = f"{found['pp4096']:.0f}" if "pp4096" in found else ""
            print(f"{engine:<12}{gigabytes:>6.1f}{prompt:>10}{found['tg64']:>9.1f}")
            lines.setdefault(engine, []).append((gigabytes, found["tg64"]))
    Path(sys.argv[2]).write_text(svg(lines))
    return 0


if __name__ == "__main__":
    sys.exit(main())
