"""The limiting unit of each kernel: a table in Markdown, by Nsight Compute.

    ncu_table.py COMMAND...

Runs COMMAND under ncu and prints a line for each gridz kernel. The limiter is the unit with the
highest utilization, in percent of its peak; if that is far below 100, latency is the limit.
"""

import csv
import subprocess
import sys

UNITS = {
    "DRAM": "dram__throughput.avg.pct_of_peak_sustained_elapsed",
    "L2": "lts__throughput.avg.pct_of_peak_sustained_elapsed",
    "L1 and shared": "l1tex__throughput.avg.pct_of_peak_sustained_active",
    "ALU": "sm__inst_executed_pipe_alu.avg.pct_of_peak_sustained_active",
    "issue": "smsp__issue_active.avg.pct_of_peak_sustained_active",
}
OTHERS = {
    "registers": "launch__registers_per_thread",
    "threads": "launch__block_size",
    "occupancy %": "sm__warps_active.avg.pct_of_peak_sustained_active",
    "µs": "gpu__time_duration.sum",
}
REFUSALS = ["ERR_NVGPUCTRPERM", "LibraryNotLoaded", "Device not supported"]


def measure(command):
    """Kernels in the order of their launches, each with its metrics by name."""
    ncu = ["ncu", "--csv", "--print-units", "base", "--clock-control", "none"]
    ncu += ["--kernel-name", "regex:^(ndzip|lorenzo|quant|zfp|multigrid|huffman|cci|stored)_", "--metrics", ",".join([*UNITS.values(), *OTHERS.values()])]
    done = subprocess.run(ncu + command, capture_output=True, text=True, timeout=200)
    lines = done.stdout.splitlines()
    start = next((i for i, line in enumerate(lines) if line.startswith('"ID"')), None)
    if done.returncode != 0 or start is None:
        text = (done.stdout + done.stderr).strip()[-2000:]
        if any(refusal in text for refusal in REFUSALS):
            print(f"SKIPPED, this machine does not let ncu read its counters: {text}")
            sys.exit(0)
        sys.exit(f"ncu: {text}")
    kernels = {}
    for row in csv.DictReader(lines[start:]):
        value = row["Metric Value"].replace(",", "")
        kernel = kernels.setdefault(row["ID"], {"name": row["Kernel Name"], "grid": row["Grid Size"]})
        kernel[row["Metric Name"]] = float(value) if value.replace(".", "", 1).isdigit() else float("nan")
    return kernels.values()


def main():
    """The table."""
    columns = ["kernel", "grid", *OTHERS, *[f"{unit} %" for unit in UNITS], "limiter"]
    print(f"| {' | '.join(columns)} |\n|{'---|' * len(columns)}")
    for kernel in measure(sys.argv[1:]):
        use = {unit: kernel.get(metric, float("nan")) for unit, metric in UNITS.items()}
        others = {name: kernel.get(metric, float("nan")) for name, metric in OTHERS.items()}
        others["µs"] /= 1000  # ncu's base unit is the nanosecond
        limiter = max(use, key=lambda unit: -1 if use[unit] != use[unit] else use[unit])
        numbers = [f"{number:.0f}" for number in (*others.values(), *use.values())]
        print(f"| {' | '.join([kernel['name'], kernel['grid'].strip('()'), *numbers, limiter])} |")


main()
