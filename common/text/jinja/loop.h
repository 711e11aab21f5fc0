// The variable `loop` of a `for`.
//
// Thread: that of the rendering.
#pragma once

#include <memory>
#include <optional>
#include <string_view>
#include <utility>
#include <vector>

#include "common/text/jinja/ast.h"
#include "common/text/jinja/value.h"

namespace outrider::jinja {

struct Frame;

class Loop {
 public:
  // `statement`, `frame`: what a recursive call runs, and in which scope. `depth0`: the number of
  // enclosing levels of recursion.
  Loop(std::vector<Value> items, const Statement* statement, std::shared_ptr<Frame> frame,
       int depth0)
      : items_(std::move(items)),
        length_(items_.size()),
        statement_(statement),
        frame_(std::move(frame)),
        depth0_(depth0) {}

  const std::vector<Value>& items() const { return items_; }
  const Statement& statement() const { return *statement_; }
  const std::shared_ptr<Frame>& frame() const { return frame_; }
  int depth0() const { return depth0_; }
  size_t index0() const { return index0_; }

  void SetIndex(size_t index0) { index0_ = index0; }
  // The loop has ended: only its counts can still be read.
  void Finish() {
    items_.clear();
    frame_.reset();
  }

  // nullopt: there is no attribute of this name. Methods are in builtins.h.
  std::optional<Value> Attribute(std::string_view name) const;
  // Whether `values` differ from those of the last call.
  bool Changed(std::vector<Value> values);

 private:
  std::vector<Value> items_;
  const size_t length_;
  const Statement* const statement_;
  std::shared_ptr<Frame> frame_;
  const int depth0_;
  size_t index0_ = 0;
  std::optional<std::vector<Value>> last_changed_;
};

}  // namespace outrider::jinja
