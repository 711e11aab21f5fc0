// Sequences of ops as CUDA graphs: a repeated sequence is captured once and then launched as a
// whole, for the host time of one launch.
//
// A sequence that was not prepared runs directly the first two times (libraries choose their
// algorithms, kernels are loaded, working memory grows), is captured the third time and replayed
// from then on. Graphs contain addresses, so all are discarded when memory of their stream that
// they may refer to has been freed since (Stream::frees). The least recently used graphs are
// evicted; captures must pay off, so that sequences that are never repeated cost no more than a
// look-up each. When a capture or an instantiation fails, graphs are turned off: there is one
// warning, and every sequence runs directly. All of this depends on the calls and on frees alone,
// so that processes that make the same ones capture and launch the same graphs.
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
  int max_graphs = 128;
  // The first max_graphs captures are free; each further one must be earned by this many launches.
  int launches_per_capture = 8;
  std::function<void(const std::string&)> warn;
};

// Everything that a sequence depends on except the contents of device memory: first the sequence's
// own number, then sizes and counts.
using GraphKey = std::vector<int32_t>;

class GraphCache {
 public:
  GraphCache(const Stream* stream, GraphCacheOptions options);
  ~GraphCache();
  GraphCache(const GraphCache&) = delete;
  GraphCache& operator=(const GraphCache&) = delete;

  // Enqueues what `ops` enqueues. REQUIRES: for equal keys, as long as no memory of the
  // stream is freed, `ops` makes the same calls with the same arguments on the stream, and
  // neither waits nor reads host memory when it runs; it may run a second time when a capture
  // fails. A replay does not set host state that `ops` sets: set it outside. Inside the `ops` of
  // another Run, this just calls `ops`.
  void Run(const GraphKey& key, const std::function<void()>& ops);

  // Captures `ops`, as Run would, without running them, unless there is a graph of this key.
  // REQUIRES: they have run with this or a similar key, so that nothing has to be loaded.
  void Prepare(const GraphKey& key, const std::function<void()>& ops);

  // Destroys all graphs. Waits.
  void DropAll();
  // Whether a capture, an instantiation or a launch that fails ends the process, because other
  // processes capture or launch the same.
  void SetFailuresFatal(bool fatal) { failures_fatal_ = fatal; }

  bool enabled() const { return options_.enabled; }
  GraphCounts counts() const { return counts_; }
  // Number of cached graphs.
  int size() const { return size_; }

 private:
  struct Entry {
    int64_t uses = 0;
    int64_t last_use = 0;
    cudaGraphExec_t graph = nullptr;
  };

  void DropIfStale();
  Entry& FindOrAdd(const GraphKey& key);
  bool MayCapture(const Entry& entry) const;
  bool Capture(Entry& entry, const std::function<void()>& ops);
  bool Launch(Entry& entry);
  // Evicts the least recently used entry, of those with or of those without a graph.
  void EvictOldest(bool with_graph);
  void Drop(Entry& entry);
  void TurnOff(const std::string& why);

  const Stream& stream_;
  GraphCacheOptions options_;
  std::map<GraphKey, Entry> entries_;
  int64_t clock_ = 0;
  int64_t frees_ = 0;  // of the stream when the graphs were captured
  int size_ = 0;
  bool failures_fatal_ = false;
  GraphCounts counts_;
};

}  // namespace outrider
