"""A program that alternates with others: it keeps its models loaded, and answers each line of its
standard input with a line of JSON. Its first line says that it is ready, or {"skipped": why}."""
import contextlib
import json
import subprocess
import sys


class TurnProcess:
    def __init__(self, name: str, command: list[str]):
        self.name = name
        self.command = command
        self.process: subprocess.Popen | None = None

    def start(self) -> dict:
        self.process = subprocess.Popen(self.command, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                        text=True)
        return self.reply()

    def reply(self) -> dict:
        for line in self.process.stdout:
            if line.startswith("{"):
                return json.loads(line)
        sys.exit(f"{self.name} ended with {self.process.wait()}")

    def turn(self, line: str) -> dict:
        self.process.stdin.write(line + "\n")
        self.process.stdin.flush()
        return self.reply()

    def stop(self) -> None:
        if self.process is None:
            return
        with contextlib.suppress(BrokenPipeError):
            self.process.stdin.close()
        self.process.wait()
