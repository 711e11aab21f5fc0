#include "verifier/engine/engine_thread.h"

#include <utility>
#include <vector>

namespace outrider {
namespace {

constexpr size_t kInboxTasks = 8192;  // many times the drafts and requests of 256 sessions

}  // namespace

EngineThread::EngineThread(Engine* engine)
    : engine_(engine), inbox_(kInboxTasks), thread_([this] { Run(); }) {}

EngineThread::~EngineThread() { Stop(); }

bool EngineThread::TryPost(Task task) { return inbox_.TryPush(std::move(task)); }

void EngineThread::Post(Task task) { inbox_.PushUrgent(std::move(task)); }

void EngineThread::Stop() {
  if (!thread_.joinable()) return;
  Post([this] { stopping_ = true; });
  inbox_.Close();
  thread_.join();
}

void EngineThread::Run() {
  bool worked = false;
  while (!stopping_) {
    const std::vector<Task> tasks = worked ? inbox_.Take() : inbox_.Drain(engine_->NextDeadline());
    for (const Task& task : tasks) task();
    worked = engine_->Step();
  }
}

}  // namespace outrider
