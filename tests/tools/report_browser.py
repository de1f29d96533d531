#!/usr/bin/env python3
"""Opens pages of `brim report` in Chromium, as desktops, phones and printers do, and looks at what it made of them.

    report_browser.py [--shots FOLDER] PAGE...

Fails where the console has an error, a chart is empty, something is asked of a network, or a phone would have to scroll
sideways. Screenshots are written to FOLDER.
"""

import argparse
import base64
import sys
import tempfile
import time
from pathlib import Path

from browser import PATIENCE_S, Browser

VIEWS = [(1280, 900, "light"), (1280, 900, "dark"), (390, 844, "light"), (390, 844, "dark")]
# A chart is drawn if its canvas has a pixel that is not transparent.
STATE = """(() => {
  const root = document.documentElement, copy = document.createElement("canvas");
  if (!root) return null;
  const pen = copy.getContext("2d", { willReadFrequently: true });
  const drawn = (canvas) => {
    if (!canvas.width || !canvas.height) return false;
    [copy.width, copy.height] = [canvas.width, canvas.height];
    pen.drawImage(canvas, 0, 0);
    return pen.getImageData(0, 0, copy.width, copy.height).data.some((byte) => byte !== 0);
  };
  const canvases = [...document.querySelectorAll("canvas")];
  return { ready: document.readyState, charts: canvases.length, drawn: canvases.filter(drawn).length,
    wide: root.scrollWidth - root.clientWidth, height: root.scrollHeight };
})()"""
TWO_FRAMES = "new Promise((then) => requestAnimationFrame(() => requestAnimationFrame(() => setTimeout(then, 100))))"


def complaints(events):
    """What the console and the network had to say."""
    for event in events:
        parameters = event.get("params", {})
        if event["method"] == "Runtime.exceptionThrown":
            yield parameters["exceptionDetails"].get("exception", {}).get("description", "an exception")
        elif event["method"] == "Runtime.consoleAPICalled" and parameters["type"] in ("error", "assert", "warning"):
            yield f"console: {parameters['args']}"
        elif event["method"] == "Log.entryAdded" and parameters["entry"]["level"] in ("error", "warning"):
            yield f"log: {parameters['entry']['text']}"
        elif event["method"] == "Network.requestWillBeSent" and not parameters["request"]["url"].startswith(("file:", "data:")):
            yield f"asks for {parameters['request']['url'][:200]}"


def look(browser, page, view, shots):
    """The faults of a page in a view."""
    width, height, scheme = view
    browser.events.clear()
    browser.call("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=width < 600)
    browser.call("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": scheme}])
    browser.call("Page.navigate", url=page.resolve().as_uri())
    state, end = None, time.monotonic() + PATIENCE_S
    while time.monotonic() < end:  # until the page has counted its charts
        state = browser.value(STATE)
        if state and state["ready"] == "complete" and state["charts"] == state["drawn"]:
            break
        time.sleep(0.1)
    faults = list(complaints(browser.events))
    if not state or not state["charts"]:
        return faults + ["no chart at all"]
    if state["drawn"] != state["charts"]:
        faults.append(f"{state['drawn']} of {state['charts']} charts are drawn")
    if state["wide"] > 0:
        faults.append(f"{state['wide']} pixels wider than the screen")
    if shots:
        # All of the page on one tall screen: beyond a screen's edge canvases may not have been painted yet.
        browser.call("Emulation.setDeviceMetricsOverride", width=width, height=state["height"], deviceScaleFactor=1, mobile=width < 600)
        browser.call("Runtime.evaluate", expression=TWO_FRAMES, awaitPromise=True)
        picture = browser.call("Page.captureScreenshot")["data"]
        (shots / f"{page.stem}-{width}-{scheme}.png").write_bytes(base64.b64decode(picture))
    return faults


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--shots", type=Path)
    parser.add_argument("pages", nargs="+", type=Path, metavar="PAGE")
    arguments = parser.parse_args()
    if arguments.shots:
        arguments.shots.mkdir(parents=True, exist_ok=True)
    failed = False
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as profile:
        browser = Browser(profile)
        try:
            for page in arguments.pages:
                for view in VIEWS:
                    faults = look(browser, page, view, arguments.shots)
                    failed |= bool(faults)
                    print(f"{page.name} at {view[0]}x{view[1]}, {view[2]}: {'; '.join(faults) or 'good'}")
                if arguments.shots:
                    paper = browser.call("Page.printToPDF", printBackground=True)["data"]
                    (arguments.shots / f"{page.stem}.pdf").write_bytes(base64.b64decode(paper))
        finally:
            browser.close()
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
