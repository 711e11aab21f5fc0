#include "common/tensor/slice.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <vector>

namespace outrider {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

std::vector<float> Values(const TensorView& view) {
  std::vector<float> values(view.elements());
  LoadElements(view, 0, values);
  return values;
}

std::vector<float> Row(const QuantizedMatrix& matrix, int64_t row) {
  std::vector<float> values(static_cast<size_t>(matrix.columns));
  matrix.WidenRowInOrder(row, values);
  return values;
}

// [rows, 8], in groups of two columns, whose element [r, i] is code 10 r + i with scale and offset
// of its own.
QuantizedMatrix Grouped(int64_t rows) {
  QuantizedMatrix matrix = {.type = CodeType::kInt8, .rows = rows, .columns = 8, .group_size = 2};
  for (int64_t row = 0; row < rows; ++row) {
    for (int64_t i = 0; i < 8; ++i) matrix.codes.push_back(static_cast<uint8_t>(10 * row + i));
    for (int64_t group = 0; group < 4; ++group) {
      matrix.scales.push_back(static_cast<float>(100 * row + group + 1));
      matrix.offsets.push_back(static_cast<float>(row - group));
    }
  }
  return matrix;
}

TEST(Slice, WholeRowsAreViews) {
  const std::vector<float> values = {0, 1, 2, 10, 11, 12, 20, 21, 22};
  std::vector<std::byte> storage;
  const TensorView matrix = {values.data(), Dtype::kF32, {3, 3}};
  const TensorView rows = SliceOf(matrix, {1, 2}, {0, 3}, &storage);
  EXPECT_EQ(rows.data, values.data() + 3);
  EXPECT_THAT(rows.shape, ElementsAre(2, 3));
  EXPECT_TRUE(storage.empty());
}

TEST(Slice, ColumnsAreCopied) {
  const std::vector<float> values = {0, 1, 2, 10, 11, 12, 20, 21, 22};
  std::vector<std::byte> storage;
  const TensorView matrix = {values.data(), Dtype::kF32, {3, 3}};
  const TensorView part = SliceOf(matrix, {1, 2}, {1, 2}, &storage);
  EXPECT_THAT(part.shape, ElementsAre(2, 2));
  EXPECT_THAT(Values(part), ElementsAre(11, 12, 21, 22));
}

TEST(Slice, AdjacentRangesAreJoined) {
  const std::vector<Range> ranges = {{0, 2}, {2, 3}, {6, 1}, {7, 1}};
  EXPECT_THAT(Joined(ranges), ElementsAre(Range{0, 5}, Range{6, 2}));
}

TEST(Slice, CodesKeepTheirValues) {
  const QuantizedMatrix matrix = Grouped(4);
  const std::vector<Range> rows = {{1, 1}, {3, 1}};
  const QuantizedMatrix part = SliceOf(matrix, rows, {4, 4}).value();
  EXPECT_EQ(part.rows, 2);
  EXPECT_EQ(part.columns, 4);
  for (const auto& [row, from] : {std::pair<int64_t, int64_t>{0, 1}, {1, 3}}) {
    const std::vector<float> whole = Row(matrix, from);
    EXPECT_THAT(Row(part, row), ElementsAre(whole[4], whole[5], whole[6], whole[7]));
  }
}

TEST(Slice, UnitsOfScalesAreSliced) {
  QuantizedMatrix matrix = Grouped(2);
  matrix.unit_groups = 2;
  matrix.scale_units = {1, 2, 3, 4};
  matrix.offset_units = {5, 6, 7, 8};
  const std::vector<Range> rows = {{1, 1}};
  const QuantizedMatrix part = SliceOf(matrix, rows, {4, 4}).value();
  EXPECT_EQ(part.unit_groups, 2);
  EXPECT_THAT(part.scale_units, ElementsAre(4));
  EXPECT_THAT(part.offset_units, ElementsAre(8));
  // Half of a unit.
  EXPECT_EQ(SliceOf(matrix, rows, {2, 4}).status().code(), Code::kUnimplemented);
}

TEST(Slice, RowScaleServesAllParts) {
  QuantizedMatrix matrix = Grouped(1);
  matrix.group_size = 8;
  matrix.scales = {3};
  matrix.offsets = {};
  const std::vector<Range> rows = {{0, 1}};
  const QuantizedMatrix part = SliceOf(matrix, rows, {3, 3}).value();
  EXPECT_THAT(Row(part, 0), ElementsAre(9, 12, 15));
}

TEST(Slice, GroupsAndOrdersCannotBeDivided) {
  QuantizedMatrix matrix = Grouped(1);
  const std::vector<Range> rows = {{0, 1}};
  const Status groups = SliceOf(matrix, rows, {3, 4}).status();
  EXPECT_EQ(groups.code(), Code::kUnimplemented);
  EXPECT_THAT(groups.message(), HasSubstr("columns 3 to 7 divide groups of 2"));
  EXPECT_FALSE(SliceOf(matrix, rows, {0, 3}).ok());
  matrix.column_order = {7, 6, 5, 4, 3, 2, 1, 0};
  EXPECT_THAT(SliceOf(matrix, rows, {0, 4}).status().message(), HasSubstr("act-order"));
  EXPECT_EQ(Row(SliceOf(matrix, rows, {0, 8}).value(), 0), Row(matrix, 0));
}

}  // namespace
}  // namespace outrider
