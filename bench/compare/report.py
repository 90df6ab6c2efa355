"""What compare_llama.py makes of its runs: statistics, JSON document, table and plot."""

from __future__ import annotations

import datetime
import html
import pathlib
import shlex
import statistics

from compare.engines import CompareError, Engine, Workload
from compare.machine import machine_description

DISTURBANCE_TOLD = 0.02  # of a round's CPU time; below this it is the timer's own resolution


def spread(values: list[float]) -> dict[str, float]:
    return {"median": statistics.median(values), "min": min(values), "max": max(values)}


def summarise(engines: list[Engine], work: Workload, rounds: list[dict]) -> list[dict]:
    """One row a test and engine: tokens/s of the rounds, and Strata's ratio to it in each."""
    base = engines[0].label
    rows = []
    for test in work.tests:
        ours = [entry["runs"][base][test].median for entry in rounds]
        for engine in engines:
            theirs = [entry["runs"][engine.label][test].median for entry in rounds]
            row = {
                "test": test,
                "engine": engine.label,
                "tok_s": spread(theirs),
                "per_round_tok_s": theirs,
            }
            if engine.label != base:
                ratios = [a / b for a, b in zip(ours, theirs, strict=True)]
                row |= {"strata_ratio": spread(ratios), "per_round_ratio": ratios}
            rows.append(row)
    return rows


def measured_bandwidth(engines: list[Engine], rounds: list[dict]) -> dict[str, float] | None:
    """Read bandwidth that Strata measured in the same runs, GB/s."""
    values = [
        float(m.details["read_bandwidth_gb_s"])
        for entry in rounds
        for m in entry["runs"][engines[0].label].values()
        if "read_bandwidth_gb_s" in m.details
    ]
    return spread(values) if values else None


def engine_report(engine: Engine, rounds: list[dict]) -> dict:
    """Who the engine is: version and the settings it reported, by test, in the last round."""
    last = rounds[-1]["runs"][engine.label]
    versions = sorted({m.version for entry in rounds for m in entry["runs"][engine.label].values()})
    if len(versions) != 1:
        raise CompareError(
            f"{engine.label}: its version changed between runs: {', '.join(versions)}"
        )
    return {
        "label": engine.label,
        "command": [pathlib.Path(part).name for part in engine.command],
        "extra_args": engine.extra_args,
        "version": versions[0],
        "settings": {test: m.details for test, m in last.items()},
    }


def build_report(engines: list[Engine], work: Workload, rounds: list[dict]) -> dict:
    machine = machine_description()
    bandwidth = measured_bandwidth(engines, rounds)
    if bandwidth:
        machine["read_bandwidth_gb_s"] = bandwidth
    model = pathlib.Path(work.model)
    return {
        "date": datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
        "machine": machine,
        "model": {"file": model.name, "bytes": model.stat().st_size},
        "threads": work.threads,
        "repetitions": work.repetitions,
        "engines": [engine_report(engine, rounds) for engine in engines],
        "summary": summarise(engines, work, rounds),
        "rounds": [
            {
                "disturbed": entry["disturbed"],
                "samples_tok_s": {
                    label: {test: m.samples for test, m in runs.items()}
                    for label, runs in entry["runs"].items()
                },
            }
            for entry in rounds
        ],
    }


def markdown(report: dict) -> str:
    """A short table with the machine, the versions and the summary."""
    machine = report["machine"]
    place = f"{machine['cpu']}, {machine['cores_usable']} usable cores, {machine['system']}"
    if "memory_gib" in machine:
        place += f", {machine['memory_gib']} GiB"
    lines = [
        f"- model: {report['model']['file']} ({report['model']['bytes'] / 1e9:.2f} GB), "
        f"{report['threads']} threads, {len(report['rounds'])} rounds of "
        f"{report['repetitions']} repetitions",
        f"- machine: {place}",
    ]
    if "read_bandwidth_gb_s" in machine:
        peak = machine["read_bandwidth_gb_s"]
        lines.append(
            f"- read bandwidth in the same runs: median {peak['median']:.1f} GB/s "
            f"({peak['min']:.1f} to {peak['max']:.1f})"
        )
    disturbed = [r["disturbed"] for r in report["rounds"] if r["disturbed"]]
    for key, who in (("other_programs", "other programs"), ("host", "the host")):
        worst = max((d[key] for d in disturbed), default=0.0)
        if worst >= DISTURBANCE_TOLD:
            lines.append(
                f"- not a quiet machine: {who} took up to {100 * worst:.0f} % of a round's CPU time"
            )
    for engine in report["engines"]:
        extra = f", {shlex.join(engine['extra_args'])}" if engine["extra_args"] else ""
        lines.append(f"- {engine['label']}: {engine['version']}{extra}")
    lines += [
        "",
        "| test | engine | tok/s, median (min to max) | Strata / engine, median (min to max) |",
        "|---|---|---:|---:|",
    ]
    for row in report["summary"]:
        t = row["tok_s"]
        ratio = ""
        if "strata_ratio" in row:
            r = row["strata_ratio"]
            ratio = f"{r['median']:.2f}x ({r['min']:.2f} to {r['max']:.2f})"
        lines.append(
            f"| {row['test']} | {row['engine']} "
            f"| {t['median']:.1f} ({t['min']:.1f} to {t['max']:.1f}) | {ratio} |"
        )
    return "\n".join(lines) + "\n"


def svg(report: dict) -> str:
    """Horizontal bars, one group a test, each group scaled to its own fastest engine."""
    left, bar_width, bar, gap, head = 170, 420, 20, 6, 28
    tests = list(dict.fromkeys(row["test"] for row in report["summary"]))
    per_test = len(report["engines"])
    height = len(tests) * (head + per_test * (bar + gap)) + 16
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{left + bar_width + 110}" '
        f'height="{height}" font-family="sans-serif" font-size="13">',
        '<rect width="100%" height="100%" fill="white"/>',
    ]
    y = 8
    for test in tests:
        rows = [row for row in report["summary"] if row["test"] == test]
        fastest = max(row["tok_s"]["max"] for row in rows)
        parts.append(f'<text x="8" y="{y + 17}" font-weight="bold">{test}, tokens/s</text>')
        y += head
        for i, row in enumerate(rows):
            t = row["tok_s"]
            width, low, high = (bar_width * t[key] / fastest for key in ("median", "min", "max"))
            mid = y + bar / 2
            parts += [
                f'<text x="{left - 8}" y="{mid + 5}" text-anchor="end">'
                f'{html.escape(row["engine"])}</text>',
                f'<rect x="{left}" y="{y}" width="{width:.1f}" height="{bar}" '
                f'fill="{"#2a6f97" if i == 0 else "#a9b4bd"}"/>',
                f'<path d="M{left + low:.1f} {mid}H{left + high:.1f}" stroke="#222" '
                'stroke-width="2"/>',
                f'<text x="{left + high + 8:.1f}" y="{mid + 5}">{t["median"]:.1f}</text>',
            ]
            y += bar + gap
    return "\n".join([*parts, "</svg>"]) + "\n"
