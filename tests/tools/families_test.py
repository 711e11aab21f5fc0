#!/usr/bin/env python3
"""Every architecture that a model may have is tested like the others: the fuzzer starts from a
config.json of it, and its logits are compared with a plain model and, on a CUDA device, with the
CPU's.

  families_test.py SOURCE_DIR BINARY_DIR
"""

import json
import pathlib
import re
import sys


def architectures(source):
    table = (source / "common/model/architectures/architecture.cc").read_text()
    return re.findall(r'\.name = "(\w+)"', table)


def families_of(source):
    """The families of checkpoint_maker.h that have each architecture."""
    maker = (source / "tests/support/checkpoint_maker.cc").read_text()
    families = {}
    for family, architecture in re.findall(r'\{Family::(k\w+), "(\w+ForCausalLM)"\}', maker):
        families.setdefault(architecture, set()).add(family)
    return families


def corpus(source):
    return {name for file in (source / "tests/fuzz/corpus/config").glob("*.json")
            for name in json.loads(file.read_text())["architectures"]}


def cases(source, test):
    text = (source / "tests/common/model" / test).read_text()
    return set(re.findall(r"Case\{[^{]*\{\.family = Family::(k\w+)", text))


def main():
    source = pathlib.Path(sys.argv[1])
    known, families, seeds = architectures(source), families_of(source), corpus(source)
    assert len(known) > 10, known
    missing = [f"{name}: no file in tests/fuzz/corpus/config" for name in known
               if name not in seeds]
    for test in ("reference_test.cc", "cuda_parity_test.cc"):
        tested = cases(source, test)
        missing += [f"{name}: no case in tests/common/model/{test}" for name in known
                    if not families.get(name, set()) & tested]
    if missing:
        raise SystemExit("\n".join(missing))
    print(f"{len(known)} architectures have a corpus file, a reference case and a parity case")


if __name__ == "__main__":
    main()
