"""The machine that compare_llama.py runs on, and who else used it meanwhile."""

from __future__ import annotations

import os
import pathlib
import platform
import resource


def machine_description() -> dict:
    """What a reader needs to judge the numbers, as far as this system tells it."""
    info = {
        "cpu": cpu_model(),
        "cores_usable": usable_cores(),
        "system": f"{platform.system()} {platform.release()}",
        "machine": platform.machine(),
    }
    try:
        info["memory_gib"] = round(
            os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30, 1
        )
    except (ValueError, OSError):
        pass
    return info


def cpu_model() -> str:
    try:
        for line in pathlib.Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    except OSError:
        pass
    return platform.processor() or "unknown"


def usable_cores() -> int:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def cpu_times() -> dict[str, float]:
    """CPU seconds since the machine started, and those of our ended children; empty if not told."""
    try:
        fields = (
            pathlib.Path("/proc/stat").read_text(encoding="utf-8").split("\n", 1)[0].split()[1:9]
        )
        tick = os.sysconf("SC_CLK_TCK")
    except OSError:
        return {}
    user, nice, system, idle, iowait, irq, softirq, steal = (int(f) / tick for f in fields)
    busy = user + nice + system + irq + softirq
    children = resource.getrusage(resource.RUSAGE_CHILDREN)
    return {
        "busy": busy,
        "steal": steal,
        "all": busy + steal + idle + iowait,
        "ours": children.ru_utime + children.ru_stime,
    }


def disturbance(before: dict[str, float], after: dict[str, float]) -> dict[str, float] | None:
    """Parts (0..1) of the machine's CPU time between two cpu_times() that other programs used and
    that the host took away (steal). None where the system does not tell or no time has passed."""
    if not before or not after or after["all"] <= before["all"]:
        return None
    spent = {key: after[key] - before[key] for key in before}
    return {
        "other_programs": max(0.0, spent["busy"] - spent["ours"]) / spent["all"],
        "host": max(0.0, spent["steal"]) / spent["all"],
    }
