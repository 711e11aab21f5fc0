// make_copying_checkpoint DIRECTORY TOKENIZER [OLD=NEW ..]: see copying_checkpoint.h.
//   make_copying_checkpoint /tmp/copying models/default/target result=answer
#include <cstdio>
#include <string>

#include "tests/support/copying_checkpoint.h"

int main(int argc, char** argv) {
  outrider::CopyingOptions options;
  bool bad = argc < 3;
  for (int i = 3; i < argc; ++i) {
    const std::string rename = argv[i];
    const size_t equals = rename.find('=');
    bad = bad || equals == std::string::npos;
    if (!bad) options.renames.emplace_back(rename.substr(0, equals), rename.substr(equals + 1));
  }
  if (bad) {
    std::fprintf(stderr, "usage: make_copying_checkpoint DIRECTORY TOKENIZER [OLD=NEW ..]\n");
    return 2;
  }
  const outrider::Status status = outrider::MakeCopyingCheckpoint(argv[1], argv[2], options);
  if (!status.ok()) {
    std::fprintf(stderr, "make_copying_checkpoint: %s\n", status.ToString().c_str());
  }
  return status.ok() ? 0 : 1;
}
