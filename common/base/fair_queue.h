// Tasks of many clients that wait for a few workers. Clients take turns; each client's tasks run in
// order of arrival. Not synchronised: its owner holds a lock.
//
// When the queue or the client's share of it is full, a task is refused at once; nothing here
// blocks. A share is half of the queue, so that one client alone never fills it.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <list>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace outrider {

// Limits of a queue.
struct FairQueueLimits {
  size_t max_tasks = 0;
  size_t max_bytes = 0;        // sum of the sizes passed to Push
  int running_per_client = 1;  // tasks of one client between Pop and Done
};

template <class Task>
class FairQueue {
 public:
  explicit FairQueue(const FairQueueLimits& limits) : limits_(limits) {}

  // Returns a ticket, never 0; nullopt: the queue is full, or its client's share. `bytes`: the size
  // of the task. A task larger than a share is accepted if nothing of its client waits.
  std::optional<uint64_t> Push(const std::string& client, size_t bytes, Task task) {
    if (size() >= limits_.max_tasks || bytes_ + bytes > limits_.max_bytes) return std::nullopt;
    const auto known = clients_.find(client);
    if (known != clients_.end() && !HasRoom(*known->second, bytes)) return std::nullopt;
    const auto place = known != clients_.end() ? known->second : AddClient(client);
    bytes_ += bytes;
    place->bytes += bytes;
    const uint64_t ticket = ++last_ticket_;
    const auto entry =
        place->waiting.insert(place->waiting.end(), {ticket, bytes, std::move(task)});
    places_.emplace(ticket, std::pair(place, entry));
    return ticket;
  }

  struct Turn {
    std::string client;  // for Done
    Task task;
  };
  // The next task; nullopt: none waits, or only those of clients at their running limit.
  std::optional<Turn> Pop() {
    const auto next = std::find_if(turns_.begin(), turns_.end(), [&](const Client& client) {
      return !client.waiting.empty() && client.running < limits_.running_per_client;
    });
    if (next == turns_.end()) return std::nullopt;
    Turn turn{next->name, Take(next, next->waiting.begin())};
    ++next->running;
    turns_.splice(turns_.end(), turns_, next);
    return turn;
  }
  // A task of this client, returned by Pop, has ended.
  void Done(const std::string& client) {
    const auto known = clients_.find(client);
    --known->second->running;
    ForgetIfIdle(known->second);
  }

  // Removes a waiting task; nullopt: it is no longer here.
  std::optional<Task> Remove(uint64_t ticket) {
    const auto found = places_.find(ticket);
    if (found == places_.end()) return std::nullopt;
    const auto [client, entry] = found->second;
    std::optional<Task> task = Take(client, entry);
    ForgetIfIdle(client);
    return task;
  }
  // Removes all waiting tasks, in order of arrival.
  std::vector<Task> Clear() {
    std::vector<Task> tasks;
    while (!places_.empty()) tasks.push_back(*Remove(places_.begin()->first));
    return tasks;
  }

  size_t size() const { return places_.size(); }
  size_t bytes() const { return bytes_; }

 private:
  struct Entry {
    uint64_t ticket;
    size_t bytes;
    Task task;
  };
  struct Client {
    std::string name;
    std::list<Entry> waiting = {};
    size_t bytes = 0;  // of waiting tasks
    int running = 0;
  };
  using ClientPlace = typename std::list<Client>::iterator;
  using EntryPlace = typename std::list<Entry>::iterator;

  bool HasRoom(const Client& client, size_t bytes) const {
    if (client.waiting.empty()) return true;
    return (client.waiting.size() + 1) * 2 <= limits_.max_tasks &&
           (client.bytes + bytes) * 2 <= limits_.max_bytes;
  }
  ClientPlace AddClient(const std::string& name) {
    const auto place = turns_.insert(turns_.end(), Client{name});
    clients_.emplace(name, place);
    return place;
  }
  Task Take(ClientPlace client, EntryPlace entry) {
    Task task = std::move(entry->task);
    bytes_ -= entry->bytes;
    client->bytes -= entry->bytes;
    places_.erase(entry->ticket);
    client->waiting.erase(entry);
    return task;
  }
  void ForgetIfIdle(ClientPlace client) {
    if (client->running > 0 || !client->waiting.empty()) return;
    clients_.erase(client->name);
    turns_.erase(client);
  }

  const FairQueueLimits limits_;
  std::list<Client> turns_;  // clients with waiting or running tasks; the next turn is in front
  std::map<std::string, ClientPlace> clients_;
  std::map<uint64_t, std::pair<ClientPlace, EntryPlace>> places_;  // of waiting tasks, by ticket
  size_t bytes_ = 0;
  uint64_t last_ticket_ = 0;
};

}  // namespace outrider
