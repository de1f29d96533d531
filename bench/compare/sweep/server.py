"""brim's side: one process that is asked case by case (bench/command/sweep/serve.h)."""

import json
import os
import subprocess


class BrimFailed(Exception):
    pass


class Server:
    def __init__(self, path):
        self.words = [path, "bench", "sweep", "--serve"]
        # pylint: disable-next=consider-using-with
        self.process = subprocess.Popen(self.words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.stdin.close()
        self.process.stdout.close()
        self.process.wait()

    def ask(self, request):
        """The answer. Raises BrimFailed where brim could not give one."""
        try:
            self.process.stdin.write(json.dumps(request) + "\n")
            self.process.stdin.flush()
            line = self.process.stdout.readline()
        except BrokenPipeError:
            line = ""
        if not line:
            raise BrimFailed(f"`{' '.join(self.words)}` ended with {self.process.wait()} at {json.dumps(request)}")
        answer = json.loads(line)
        if "error" in answer:
            raise BrimFailed(answer["error"])
        return answer

    def ops(self):
        return self.ask({"list": True})["ops"]

    def cpu_seconds(self):
        """That it has used so far."""
        with open(f"/proc/{self.process.pid}/stat", encoding="utf-8") as stat:
            user, system = stat.read().rsplit(")", 1)[1].split()[11:13]
        return (int(user) + int(system)) / os.sysconf("SC_CLK_TCK")
