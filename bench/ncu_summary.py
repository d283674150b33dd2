#!/usr/bin/env python3
"""ncu_summary.py - `ncu --csv` on standard input: time by kernel, the longest first, and how near its bounds each is.

Columns: ms in all, share, launches, then percent of the peak of memory (DRAM) and of the multiprocessors, both
weighted by time: the larger of the two tells what bounds a kernel, and two small ones that latency does.
"""
import csv
import sys

TIME, DRAM, SM = ("gpu__time_duration.sum", "dram__throughput.avg.pct_of_peak_sustained_elapsed",
                  "sm__throughput.avg.pct_of_peak_sustained_elapsed")
TO_MS = {"nsecond": 1e-6, "ns": 1e-6, "usecond": 1e-3, "us": 1e-3, "msecond": 1, "ms": 1, "second": 1e3, "s": 1e3}


def launches(lines):
    """{ID: {"name": ..., metric: value}} from ncu's table, which stands after what the program prints."""
    table = [line for line in lines if line.startswith('"')]
    found = {}
    for row in csv.DictReader(table):
        value = float(row["Metric Value"].replace(",", "") or 0)
        if row["Metric Name"] == TIME:
            value *= TO_MS[row["Metric Unit"]]
        found.setdefault(row["ID"], {"name": row["Kernel Name"]})[row["Metric Name"]] = value
    return found


def by_kernel(found):
    """[(name, ms, launches, dram, sm)], the longest first."""
    sums = {}
    for one in found.values():
        ms = one.get(TIME, 0.0)
        s = sums.setdefault(one["name"], [0.0, 0, 0.0, 0.0])
        s[0] += ms
        s[1] += 1
        s[2] += ms * one.get(DRAM, 0.0)
        s[3] += ms * one.get(SM, 0.0)
    rows = [(name, ms, n, dram / ms if ms else 0, sm / ms if ms else 0) for name, (ms, n, dram, sm) in sums.items()]
    return sorted(rows, key=lambda r: -r[1])


def main():
    rows = by_kernel(launches(sys.stdin))
    total = sum(r[1] for r in rows)
    if not total:
        sys.exit("ncu_summary.py: no kernels in what ncu printed")
    print(f"{total:.3f} ms in {sum(r[2] for r in rows)} launches of {len(rows)} kernels")
    print(f"{'ms':>9} {'share':>6} {'count':>6} {'dram%':>6} {'sm%':>6}  kernel")
    for name, ms, n, dram, sm in rows[:30]:
        print(f"{ms:9.3f} {ms / total:6.1%} {n:6} {dram:6.1f} {sm:6.1f}  {name[:100]}")


if __name__ == "__main__":
    main()
