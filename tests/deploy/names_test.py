#!/usr/bin/env python3
"""What the pages and the files in deploy/ name exists: flags, metrics, recorded series, files,
headings, build targets. So do the pages that any file of ours names. And every flag of the programs
is on some page.

  names_test.py SOURCE_DIR BINARY_DIR
"""

import pathlib
import re
import sys

from pages import flags_in, help_of, pages_of, subcommands_in

# Flags of other programs: kubectl, helm, docker, cmake, prometheus, curl, llama.cpp.
OTHERS_FLAGS = {"--benchmark", "--build", "--cacert", "--cert", "--command", "--config",
                "--create-namespace", "--force", "--from-file", "--gpus", "--image", "--install",
                "--key", "--labels", "--merge", "--network", "--output-on-failure",
                "--override-type", "--overrides", "--prefix", "--preset", "--read-only",
                "--restart", "--rm", "--scale", "--set", "--strict", "--strip", "--target",
                "--test-dir", "--time"}
# Flags of vLLM and SGLang, on the page that says which of ours do the same.
ENGINES_FLAGS = {
    "--api-key", "--chunked-prefill-size", "--context-length", "--data-parallel-size",
    "--disable-cuda-graph", "--disable-radix-cache", "--dtype", "--enable-auto-tool-choice",
    "--enable-lora", "--enable-metrics", "--enforce-eager", "--gpu-memory-utilization", "--host",
    "--lora-paths", "--max-model-len", "--max-num-batched-tokens", "--max-num-seqs",
    "--max-queued-requests", "--max-running-requests", "--max-total-tokens",
    "--mem-fraction-static", "--model-path", "--no-enable-prefix-caching",
    "--num-gpu-blocks-override", "--otlp-traces-endpoint", "--pipeline-parallel-size", "--port",
    "--quantization", "--random-seed", "--served-model-name", "--speculative-algorithm",
    "--speculative-config", "--speculative-draft-model-path", "--speculative-num-draft-tokens",
    "--ssl-certfile", "--ssl-keyfile", "--tensor-parallel-size", "--tool-call-parser",
    "--trust-remote-code"}
# What a path in backticks may begin with.
FOLDERS = ("client", "cmake", "common", "deploy", "docs", "drafter", "examples", "models", "proto",
           "scripts", "simulate", "tests", "tools", "verifier")
# Files whose comments and messages may name pages.
MENTION = {".cc", ".cu", ".h", ".h2m", ".html", ".json", ".md", ".proto", ".py", ".sh", ".txt",
           ".yaml", ".yml"}

mistakes = []


def expect(good, page, what):
    if not good:
        mistakes.append(f"{page}: {what}")


def flags_of_programs(binaries):
    texts = [help_of(binaries / "outrider-verifier"), help_of(binaries / "outrider-drafter")]
    outrider = binaries / "outrider"
    texts.append(help_of(outrider))
    commands = subcommands_in(texts[-1])
    assert "bench" in commands and "simulate" in commands, commands
    for command in commands:
        texts.append(help_of(outrider, command))
    texts.append(help_of(outrider, "simulate", "control"))
    return flags_in("\n".join(texts))


def targets_of(source):
    """What `cmake --build --target` takes, of our CMake lists."""
    lists = "\n".join(p.read_text() for p in source.rglob("CMakeLists.txt")
                      if "build" not in p.parts)
    made = r"\b(?:add_executable|add_library|add_custom_target|outrider_\w+)\(\s*([\w-]+)"
    fuzzed = re.findall(r"outrider_fuzz_test\((\w+)", lists)
    return set(re.findall(made, lists)) | {f"{name}_fuzz" for name in fuzzed}


def flags_of_tools(source):
    """Scripts, benchmarks and test tools have no --help to ask without running them. Tests have
    flags that do not exist, to see them refused."""
    files = [p for folder in ("examples", "scripts", "tools", "tests/bench", "tests/support")
             for p in (source / folder).rglob("*")
             if p.suffix in {".sh", ".py", ".cc"} and not p.stem.endswith("_test")]
    return {flag for p in files for flag in re.findall(r"(--[a-z][a-z0-9-]+)", p.read_text())}


def registered_metrics(source):
    files = [p for folder in ("common", "drafter", "verifier")
             for p in (source / folder).rglob("*")
             if p.suffix in {".cc", ".h"}]
    return {name for p in files for name in re.findall(r'"(outrider_[a-z0-9_]+)"', p.read_text())
            if not name.startswith("outrider_cuda_module")}  # symbols of a shared library


def is_metric(name, metrics):
    return name in metrics or re.sub(r"_(bucket|sum|count)$", "", name) in metrics


def anchor(heading):
    return re.sub(r"[^\w\- ]", "", heading.strip().lower()).replace(" ", "-")


def check_links(source, page, text):
    for target in re.findall(r"\]\(([^)\s]+)\)", text):
        if re.match(r"[a-z]+:", target):
            continue
        path, _, fragment = target.partition("#")
        file = (page.parent / path).resolve() if path else page
        expect(file.exists(), page, f"links to {target}: no such file")
        if fragment and file.suffix == ".md" and file.exists():
            headings = re.findall(r"^#+ (.*)$", file.read_text(), re.M)
            expect(fragment in map(anchor, headings), page, f"links to {target}: no such heading")
    for path in re.findall(r"`((?:%s)/[\w./-]+)`" % "|".join(FOLDERS), text):
        expect((source / path.rstrip("/")).exists(), page, f"names {path}: no such file")


def check_targets(source, page, text, targets):
    for named in re.findall(r"cmake --build [^\n#]*--target ([^\n#`]+)", text):
        for target in named.split():
            expect(target in targets, page, f"builds {target}: no such target")


def check_flags_are_named(source, flags):
    text = "\n".join(page.read_text() for page in pages_of(source))
    for flag in sorted(flags - flags_in(text)):
        expect(False, "docs/", f"names {flag} on no page")


def check_pages(source, flags, metrics, recorded):
    targets = targets_of(source)
    libraries = "\n".join(p.read_text() for p in source.rglob("CMakeLists.txt")
                          if "build" not in p.parts)
    for page in pages_of(source):
        text = page.read_text()
        known = flags | ENGINES_FLAGS if page.name == "migration.md" else flags
        for flag in sorted(flags_in(text)):
            expect(flag in known, page, f"names {flag}: no program has such a flag")
        for name in sorted(set(re.findall(r"\boutrider_[a-z0-9_]*[a-z0-9]\b(?!_)", text))):
            expect(is_metric(name, metrics) or name in libraries, page,
                   f"names {name}: no such metric")
        for name in sorted(set(re.findall(r"\boutrider:\w+:\w+", text))):
            expect(name in recorded, page, f"names {name}: no rule records it")
        check_links(source, page, text)
        check_targets(source, page, text, targets)
    listed = (source / "docs/metrics.md").read_text()
    for name in sorted(metrics):
        expect(f"`{name}" in listed, "docs/metrics.md", f"does not list {name}")


def check_deploy(source, metrics, recorded):
    for file in sorted((source / "deploy").rglob("*")):
        if file.suffix not in {".yml", ".yaml", ".json", ".tpl"}:
            continue
        text = file.read_text()
        for name in sorted(set(re.findall(r"\boutrider_[a-z0-9_]+", text))):
            expect(is_metric(name, metrics), file, f"names {name}: no such metric")
        for name in sorted(set(re.findall(r"\boutrider:\w+:\w+", text))):
            expect(name in recorded, file, f"names {name}: no rule records it")


def check_mentions(source):
    """Pages that comments and messages name; one of another project has a longer path."""
    for folder in FOLDERS:
        for file in sorted((source / folder).rglob("*")):
            if file.suffix in MENTION:
                for path in set(re.findall(r"(?<![/\w])docs/\w+\.md\b", file.read_text())):
                    expect((source / path).exists(), file, f"names {path}: no such page")


def main():
    source, binaries = pathlib.Path(sys.argv[1]).resolve(), pathlib.Path(sys.argv[2])
    ours = flags_of_programs(binaries)
    flags = ours | flags_of_tools(source) | OTHERS_FLAGS
    assert "--drain-timout" not in flags, "a mistake that chart_test.py makes on purpose"
    metrics = registered_metrics(source)
    recorded = set(re.findall(r"record: (\S+)",
                              (source / "deploy/prometheus/rules.yml").read_text()))
    assert len(flags) > 100 and len(metrics) > 60 and len(recorded) > 15, (
        len(flags), len(metrics), len(recorded))
    check_pages(source, flags, metrics, recorded)
    check_flags_are_named(source, ours)
    check_deploy(source, metrics, recorded)
    check_mentions(source)
    if mistakes:
        raise SystemExit("\n".join(mistakes))
    print(f"{len(flags)} flags, {len(metrics)} metrics and {len(recorded)} recorded series: what "
          "is named exists")


if __name__ == "__main__":
    main()
