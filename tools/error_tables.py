#!/usr/bin/env python3
"""Prints the rows of docs/data/errors.csv from what ModelAgainstReference recorded.

  build/cpu/bin/model_test --gtest_filter='*ModelAgainstReference*' --gtest_output=json:cpu.json
  build/cpu/bin/cuda_model_test --gtest_filter='*ModelAgainstReference*' \\
      --gtest_output=json:cuda.json
  tools/error_tables.py cpu.json cuda.json
"""

import csv
import json
import re
import sys

# A row and the cases of reference_test.cc that it is the worst of.
FAMILIES = {
    "Llama 2 and 3": "Llama(?!Int8|Fp8|Packed|Gptq|Awq)",
    "Mistral": "Mistral",
    "Qwen 2": "Qwen2(?!Int8|Gptq)",
    "Qwen 3": "Qwen3(?!Moe)",
    "Gemma 2": "Gemma2",
    "Gemma 3": "Gemma3",
    "OLMo 2": "Olmo2",
    "Granite 3": "Granite",
    "SmolLM 3": "SmolLm3",
    "Phi-3, Phi-4": "Phi[34](?!Int8|Gptq)",
    "Mixtral": "Mixtral(?!Int8|Fp8|Packed|Gptq|Awq)",
    "Qwen 3 MoE": "Qwen3Moe(?!Fp8)",
    "gpt-oss": "GptOss(?!Mxfp4)",
}
FORMATS = {
    "int-quantized, W8A16": r"\w*Int8Rows",
    "int-quantized, W8A8": "W8A8",
    "float-quantized, fp8": r"\w*Fp8",
    "pack-quantized, 4 bits": r"\w*Packed4",
    "pack-quantized, 8 bits": r"\w*Packed8",
    "gptq, 4 bits": r"\w*Gptq(?!8)",
    "gptq, 8 bits": r"\w*Gptq8",
    "awq": r"\w*Awq",
    "mxfp4": r"\w*Mxfp4",
    "GGUF Q8_0": r"Gguf\w*Q8",
    "GGUF Q4_0": r"Gguf\w*Q4(?!K)",
    "GGUF Q5_0": "GgufQ5(?!K)",
    "GGUF Q4_K": r"Gguf\w*Q4K",
    "GGUF Q5_K": "GgufQ5K",
    "GGUF Q6_K": "GgufQ6K",
    "floats, with --weights int8": "WeightsInt8",
    "floats, with --weights int4": "WeightsInt4",
}
TESTS = ("LogitsAgreeInFloat", "AgreesWithBf16WeightsAndCache")


def errors(path):
    """By test and case."""
    found = {}
    with open(path, encoding="utf-8") as file:
        for suite in json.load(file)["testsuites"]:
            for test in suite["testsuite"]:
                if "error" in test:
                    name, case = test["name"].split("/")
                    found[name, case] = float(test["error"])
    return found


def worst(found, test, pattern):
    return max(error for (name, case), error in found.items() if name == test
               and re.match(pattern, case))


def main():
    backends = [errors(path) for path in sys.argv[1:]]
    out = csv.writer(sys.stdout, lineterminator="\n")
    columns = ["kind", "name", "cpu_f32", "cpu_bf16", "cuda_f32", "cuda_bf16"]
    out.writerow(columns[: 2 + 2 * len(backends)])
    for kind, rows in (("family", FAMILIES), ("format", FORMATS)):
        for name, pattern in rows.items():
            out.writerow([kind, name] + [f"{worst(b, t, pattern):.1e}"
                                         for b in backends for t in TESTS])


if __name__ == "__main__":
    main()
