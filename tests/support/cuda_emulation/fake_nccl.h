// Controls of the tests' fake of NCCL (fake_nccl.cc): libnccl.so.2 in
// FakeNcclFile(). A test opens it like the code under test and finds these functions by dlsym; its
// program must export its symbols (ENABLE_EXPORTS), as the library uses the emulation in it.
//
// Ranks are threads of one process, each with an emulated device of its own. Operations run on the
// emulated streams and in their graphs, and really wait for the other ranks. Refused is what NCCL
// refuses (invalid arguments, two ranks on one device, groups that do not match), and what makes it
// hang: an operation that only some of the ranks have captured, or in different captures;
// destroying a communicator while there are graphs with its operations. A rank that makes other
// calls than the others hangs here, too.
#pragma once

#include <string>

#include "tests/support/cuda_emulation/nccl.h"

extern "C" {
// Makes the next call of the function `call`, on any thread, fail with `result`.
using FakeNcclFailNext = void(const char* call, ncclResult_t result);
// Makes all communicators report an asynchronous error from now on; ncclSuccess: none.
using FakeNcclFailLater = void(ncclResult_t result);
}

namespace outrider {

inline std::string FakeNcclFile() { return OUTRIDER_BINARY_DIR "/fake_nccl/libnccl.so.2"; }

}  // namespace outrider
