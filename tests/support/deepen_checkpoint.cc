// deepen_checkpoint FROM TO LAYERS: see deepened_checkpoint.h.
//   deepen_checkpoint models/default/target /tmp/deep 104
#include <cstdio>
#include <cstdlib>

#include "tests/support/deepened_checkpoint.h"

int main(int argc, char** argv) {
  if (argc != 4) {
    std::fprintf(stderr, "usage: deepen_checkpoint FROM TO LAYERS\n");
    return 2;
  }
  const outrider::Status status = outrider::DeepenCheckpoint(argv[1], argv[2], std::atoi(argv[3]));
  if (!status.ok()) std::fprintf(stderr, "deepen_checkpoint: %s\n", status.ToString().c_str());
  return status.ok() ? 0 : 1;
}
