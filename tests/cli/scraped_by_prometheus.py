#!/usr/bin/env python3
"""The real Prometheus scrapes a training, promtool finds nothing to say, and its client library parses the
OpenMetrics page. scraped_by_prometheus.py BRIM; needs Debian's prometheus and PyPI's prometheus_client."""

import json
import pathlib
import socket
import subprocess
import sys
import tempfile
import time
import urllib.parse
import urllib.request

from prometheus_client.openmetrics.parser import text_string_to_metric_families

CONFIG = """
scrape_configs:
  - job_name: brim
    scrape_interval: 200ms
    scrape_timeout: 200ms
    authorization: {{ credentials: {token} }}
    static_configs: [ targets: ["127.0.0.1:{port}"] ]
"""
TOKEN = "0123456789abcdef0123456789abcdef"


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


def page(port, accept):
    request = urllib.request.Request(f"http://127.0.0.1:{port}/metrics", headers={"Accept": accept, "Authorization": f"Bearer {TOKEN}"})
    with urllib.request.urlopen(request, timeout=5) as answer:
        return answer.read().decode()


def query(port, expression):
    url = f"http://127.0.0.1:{port}/api/v1/query?" + urllib.parse.urlencode({"query": expression})
    with urllib.request.urlopen(url, timeout=5) as answer:
        return json.load(answer)["data"]["result"]


def eventually(what, seconds=60):
    end = time.time() + seconds
    while True:
        try:
            found = what()
            if found:
                return found
        except OSError:
            pass
        assert time.time() < end, "not within a minute"
        time.sleep(0.1)


def check(brim, folder):
    own, prometheus = free_port(), free_port()
    (folder / "token").write_text(TOKEN + "\n")
    (folder / "prometheus.yml").write_text(CONFIG.format(port=own, token=TOKEN))
    training = subprocess.Popen([brim, "train", "tutorial-cnn", "--data", "shapes10", "--epochs", "1000", "--monitor", "0.1",
                                 "--metrics", str(own), "--metrics-token", folder / "token"], stdout=subprocess.DEVNULL)
    server = subprocess.Popen(["prometheus", f"--config.file={folder}/prometheus.yml", f"--storage.tsdb.path={folder}/tsdb",
                               f"--web.listen-address=127.0.0.1:{prometheus}", "--log.level=error"])
    try:
        text = eventually(lambda: "brim_loss{" in page(own, "text/plain") and page(own, "text/plain"))
        lint = subprocess.run(["promtool", "check", "metrics"], input=text, text=True, capture_output=True)
        assert lint.returncode == 0, lint.stdout + lint.stderr
        families = {f.name: f for f in text_string_to_metric_families(page(own, "application/openmetrics-text"))}
        assert families["brim_device_seconds"].type == "counter"
        causes = {s.labels["cause"] for s in families["brim_device_seconds"].samples}
        assert "compute" in causes, causes
        for name in ("brim_steps_total", "brim_loss", "brim_loader_ready_batches", "brim_host_cpu_load_ratio"):
            assert eventually(lambda: query(prometheus, name)), name
        assert query(prometheus, 'up{job="brim"}')[0]["value"][1] == "1"
        seen = []
        def adds_up():
            found = query(prometheus, "sum(rate(brim_device_seconds_total[3s]))")
            seen.append(float(found[0]["value"][1]) if found else 0)
            return 0.8 < seen[-1] < 1.2
        eventually(adds_up)
        print(f"Prometheus scrapes it: seconds by cause add up to {seen[-1]:.3f} a second")
    finally:
        for process in (training, server):
            process.terminate()
            process.wait(timeout=30)


with tempfile.TemporaryDirectory() as temporary:
    check(sys.argv[1], pathlib.Path(temporary))
