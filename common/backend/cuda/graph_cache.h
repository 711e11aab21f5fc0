// Sequences of ops as CUDA graphs: what comes again and again is recorded once and then launched as
// a whole, for the host's time of one launch.
//
// A sequence runs as it is the first two times (libraries choose their algorithms then, kernels are
// loaded, working memory grows), is captured the third time and replayed from then on. Graphs name
// addresses, so all of them are thrown away when any device memory of the process has come or gone
// since (CudaBuffer::moves). Those not used for longest make room for others; captures must pay, so
// that sequences which never come again cost a look-up each and no more.
// When a capture or an instantiation fails, there are no graphs from then on: one warning, and the
// sequence runs as it is.
//
// Thread: the backend's owner.
#pragma once

#include <cuda_runtime.h>

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "common/backend/cuda/device_memory.h"
#include "common/backend/device_ops.h"

namespace outrider {

struct GraphCacheOptions {
  bool enabled = true;
  int max_graphs = 64;
  // The first max_graphs captures are free, each further one has to be earned by this many
  // launches.
  int launches_per_capture = 8;
  std::function<void(const std::string&)> warn;
};

// All that a sequence depends on but the contents of device memory: first which sequence it is, by
// a number of its own, then sizes and counts.
using GraphKey = std::vector<int32_t>;

class GraphCache {
 public:
  GraphCache(const Stream* stream, GraphCacheOptions options);
  ~GraphCache();
  GraphCache(const GraphCache&) = delete;
  GraphCache& operator=(const GraphCache&) = delete;

  // Enqueues what `ops` enqueues. REQUIRES: for equal keys, as long as no device memory has come or
  // gone, `ops` makes the same calls with the same arguments on the stream, and neither waits nor
  // needs anything that is only in the host's memory; it may run a second time when a capture
  // fails. State that it leaves on the host is not there after a replay: set it outside.
  // Within the `ops` of another Run: calls `ops`.
  void Run(const GraphKey& key, const std::function<void()>& ops);

  bool enabled() const { return options_.enabled; }
  GraphCounts counts() const { return counts_; }
  // Graphs that are held.
  int size() const { return size_; }

 private:
  struct Entry {
    int64_t uses = 0;
    int64_t last_use = 0;
    cudaGraphExec_t graph = nullptr;
  };

  Entry& Look(const GraphKey& key);
  bool MayCapture(const Entry& entry) const;
  bool Capture(Entry& entry, const std::function<void()>& ops);
  bool Launch(Entry& entry);
  void ForgetOldest(bool with_graph);
  void Drop(Entry& entry);
  void DropAll();
  void TurnOff(const std::string& why);

  const Stream& stream_;
  GraphCacheOptions options_;
  std::map<GraphKey, Entry> entries_;
  int64_t clock_ = 0;
  int64_t moves_ = 0;  // of device memory, that the graphs know of
  int size_ = 0;
  GraphCounts counts_;
};

}  // namespace outrider
