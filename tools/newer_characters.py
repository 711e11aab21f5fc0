#!/usr/bin/env python3
"""Makes common/text/newer_characters.h: the characters that Unicode 15 has and PCRE2 10.42, which knows 14, has not.

Reads Debian's package unicode-data (15.0). CJK extension I is of 15.1 and added here.

  tools/newer_characters.py [/usr/share/unicode] > common/text/newer_characters.h
"""

import pathlib
import sys

AGES = {"15.0"}
EXTENSION_I = range(0x2EBF0, 0x2EE5E)  # category Lo, alphabetic

HEADER = '''// Characters that are newer than PCRE2's tables, by property, as ranges of a character class. Made by
// tools/newer_characters.py from the Unicode character database, version 15.0, and of 15.1 CJK extension I.
#pragma once

#include <string_view>

namespace outrider {

struct NewerCharacters {
  std::string_view property;  // as in \\p{...}
  std::string_view ranges;
};

inline constexpr NewerCharacters kNewerCharacters[] = {
'''


def rows(path):
    """The fields of each line that holds some, with its first and last code point."""
    for line in path.read_text().splitlines():
        fields = [field.strip() for field in line.split("#")[0].split(";")]
        if len(fields) < 2:
            continue
        first, _, last = fields[0].partition("..")
        yield int(first, 16), int(last or first, 16), fields[1:]


def newer(folder):
    codes = set(EXTENSION_I)
    for first, last, fields in rows(folder / "DerivedAge.txt"):
        if fields[0] in AGES:
            codes.update(range(first, last + 1))
    return codes


def categories(folder, codes):
    """The general category of each code point, and what it is part of."""
    found = {code: "Lo" for code in EXTENSION_I}
    begin = None
    for line in (folder / "UnicodeData.txt").read_text().splitlines():
        fields = line.split(";")
        code = int(fields[0], 16)
        if fields[1].endswith("First>"):
            begin = code
            continue
        first = begin if fields[1].endswith("Last>") else code
        begin = None
        for each in range(first, code + 1):
            if each in codes:
                found[each] = fields[2]
    return found


def ranges(codes):
    out = []
    for code in sorted(codes):
        if out and out[-1][1] == code - 1:
            out[-1][1] = code
        else:
            out.append([code, code])
    return out


def main():
    folder = pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else "/usr/share/unicode")
    codes = newer(folder)
    sets = {}
    for code, category in categories(folder, codes).items():
        sets.setdefault(category, set()).add(code)
        sets.setdefault(category[0], set()).add(code)
    alphabetic = set(EXTENSION_I)
    for first, last, fields in rows(folder / "DerivedCoreProperties.txt"):
        if fields[0] == "Alphabetic":
            alphabetic.update(codes.intersection(range(first, last + 1)))
    sets["Alphabetic"] = alphabetic
    print(HEADER, end="")
    for name in sorted(sets):
        print(f'    {{"{name}",')
        texts = [f"\\\\x{{{a:X}}}" if a == b else f"\\\\x{{{a:X}}}-\\\\x{{{b:X}}}" for a, b in ranges(sets[name])]
        lines = [""]
        for text in texts:
            if len(lines[-1]) + len(text) > 88:
                lines.append("")
            lines[-1] += text
        print("\n".join(f'     "{line}"' for line in lines) + "},")
    print("};\n\n}  // namespace outrider")


if __name__ == "__main__":
    main()
