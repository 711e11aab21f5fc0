#include "client/verifiers.h"

#include <utility>

namespace outrider {

Result<std::unique_ptr<Verifiers>> Verifiers::Create(const BenchOptions& options) {
  std::vector<VerifierClient> clients;
  for (const std::string& address : options.verifiers) {
    ConnectionOptions connection = options.connection;
    connection.verifier = address;
    OUTRIDER_ASSIGN(VerifierClient client, VerifierClient::Create(connection));
    clients.push_back(std::move(client));
  }
  return std::unique_ptr<Verifiers>(new Verifiers(options, std::move(clients)));
}

Verifiers::Verifiers(const BenchOptions& options, std::vector<VerifierClient> clients)
    : addresses_(options.verifiers),
      clients_(std::move(clients)),
      choice_(addresses_, options.route, &clock_) {}

Result<v1::Finished> Verifiers::Generate(const v1::GenerateRequest& request, double timeout_seconds,
                                         const std::function<void(const v1::TokenChunk&)>& on_chunk,
                                         const std::stop_token& stop) {
  const Time started = clock_.Now();
  std::vector<int> asked;
  while (true) {
    const int chosen = choice_.Begin(request.text(), asked);
    asked.push_back(chosen);
    bool answered = false;
    const double left = timeout_seconds > 0 ? timeout_seconds - Seconds(clock_.Now() - started) : 0;
    Result<v1::Finished> finished = clients_[static_cast<size_t>(chosen)].Generate(
        request, left,
        [&](const v1::TokenChunk& chunk) {
          answered = true;
          on_chunk(chunk);
        },
        stop);
    const bool unavailable = finished.status().code() == Code::kUnavailable;
    choice_.End(chosen, unavailable);
    const bool in_time = timeout_seconds == 0 || Seconds(clock_.Now() - started) < timeout_seconds;
    if (!unavailable || answered || !in_time || asked.size() == clients_.size()) return finished;
  }
}

void Verifiers::Describe(BenchReport* report) const {
  const std::vector<VerifierChoice::Counts> counts = choice_.counts();
  for (size_t v = 0; v < addresses_.size(); ++v) {
    report->verifiers.push_back({.address = addresses_[v],
                                 .requests = counts[v].requests,
                                 .most_in_flight = counts[v].most_in_flight});
  }
  report->most_above_bound = choice_.most_above_bound();
}

}  // namespace outrider
