"""Shared by the tests with third-party clients: a pair to talk to."""

import re
import subprocess

from processes import small_pair

# A sampled request with a seed waits for its drafts, so that some are verified however busy the
# machine is.
DRAFTED = {"speculation": {"rule": "block", "draft_length": 4}, "temperature": 1, "seed": 3}


class ServedPair:
    """A verifier with an HTTP port and a drafter that always drafts; `processes` ends both."""

    def __init__(self, processes, binaries, models, *flags):
        line = processes.start("verifier", [
            binaries / "outrider-verifier", "--model", models / "target", "--listen", "127.0.0.1:0",
            "--metrics", "", "--policy", "fixed", "--http", "127.0.0.1:0", *flags],
                               await_line="http_port=").line
        self.grpc = "127.0.0.1:" + re.search(r" port=(\d+)", line).group(1)
        self.http = "127.0.0.1:" + re.search(r"http_port=(\d+)", line).group(1)
        processes.start("drafter", [
            binaries / "outrider-drafter", "--model", models / "drafter", "--verifier", self.grpc,
            "--metrics", ""],
            await_line=" attached ")


# What the copying model says before a tool has answered and afterwards (see tools_test.cc).
TOOL_TEMPLATE = """{#- <tool_call> <think> </think> -#}
{%- set ask = 'When someone asks, the model says this:\\n' -%}
{%- set told = 'Once the tool has answered it tells them that:\\n' -%}
{{- ask + call + ' (END) ' + told + final + ' (END) ' -}}
{{- told if messages[-1].role == 'tool' else ask -}}"""
CALL = """<think>
I should look first.
</think>

<tool_call>
{"name": "get_weather", "arguments": {"city": "Oslo", "days": [1, 2]}}
</tool_call>"""
FINAL = "It rains there all day, so take a coat."
TOOL = {"type": "function", "function": {"name": "get_weather", "parameters": {
    "type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}}}
# All fields of such a chat except its messages.
TOOL_CHAT = {"tools": [TOOL], "temperature": 0, "max_tokens": 200, "stop": " (END)",
             "chat_template_kwargs": {"call": CALL, "final": FINAL}}


def copying_model(processes, binaries, folder):
    """Starts a verifier with a model that copies its answer from the prompt; returns the HTTP
    address."""
    copying, template = folder / "copying", folder / "template.jinja"
    subprocess.run([binaries / "make_copying_checkpoint", copying, small_pair(binaries) / "target"],
                   check=True)
    template.write_text(TOOL_TEMPLATE)
    line = processes.start("copying", [
        binaries / "outrider-verifier", "--model", copying, "--listen", "127.0.0.1:0", "--metrics",
        "", "--http", "127.0.0.1:0", "--chat-template", template], await_line="http_port=").line
    return "127.0.0.1:" + re.search(r"http_port=(\d+)", line).group(1)
