#include "verifier/engine/text_workers.h"

#include <algorithm>
#include <utility>

namespace outrider {

TextWorkers::TextWorkers(const TextWorkersOptions& options, const Clock* clock,
                         VerifierMetrics* metrics)
    : clock_(clock),
      metrics_(metrics),
      queue_({.max_tasks = options.max_waiting,
              .max_bytes = options.max_waiting_bytes,
              .running_per_client = std::max(1, options.threads - 1)}),
      running_(static_cast<size_t>(options.threads)) {
  for (int i = 0; i < options.threads; ++i) threads_.emplace_back([this] { Run(); });
}

TextWorkers::~TextWorkers() {
  (void)Stop(Duration::zero());
  for (std::thread& thread : threads_) thread.join();
}

Result<uint64_t> TextWorkers::Submit(Work work) {
  const std::string client = work.client;
  const size_t bytes = work.bytes;
  MutexLock lock(mu_);
  if (draining_ || stopping_) {
    if (metrics_ != nullptr) metrics_->requests_refused_draining.Increment();
    return Unavailable("the verifier is draining and takes no new requests");
  }
  const std::optional<uint64_t> ticket = queue_.Push(client, bytes, std::move(work));
  if (!ticket.has_value()) {
    if (metrics_ != nullptr) metrics_->requests_refused_tokenizer_queue.Increment();
    return ResourceExhausted("too many texts wait to be tokenized; try again later");
  }
  PublishLength();
  changed_.notify_one();
  return *ticket;
}

bool TextWorkers::Cancel(uint64_t ticket) {
  std::optional<Work> work;  // destroyed after the lock is released
  MutexLock lock(mu_);
  work = queue_.Remove(ticket);
  PublishLength();
  return work.has_value();
}

void TextWorkers::Drain() {
  MutexLock lock(mu_);
  draining_ = true;
}

bool TextWorkers::idle() {
  MutexLock lock(mu_);
  return queue_.size() == 0 && turns_ == 0;
}

bool TextWorkers::Stop(Duration grace) {
  std::vector<Work> waiting;
  {
    MutexLock lock(mu_);
    stopping_ = true;
    waiting = queue_.Clear();
    PublishLength();
    changed_.notify_all();
  }
  for (const Work& work : waiting) work.refuse(Unavailable("the verifier is shutting down"));
  const Time until = std::chrono::steady_clock::now() + grace;
  MutexLock lock(mu_);
  while (running_ > 0) {
    if (lock.WaitUntil(changed_, until) == std::cv_status::timeout) break;
  }
  return running_ == 0;
}

void TextWorkers::Run() {
  while (true) {
    std::optional<FairQueue<Work>::Turn> turn;
    {
      MutexLock lock(mu_);
      while (!stopping_ && !(turn = queue_.Pop()).has_value()) lock.Wait(changed_);
      if (!turn.has_value()) {
        --running_;
        changed_.notify_all();
        return;
      }
      ++turns_;
      PublishLength();
    }
    RunTurn(turn->task);
    turn->task = {};  // frees what it holds before its client's next turn
    MutexLock lock(mu_);
    --turns_;
    queue_.Done(turn->client);
  }
}

void TextWorkers::RunTurn(const Work& work) {
  const Time begin = clock_->Now();
  if (work.deadline.has_value() && begin > *work.deadline) {
    work.refuse(Status(Code::kDeadlineExceeded, "the deadline passed before the text's turn"));
    return;
  }
  work.run();
  if (metrics_ != nullptr) metrics_->tokenizer_seconds.Observe(Seconds(clock_->Now() - begin));
}

void TextWorkers::PublishLength() {
  if (metrics_ != nullptr) {
    metrics_->tokenizer_requests_waiting.Set(static_cast<double>(queue_.size()));
  }
}

}  // namespace outrider
