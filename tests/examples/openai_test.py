#!/usr/bin/env python3
"""examples/openai_chat.py against a running pair.

  openai_test.py SOURCE_DIR BINARY_DIR
"""

import pathlib
import sys
import tempfile

from example import run
from packages import need_packages, version
from processes import Processes, small_pair
from serving import ServedPair

need_packages("openai")


def main():
    source, binaries = pathlib.Path(sys.argv[1]), pathlib.Path(sys.argv[2])
    with tempfile.TemporaryDirectory() as folder, Processes(folder) as processes:
        address = ServedPair(processes, binaries, small_pair(binaries)).http
        text, _ = run(source, "openai_chat.py", "--url", f"http://{address}/v1", "--question",
                      "Tell me a story.")
        assert len(text.splitlines()[0]) > 0 and "tokens]" in text.splitlines()[-1], text
    print(f"{version('openai')}: openai_chat.py")


if __name__ == "__main__":
    main()
