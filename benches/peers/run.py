#!/usr/bin/env python3
"""Times gradloom beside PyTorch on the steps of two small perceptrons, in turn, on an otherwise quiet machine.

usage:  run.py run [--rounds 5] [--threads N] [--only REGEX]    appends to results.jsonl
        run.py report                                           medians, spread, ratio to the best peer

Programs that are not there are skipped. Setup: README.md beside this file.
"""
import argparse
import json
import os
import re
import statistics
import subprocess
import time

HERE = os.path.dirname(os.path.abspath(__file__))
WORK = os.environ.get("BENCH_WORK", os.path.join(HERE, ".work"))
PYTHON = os.environ.get("BENCH_PYTHON", os.path.join(WORK, "venv/bin/python"))
GRADLOOM = os.environ.get("GRADLOOM", "target/release/gradloom")
RESULTS = os.path.join(WORK, "results-mlp.jsonl")
AVX512 = os.path.join(WORK, "mkl_avx512.so")
CONFIGS = ["tg-mlp", "mnist-mlp"]
MODES = ["eager", "compile", "compile-step"]


def jobs(threads):
    """Pairs of (name, command line, shared object to load first)."""
    for config in CONFIGS:
        flags = ["--threads", str(threads)]
        yield f"gradloom {config}", [GRADLOOM, "bench", "--config", config, "--json", *flags], None
        for mode in MODES:
            command = [PYTHON, os.path.join(HERE, "torch_mlp.py"), config, mode, *flags]
            yield f"torch-{mode} {config}", command, None
            yield f"torch-{mode}+avx512 {config}", command, AVX512


def busy_seconds():
    user, nice, system, _idle, _wait, irq, softirq, steal = map(int, open("/proc/stat").readline().split()[1:9])
    return (user + nice + system + irq + softirq + steal) / os.sysconf("SC_CLK_TCK")


def wait_until_quiet(limit):
    """Waits until the cores are idle for two seconds; whether they were within `limit` seconds."""
    end = time.time() + limit
    while time.time() < end:
        busy, began = busy_seconds(), time.time()
        time.sleep(2)
        if (busy_seconds() - busy) / (os.cpu_count() * (time.time() - began)) < 0.06:
            return True
    return False


def run(name, command, preload, threads, patience):
    if not all(os.path.exists(path) for path in [command[0], *([preload] if preload else [])]):
        print(f"{name}: not there, skipped")
        return
    environment = dict(os.environ, OMP_NUM_THREADS=str(threads), MKL_NUM_THREADS=str(threads))
    if preload:
        environment["LD_PRELOAD"] = preload
    quiet = wait_until_quiet(patience)
    done = subprocess.run(command, env=environment, capture_output=True, text=True)
    lines = done.stdout.splitlines()
    if done.returncode or not lines:
        print(f"{name}: FAILED\n{done.stderr[-600:]}")
        return
    figures = json.loads(lines[-1])
    keys = ["ms_per_step", "ms_min", "ms_max", "first_step_ms", "final_loss", "rss_mb"]
    row = {"name": name, "threads": threads, "quiet": quiet, **{key: figures[key] for key in keys}}
    with open(RESULTS, "a") as out:
        out.write(json.dumps(row) + "\n")
    print(row, flush=True)


def report():
    rows = {}
    for line in open(RESULTS):
        row = json.loads(line)
        rows.setdefault((row["name"].split()[1], row["threads"]), {}).setdefault(row["name"].split()[0], []).append(row)
    for (config, threads), programs in sorted(rows.items()):
        median = {name: statistics.median(r["ms_per_step"] for r in found) for name, found in programs.items()}
        peers = [time for name, time in median.items() if name != "gradloom"]
        best = min(peers, default=float("nan"))
        print(f"{config}, {threads} threads")
        for name, time_of in sorted(median.items(), key=lambda pair: pair[1]):
            found = programs[name]
            times = [r["ms_per_step"] for r in found]
            quiet = sum(r["quiet"] for r in found)
            memory = statistics.median(r["rss_mb"] for r in found)
            first = statistics.median(r["first_step_ms"] for r in found)
            print(f"  {name:28} {time_of:8.3f} ms [{min(times):.3f}..{max(times):.3f}] n={len(found)} ({quiet} quiet)"
                  f"  x{time_of / best:.2f} of the best peer  {memory:.0f} MB  first step {first:.0f} ms"
                  f"  loss {found[-1]['final_loss']:.2e}")


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("what", choices=["run", "report"])
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--threads", type=int, default=os.cpu_count())
    parser.add_argument("--only", default=".", help="a regular expression for the names of the programs")
    parser.add_argument("--patience", type=float, default=600, help="seconds to wait for a quiet machine before each run")
    given = parser.parse_args()
    if given.what == "report":
        return report()
    os.makedirs(WORK, exist_ok=True)
    for _ in range(given.rounds):
        for name, command, preload in jobs(given.threads):
            if re.search(given.only, name):
                run(name, command, preload, given.threads, given.patience)


main()
