// Page tables under any sequence of operations, compared with plain lists of tokens: the memory at
// the slots contains exactly each table's tokens, shared pages are never written, and no page is
// lost.

#include <deque>
#include <vector>

#include "common/kv/page_pool.h"
#include "common/kv/page_table.h"
#include "tests/fuzz/fuzz_input.h"

namespace outrider::fuzz {
namespace {

class Pages {
 public:
  Pages(int pages, int page_tokens)
      : pool_(pages),
        page_tokens_(page_tokens),
        memory_(static_cast<size_t>(pages) * static_cast<size_t>(page_tokens)) {}

  void Do(Input& in) {
    const int operation = in.Below(8);
    if (operation == 0 || tables_.empty()) {
      if (tables_.size() < 8) tables_.push_back({PageTable(&pool_, page_tokens_), {}, 0});
      return;
    }
    const auto index = static_cast<size_t>(in.Below(static_cast<int>(tables_.size())));
    Held& held = tables_[index];
    switch (operation) {
      case 1: Reserve(held, in.Below(40)); break;
      case 2: Append(held, in, /*tree=*/false); break;
      case 3: Append(held, in, /*tree=*/true); break;
      case 4: KeepPath(held, in); break;
      case 5: Truncate(held, in.Below(static_cast<int>(held.tokens.size()) + 1)); break;
      case 6: Fork(held, in.Below(static_cast<int>(held.tokens.size()) + 1)); break;
      default: tables_.erase(tables_.begin() + static_cast<std::ptrdiff_t>(index));
    }
  }

  void Check() const {
    std::vector<int> holders(static_cast<size_t>(pool_.total_pages()), 0);
    int held_pages = 0;
    for (const Held& held : tables_) {
      Require(held.table.length() == static_cast<int>(held.tokens.size()));
      for (int i = 0; i < held.table.length(); ++i) {
        Require(memory_[static_cast<size_t>(held.table.Slot(i))] ==
                held.tokens[static_cast<size_t>(i)]);
      }
      for (const int32_t page : held.table.pages()) {
        if (holders[static_cast<size_t>(page)]++ == 0) ++held_pages;
      }
    }
    for (int32_t page = 0; page < pool_.total_pages(); ++page) {
      Require(pool_.references(page) == holders[static_cast<size_t>(page)]);
    }
    Require(pool_.free_pages() == pool_.total_pages() - held_pages);
  }

  void Clear() { tables_.clear(); }
  bool all_free() const { return pool_.free_pages() == pool_.total_pages(); }

 private:
  struct Held {
    PageTable table;
    std::vector<int> tokens;
    // For the last append, as long as KeepPath may follow it; 0 tokens means it may not.
    int appended = 0;
    std::vector<int32_t> parents;
  };

  void Carry(const std::vector<SlotCopy>& copies) {
    for (const SlotCopy& copy : copies) {
      memory_[static_cast<size_t>(copy.to)] = memory_[static_cast<size_t>(copy.from)];
    }
  }

  bool Reserve(Held& held, int tokens) {
    const int needed = held.table.PagesNeeded(tokens);
    const int free = pool_.free_pages();
    std::vector<SlotCopy> copies;
    const Status reserved = held.table.Reserve(tokens, &copies);
    Require(reserved.ok() == (needed <= free));
    Require(pool_.free_pages() <= free && (reserved.ok() || copies.empty()));
    if (reserved.ok()) Require(held.table.PagesNeeded(tokens) == 0);
    Carry(copies);
    return reserved.ok();
  }

  void Append(Held& held, Input& in, bool tree) {
    const int count = 1 + in.Below(6);
    const int length = held.table.length();
    if (!Reserve(held, length + count)) return;
    std::vector<int32_t> parents;
    for (int i = 0; tree && i < count; ++i) parents.push_back(in.Below(i + 1) - 1);
    held.table.Append(count, parents);
    for (int i = 0; i < count; ++i) {
      held.tokens.push_back(++last_token_);
      memory_[static_cast<size_t>(held.table.Slot(length + i))] = last_token_;
    }
    held.appended = count;
    held.parents = std::move(parents);
  }

  void KeepPath(Held& held, Input& in) {
    if (held.appended == 0) return;
    std::vector<int32_t> path;
    for (int node = in.Below(held.appended + 1) - 1; node >= 0;
         node = held.parents.empty() ? node - 1 : held.parents[static_cast<size_t>(node)]) {
      path.insert(path.begin(), node);
    }
    const size_t begin = held.tokens.size() - static_cast<size_t>(held.appended);
    std::vector<int> kept(held.tokens.begin(),
                          held.tokens.begin() + static_cast<std::ptrdiff_t>(begin));
    for (const int32_t node : path) {
      kept.push_back(held.tokens[begin + static_cast<size_t>(node)]);
    }
    std::vector<SlotCopy> copies;
    held.table.KeepPath(path, &copies);
    Carry(copies);
    held.tokens = std::move(kept);
    held.appended = 0;
  }

  void Truncate(Held& held, int length) {
    held.table.Truncate(length);
    held.tokens.resize(static_cast<size_t>(length));
    held.appended = 0;
  }

  void Fork(Held& held, int length) {
    if (tables_.size() >= 8) return;
    const int free = pool_.free_pages();
    std::vector<SlotCopy> copies;
    Result<PageTable> fork = held.table.Fork(length, &copies);
    if (!fork.ok()) {
      Require(pool_.free_pages() == free && copies.empty());
      return;
    }
    Carry(copies);
    // A deque, so that references to the others stay valid.
    tables_.push_back(
        {std::move(fork).value(), {held.tokens.begin(), held.tokens.begin() + length}, 0});
  }

  PagePool pool_;
  int page_tokens_;
  std::vector<int> memory_;  // by slot
  int last_token_ = 0;
  std::deque<Held> tables_;  // must be destroyed before the pool
};

}  // namespace
}  // namespace outrider::fuzz

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  outrider::fuzz::Input in(data, size);
  const int pages = in.Below(24);
  outrider::fuzz::Pages model(pages, 1 + in.Below(5));
  for (int i = 0; i < 400 && !in.empty(); ++i) {
    model.Do(in);
    model.Check();
  }
  model.Clear();
  outrider::fuzz::Require(model.all_free());
  return 0;
}
