// Characters that are newer than PCRE2's tables, by property, as ranges of a character class. Made
// by tools/newer_characters.py from the Unicode character database, version 15.0, and of 15.1 CJK
// extension I.
#pragma once

#include <string_view>

namespace outrider {

struct NewerCharacters {
  std::string_view property;  // as in \p{...}
  std::string_view ranges;
};

inline constexpr NewerCharacters kNewerCharacters[] = {
    {"Alphabetic",
     "\\x{CF3}\\x{1123F}-\\x{11241}\\x{11F00}-\\x{11F10}\\x{11F12}-\\x{11F3A}"
     "\\x{11F3E}-\\x{11F40}\\x{1342F}\\x{13441}-\\x{13446}\\x{1B132}\\x{1B155}"
     "\\x{1DF25}-\\x{1DF2A}\\x{1E030}-\\x{1E06D}\\x{1E08F}\\x{1E4D0}-\\x{1E4EB}\\x{2B739}"
     "\\x{2EBF0}-\\x{2EE5D}\\x{31350}-\\x{323AF}"},
    {"C", "\\x{13439}-\\x{1343F}"},
    {"Cf", "\\x{13439}-\\x{1343F}"},
    {"L",
     "\\x{1123F}-\\x{11240}\\x{11F02}\\x{11F04}-\\x{11F10}\\x{11F12}-\\x{11F33}\\x{1342F}"
     "\\x{13441}-\\x{13446}\\x{1B132}\\x{1B155}\\x{1DF25}-\\x{1DF2A}\\x{1E030}-\\x{1E06D}"
     "\\x{1E4D0}-\\x{1E4EB}\\x{2B739}\\x{2EBF0}-\\x{2EE5D}\\x{31350}-\\x{323AF}"},
    {"Ll", "\\x{1DF25}-\\x{1DF2A}"},
    {"Lm", "\\x{1E030}-\\x{1E06D}\\x{1E4EB}"},
    {"Lo",
     "\\x{1123F}-\\x{11240}\\x{11F02}\\x{11F04}-\\x{11F10}\\x{11F12}-\\x{11F33}\\x{1342F}"
     "\\x{13441}-\\x{13446}\\x{1B132}\\x{1B155}\\x{1E4D0}-\\x{1E4EA}\\x{2B739}"
     "\\x{2EBF0}-\\x{2EE5D}\\x{31350}-\\x{323AF}"},
    {"M",
     "\\x{CF3}\\x{ECE}\\x{10EFD}-\\x{10EFF}\\x{11241}\\x{11F00}-\\x{11F01}\\x{11F03}"
     "\\x{11F34}-\\x{11F3A}\\x{11F3E}-\\x{11F42}\\x{13440}\\x{13447}-\\x{13455}\\x{1E08F}"
     "\\x{1E4EC}-\\x{1E4EF}"},
    {"Mc", "\\x{CF3}\\x{11F03}\\x{11F34}-\\x{11F35}\\x{11F3E}-\\x{11F3F}\\x{11F41}"},
    {"Mn",
     "\\x{ECE}\\x{10EFD}-\\x{10EFF}\\x{11241}\\x{11F00}-\\x{11F01}\\x{11F36}-\\x{11F3A}"
     "\\x{11F40}\\x{11F42}\\x{13440}\\x{13447}-\\x{13455}\\x{1E08F}\\x{1E4EC}-\\x{1E4EF}"},
    {"N", "\\x{11F50}-\\x{11F59}\\x{1D2C0}-\\x{1D2D3}\\x{1E4F0}-\\x{1E4F9}"},
    {"Nd", "\\x{11F50}-\\x{11F59}\\x{1E4F0}-\\x{1E4F9}"},
    {"No", "\\x{1D2C0}-\\x{1D2D3}"},
    {"P", "\\x{11B00}-\\x{11B09}\\x{11F43}-\\x{11F4F}"},
    {"Po", "\\x{11B00}-\\x{11B09}\\x{11F43}-\\x{11F4F}"},
    {"S",
     "\\x{1F6DC}\\x{1F774}-\\x{1F776}\\x{1F77B}-\\x{1F77F}\\x{1F7D9}\\x{1FA75}-\\x{1FA77}"
     "\\x{1FA87}-\\x{1FA88}\\x{1FAAD}-\\x{1FAAF}\\x{1FABB}-\\x{1FABD}\\x{1FABF}"
     "\\x{1FACE}-\\x{1FACF}\\x{1FADA}-\\x{1FADB}\\x{1FAE8}\\x{1FAF7}-\\x{1FAF8}"},
    {"So",
     "\\x{1F6DC}\\x{1F774}-\\x{1F776}\\x{1F77B}-\\x{1F77F}\\x{1F7D9}\\x{1FA75}-\\x{1FA77}"
     "\\x{1FA87}-\\x{1FA88}\\x{1FAAD}-\\x{1FAAF}\\x{1FABB}-\\x{1FABD}\\x{1FABF}"
     "\\x{1FACE}-\\x{1FACF}\\x{1FADA}-\\x{1FADB}\\x{1FAE8}\\x{1FAF7}-\\x{1FAF8}"},
};

}  // namespace outrider
