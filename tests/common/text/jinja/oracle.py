"""Renders templates with Jinja as transformers configures it, and with the program under test."""

import copy
import datetime
import functools
import json
import pathlib
import subprocess

import jinja2
import jinja2.ext
import jinja2.nodes
import jinja2.sandbox

NOW = 1_721_995_200  # 26 July 2024


class GenerationBlock(jinja2.ext.Extension):
    """`{% generation %}` marks what the model wrote; for inference it is a call block without
    effect."""

    tags = {"generation"}

    def parse(self, parser):
        line = next(parser.stream).lineno
        body = parser.parse_statements(("name:endgeneration",), drop_needle=True)
        return jinja2.nodes.CallBlock(self.call_method("_body"), [], [], body).set_lineno(line)

    def _body(self, caller):
        return caller()


def _tojson(value, ensure_ascii=False, indent=None, separators=None, sort_keys=False):
    return json.dumps(value, ensure_ascii=ensure_ascii, indent=indent, separators=separators,
                      sort_keys=sort_keys)


def _raise_exception(message):
    raise jinja2.exceptions.TemplateError(message)


def environment():
    env = jinja2.sandbox.ImmutableSandboxedEnvironment(
        trim_blocks=True, lstrip_blocks=True, extensions=[GenerationBlock, jinja2.ext.loopcontrols]
    )
    env.filters["tojson"] = _tojson
    env.globals["raise_exception"] = _raise_exception
    env.globals["strftime_now"] = lambda text: datetime.datetime.fromtimestamp(NOW).strftime(text)
    return env


ENVIRONMENT = environment()


@functools.lru_cache(maxsize=64)
def compiled(template):
    return ENVIRONMENT.from_string(template)


def expected(template, variables):
    """The text that Jinja renders, or the exception that it raises."""
    try:
        # A copy, since the filter `indent` appends to a list that it is given.
        text = compiled(template).render(**copy.deepcopy(variables))
        text.encode()
        return text
    except Exception as error:  # noqa: BLE001 (a template can raise anything)
        return error


def rendered(binaries, cases):
    """The program's answers for (template, variables) pairs, as dictionaries (see
    render_templates.cc)."""
    lines = "".join(
        json.dumps({"template": template, "variables": variables, "now": NOW}) + "\n"
        for template, variables in cases
    )
    program = pathlib.Path(binaries) / "render_templates"
    done = subprocess.run([program], input=lines.encode(), stdout=subprocess.PIPE, check=True)
    return [json.loads(line) for line in done.stdout.splitlines()]


def difference(template, variables, ours):
    """Describes how the two results differ, or returns None. If one is an error, the other must be
    one too."""
    theirs = expected(template, variables)
    shown = f"template: {template!r}\nvariables: {json.dumps(variables)[:2000]}\n"
    if isinstance(theirs, Exception):
        if "error" in ours:
            return None
        return f"{shown}Jinja: {type(theirs).__name__}: {theirs}\nours:  {ours['text']!r}"
    if "error" in ours:
        return f"{shown}Jinja: {theirs!r}\nours:  error {ours['error']}"
    if ours["text"] != theirs:
        return f"{shown}Jinja: {theirs!r}\nours:  {ours['text']!r}"
    return None
