#include "verifier/rpc/write_thread.h"

#include <optional>
#include <vector>

namespace outrider {

WriteThread::WriteThread() : inbox_(0), thread_([this] { Run(); }) {}

WriteThread::~WriteThread() {
  inbox_.Close();
  thread_.join();
}

void WriteThread::Run() {
  // An empty result without a timeout means that the inbox is closed.
  for (std::vector<Task> tasks; !(tasks = inbox_.Drain(std::nullopt)).empty();) {
    for (const Task& task : tasks) task();
  }
}

}  // namespace outrider
