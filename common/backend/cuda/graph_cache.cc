#include "common/backend/cuda/graph_cache.h"

#include <algorithm>
#include <utility>

#include "common/backend/cuda/stream_capture.h"
#include "common/base/check.h"

namespace outrider {
namespace {

constexpr int kUsesBefore = 2;        // direct runs before a capture
constexpr int kSeenForEachGraph = 4;  // remembered keys per graph

}  // namespace

GraphCache::GraphCache(const Stream* stream, GraphCacheOptions options)
    : stream_(*stream), options_(std::move(options)) {}

GraphCache::~GraphCache() { DropAll(); }

void GraphCache::Run(const GraphKey& key, const std::function<void()>& ops) {
  if (!enabled() || StreamCapture::UnderWay()) return ops();
  DropIfStale();
  Entry& entry = FindOrAdd(key);
  if (entry.graph == nullptr && (!MayCapture(entry) || !Capture(entry, ops))) return ops();
  if (!Launch(entry)) ops();
}

void GraphCache::Prepare(const GraphKey& key, const std::function<void()>& ops) {
  if (!enabled() || StreamCapture::UnderWay()) return;
  DropIfStale();
  Entry& entry = FindOrAdd(key);
  entry.uses = std::max<int64_t>(entry.uses, kUsesBefore + 1);
  if (entry.graph == nullptr) Capture(entry, ops);
}

void GraphCache::DropIfStale() {
  if (frees_ == stream_.frees()) return;
  DropAll();
  frees_ = stream_.frees();
}

GraphCache::Entry& GraphCache::FindOrAdd(const GraphKey& key) {
  auto it = entries_.find(key);
  if (it == entries_.end()) {
    const auto max_entries = static_cast<size_t>(options_.max_graphs) * kSeenForEachGraph;
    if (entries_.size() >= max_entries) EvictOldest(/*with_graph=*/false);
    it = entries_.try_emplace(key).first;
  }
  ++it->second.uses;
  it->second.last_use = ++clock_;
  return it->second;
}

bool GraphCache::MayCapture(const Entry& entry) const {
  return entry.uses > kUsesBefore &&
         counts_.captures < options_.max_graphs + counts_.launches / options_.launches_per_capture;
}

bool GraphCache::Capture(Entry& entry, const std::function<void()>& ops) {
  if (size_ == options_.max_graphs) EvictOldest(/*with_graph=*/true);
  StreamCapture capture(stream_.get());
  if (capture.begun()) ops();
  const cudaGraph_t graph = capture.End();
  if (graph == nullptr) {
    TurnOff(capture.why());
    return false;
  }
  const cudaError_t error = cudaGraphInstantiate(&entry.graph, graph, 0);
  cudaGraphDestroy(graph);
  if (error != cudaSuccess) {
    entry.graph = nullptr;
    TurnOff(std::string("instantiating a graph: ") + cudaGetErrorString(error));
    return false;
  }
  ++size_;
  ++counts_.captures;
  return true;
}

bool GraphCache::Launch(Entry& entry) {
  const cudaError_t error = cudaGraphLaunch(entry.graph, stream_.get());
  if (error != cudaSuccess) {
    TurnOff(std::string("launching a graph: ") + cudaGetErrorString(error));
    return false;
  }
  ++counts_.launches;
  return true;
}

// Evicts the least recently used key, among those with a graph or those without. A forgotten key
// counts as new.
void GraphCache::EvictOldest(bool with_graph) {
  auto oldest = entries_.end();
  for (auto it = entries_.begin(); it != entries_.end(); ++it) {
    if ((it->second.graph != nullptr) != with_graph) continue;
    if (oldest == entries_.end() || it->second.last_use < oldest->second.last_use) oldest = it;
  }
  if (oldest == entries_.end()) return;
  Drop(oldest->second);
  entries_.erase(oldest);
}

void GraphCache::Drop(Entry& entry) {
  if (entry.graph == nullptr) return;
  stream_.Wait();  // it may still be running
  MustSucceed(cudaGraphExecDestroy(std::exchange(entry.graph, nullptr)), "ending a graph");
  --size_;
}

void GraphCache::DropAll() {
  for (auto& [key, entry] : entries_) Drop(entry);
}

void GraphCache::TurnOff(const std::string& why) {
  cudaGetLastError();  // clears the error, which the next launch would report
  if (failures_fatal_) {
    const std::string text = "CUDA graphs of a group of ranks: " + why +
                             "; if this recurs, start all ranks with --cuda-graphs false";
    CheckFailed(text.c_str(), __FILE__, __LINE__);
  }
  DropAll();
  options_.enabled = false;
  if (options_.warn) {
    options_.warn("CUDA graphs are off from here on, passes run without: " + why);
  }
}

}  // namespace outrider
