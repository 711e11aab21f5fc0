#!/usr/bin/env python3
"""Makes common/text/script_ranges.h: the scripts of characters as the Hugging Face library's
UnicodeScripts has them.

Reads Debian's package unicode-data. The library's table is that of Unicode 9.

  tools/script_ranges.py [/usr/share/unicode] > common/text/script_ranges.h
"""

import pathlib
import sys

from newer_characters import characters_of, rows

UNICODE = (9, 0)
# Where the library follows a later Unicode than that, or its own mind.
DIFFERENT = {0x589: "Common", 0x61C: "Common", 0x953: "Devanagari", 0x954: "Devanagari",
             0x30FC: "Han"}
SAME = {"Hiragana": "Han", "Katakana": "Han"}

HEADER = """\
// The scripts of characters, as the Hugging Face library's UnicodeScripts has them: of Unicode 9,
// with Hiragana and Katakana as Han. Made by tools/script_ranges.py from the Unicode character
// database.
#pragma once

#include <cstdint>

namespace outrider {

struct ScriptRange {
  char32_t first, last;
  uint8_t script;  // its number says nothing but which ranges are of one script
};

// Rising; what lies between has no script.
inline constexpr ScriptRange kScriptRanges[] = {
"""


def main():
    folder = pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else "/usr/share/unicode")
    known = characters_of(folder, lambda version: version <= UNICODE)
    scripts = {}
    for first, last, fields in rows(folder / "Scripts.txt"):
        for code in known.intersection(range(first, last + 1)):
            scripts[code] = SAME.get(fields[0], fields[0])
    scripts.update(DIFFERENT)
    del scripts[ord(" ")]  # goes with what comes before it
    numbers = {name: number for number, name in enumerate(sorted(set(scripts.values())), 1)}
    ranges = []
    for code in sorted(scripts):
        number = numbers[scripts[code]]
        if ranges and ranges[-1][1] == code - 1 and ranges[-1][2] == number:
            ranges[-1][1] = code
        else:
            ranges.append([code, code, number])
    print(HEADER, end="")
    for first, last, number in ranges:
        print(f"    {{0x{first:X}, 0x{last:X}, {number}}},")
    print("};\n\n}  // namespace outrider")


if __name__ == "__main__":
    main()
