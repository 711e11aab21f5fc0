"""Texts by a pair of models, end to end, for cpu_race.py: Outrider's two services and llama-server
over HTTP, transformers by race_assisted.py. One request at a time, greedy, one thread per model;
engines may use all of --pair-cores."""
import json
import subprocess
import sys
import time
import urllib.error
import urllib.request
from contextlib import ExitStack
from pathlib import Path

from bench_support import Service, free_port
from race_cases import Case
from race_passes import BENCH, Missing, existing, gguf_of, llama_cpp_version
from race_ratios import OURS
from turn_process import TurnProcess


class TextEngine:
    """`target` and `drafter` are Hugging Face folders."""

    version = ""

    def __init__(self, name: str, args, target: Path, drafter: Path):
        self.name, self.args, self.target, self.drafter = name, args, target, drafter
        self.running = ExitStack()
        self.texts: dict[str, str] = {}  # the last plain ones, by prompt
        try:
            self.start()
        except BaseException:
            self.running.close()
            raise

    def start(self) -> None:
        raise NotImplementedError

    def answer(self, prompt: str, speculative: bool) -> tuple[str, int]:
        """The text and its number of tokens."""
        raise NotImplementedError

    def seconds(self, case: Case) -> float:
        """The mean time per token."""
        start, tokens = time.perf_counter(), 0
        for prompt in self.args.prompts:
            text, count = self.answer(prompt, case.kind == "speculative")
            tokens += count
            if case.kind == "plain":
                self.texts[prompt] = text
        return (time.perf_counter() - start) / tokens

    def stop(self) -> None:
        self.running.close()


def complete(address: str, request: dict) -> dict:
    """The answer to one request by OpenAI's completions."""
    call = urllib.request.Request(f"http://{address}/v1/completions", json.dumps(request).encode(),
                                  {"Content-Type": "application/json"})
    with urllib.request.urlopen(call) as reply:
        return json.load(reply)


def text_of(answer: dict) -> tuple[str, int]:
    return answer["choices"][0]["text"], answer["usage"]["completion_tokens"]


class OutriderTexts(TextEngine):
    """As a user starts it, but without drafts from the text itself: other engines draft only with
    the model here."""

    def start(self) -> None:
        cores = self.args.pair_cores.split(",")
        self.addresses = {}
        for speculative in (False, True):
            self.addresses[speculative] = f"127.0.0.1:{free_port()}"
            flags = ["--http", self.addresses[speculative], "--lookup-tokens", 0, "--suffix-tokens",
                     0, "--no-prefix-cache", "--weights", self.args.text_precision]
            self.running.enter_context(Service(
                self.args, f"race-{'speculative' if speculative else 'plain'}", self.target,
                drafter=self.drafter if speculative else None, ahead=True, cores=cores[0],
                drafter_cores=cores[-1], flags=flags))

    def answer(self, prompt: str, speculative: bool) -> tuple[str, int]:
        return text_of(complete(self.addresses[speculative], {
            "model": self.target.name, "prompt": prompt, "temperature": 0,
            "max_tokens": self.args.tokens, "ignore_eos": True}))


class LlamaServerTexts(TextEngine):
    def start(self) -> None:
        program = existing(self.args.llama_cpp, "--llama-cpp", "bin/llama-server")
        self.version = llama_cpp_version(program)
        target, drafter = (gguf_of(self.args, model, self.args.text_precision)
                           for model in (self.target, self.drafter))
        draft = ["--spec-type", "draft-simple", "--spec-draft-model", drafter,
                 "--spec-draft-threads", 1, "--spec-draft-n-max", self.args.draft]
        self.addresses = {}
        for speculative in (False, True):
            port = free_port()
            self.addresses[speculative] = f"127.0.0.1:{port}"
            command = ["taskset", "-c", self.args.pair_cores, program, "-m", target, "--host",
                       "127.0.0.1", "--port", port, "-t", 1, "-tb", 1, "-np", 1, "-c", 512, "-ngl",
                       0, *(draft if speculative else [])]
            log = self.running.enter_context(
                open(self.args.log_dir / f"llama-server-{speculative}.log", "w", encoding="utf-8"))
            server = subprocess.Popen([str(word) for word in command], stdout=log, stderr=log)
            self.running.callback(server.wait)
            self.running.callback(server.terminate)
            self.await_health(server, self.addresses[speculative], log.name)

    @staticmethod
    def await_health(server: subprocess.Popen, address: str, log: str) -> None:
        for _ in range(600):
            if server.poll() is not None:
                break
            try:
                with urllib.request.urlopen(f"http://{address}/health"):
                    return
            except (urllib.error.URLError, ConnectionError):
                time.sleep(0.1)
        raise Missing(f"llama-server did not come up; see {log}")

    def answer(self, prompt: str, speculative: bool) -> tuple[str, int]:
        answer = complete(self.addresses[speculative], {
            "prompt": prompt, "temperature": 0, "max_tokens": self.args.tokens, "ignore_eos": True,
            "cache_prompt": False})
        if speculative and not answer["timings"].get("draft_n"):
            sys.exit("llama-server has drafted nothing: its flags have changed")
        return text_of(answer)


class TransformersTexts(TextEngine):
    def start(self) -> None:
        python = existing(self.args.transformers_python, "--transformers-python")
        if self.args.text_precision == "int8":
            raise Missing("transformers has no 8-bit products on a CPU")
        self.process = TurnProcess(self.name, [
            "taskset", "-c", self.args.pair_cores, str(python), "-B",
            str(BENCH / "race_assisted.py"), str(self.target), str(self.drafter), "--precision",
            self.args.text_precision, "--tokens", str(self.args.tokens), "--draft",
            str(self.args.draft)])
        self.running.callback(self.process.stop)
        reply = self.process.start()
        if "skipped" in reply:
            raise Missing(reply["skipped"])
        self.version = reply["version"]

    def answer(self, prompt: str, speculative: bool) -> tuple[str, int]:
        reply = self.process.turn(json.dumps({"prompt": prompt, "speculative": speculative}))
        return reply["text"], reply["tokens"]


TEXT_MAKERS = {OURS: OutriderTexts, "llama.cpp": LlamaServerTexts,
               "transformers": TransformersTexts}


def same_start(a: str, b: str) -> float:
    """The fraction of the shorter text before the first difference."""
    common = next((i for i, (x, y) in enumerate(zip(a, b)) if x != y), min(len(a), len(b)))
    return common / max(1, min(len(a), len(b)))
