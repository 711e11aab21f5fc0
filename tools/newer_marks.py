#!/usr/bin/env python3
"""Makes common/text/newer_marks.h: the characters that normalization changes and the Hugging Face
library does not know.

Reads Debian's package unicode-data. The library's tables are those of Unicode 9.

  tools/newer_marks.py [/usr/share/unicode] > common/text/newer_marks.h
"""

import pathlib
import sys

from newer_characters import characters_of, ranges

UNICODE = (9, 0)
BECAME_A_MARK = 0x111C9  # in Unicode 11

HEADER = """\
// Combining marks and characters with a decomposition that are newer than Unicode 9, whose tables
// the Hugging Face library normalizes by: to it they are characters like any other. Made by
// tools/newer_marks.py from the Unicode character database, version 15.0.
#pragma once

namespace outrider {

struct NewerMarks {
  char32_t first, last;
};

// In ascending order.
inline constexpr NewerMarks kNewerMarks[] = {
"""


def main():
    folder = pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else "/usr/share/unicode")
    old = characters_of(folder, lambda version: version <= UNICODE)
    codes = {BECAME_A_MARK}
    for line in (folder / "UnicodeData.txt").read_text().splitlines():
        code, _, category, combining_class, _, decomposition = line.split(";")[:6]
        is_changed = category[0] == "M" or combining_class != "0" or decomposition
        if int(code, 16) not in old and is_changed:
            codes.add(int(code, 16))
    print(HEADER, end="")
    cells = [f"{{0x{first:X}, 0x{last:X}}}," for first, last in ranges(codes)]
    width = max(len(cell) for cell in cells)
    for i in range(0, len(cells), 4):
        print(("    " + " ".join(cell.ljust(width) for cell in cells[i:i + 4])).rstrip())
    print("};\n\n}  // namespace outrider")


if __name__ == "__main__":
    main()
