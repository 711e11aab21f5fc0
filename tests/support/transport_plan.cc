#include "tests/support/transport_plan.h"

#include <glpk.h>

#include <algorithm>
#include <map>
#include <numeric>

#include "common/base/check.h"

namespace outrider::testing {
namespace {

// Maximises gain * x over x >= 0, with sums of rows that equal a bound or are at most a bound.
class LinearProgram {
 public:
  LinearProgram() : problem_(glp_create_prob()) { glp_set_obj_dir(problem_, GLP_MAX); }
  ~LinearProgram() { glp_delete_prob(problem_); }
  LinearProgram(const LinearProgram&) = delete;
  LinearProgram& operator=(const LinearProgram&) = delete;

  int AddVariable(double gain) {
    const int column = glp_add_cols(problem_, 1);
    glp_set_col_bnds(problem_, column, GLP_LO, 0, 0);
    glp_set_obj_coef(problem_, column, gain);
    return column;
  }
  int AddEquality(double bound) { return AddRow(GLP_FX, bound); }
  int AddAtMost(double bound) { return AddRow(GLP_UP, bound); }
  // At most once per row and variable.
  void Add(int row, int variable, double coefficient) {
    rows_.push_back(row);
    columns_.push_back(variable);
    coefficients_.push_back(coefficient);
  }

  double Solve() {
    // GLPK counts from 1.
    glp_load_matrix(problem_, static_cast<int>(rows_.size()) - 1, rows_.data(), columns_.data(),
                    coefficients_.data());
    glp_smcp options;
    glp_init_smcp(&options);
    options.msg_lev = GLP_MSG_OFF;
    options.tol_bnd = options.tol_dj = 1e-11;
    OUTRIDER_CHECK(glp_simplex(problem_, &options) == 0);
    OUTRIDER_CHECK(glp_get_status(problem_) == GLP_OPT);
    return glp_get_obj_val(problem_);
  }
  double value(int variable) const { return glp_get_col_prim(problem_, variable); }

 private:
  int AddRow(int kind, double bound) {
    const int row = glp_add_rows(problem_, 1);
    glp_set_row_bnds(problem_, row, kind, bound, bound);
    return row;
  }

  glp_prob* problem_;
  std::vector<int> rows_ = {0}, columns_ = {0};
  std::vector<double> coefficients_ = {0};
};

using Tokens = std::vector<TokenId>;

// All sequences of `length` tokens in order; sequence i has the digits of i.
std::vector<Tokens> AllSequences(int vocab, int length) {
  std::vector<Tokens> all = {{}};
  for (int i = 0; i < length; ++i) {
    std::vector<Tokens> longer;
    for (const Tokens& tokens : all) {
      for (TokenId x = 0; x < vocab; ++x) {
        longer.push_back(tokens);
        longer.back().push_back(x);
      }
    }
    all = std::move(longer);
  }
  return all;
}

// Calls visit(indices, ways) for every multiset of k of `count` items; `ways` is the number of its
// orders.
template <class Visit>
void ForEachMultiset(size_t count, int k, Visit visit) {
  std::vector<size_t> chosen(static_cast<size_t>(k), 0);
  for (;;) {
    double ways = 1;
    size_t run = 0;
    for (size_t i = 0; i < chosen.size(); ++i) {
      run = i > 0 && chosen[i] == chosen[i - 1] ? run + 1 : 1;
      ways *= static_cast<double>(i + 1) / static_cast<double>(run);
    }
    visit(chosen, ways);
    size_t index = chosen.size();
    while (index > 0 && chosen[index - 1] + 1 == count) --index;
    if (index == 0) return;
    std::fill(chosen.begin() + static_cast<long>(index) - 1, chosen.end(), chosen[index - 1] + 1);
  }
}

}  // namespace

TransportPlan SolveTransport(std::span<const double> target, std::span<const double> draft, int k) {
  const auto vocab = static_cast<int>(target.size());
  const std::vector<Tokens> tuples = AllSequences(vocab, k);
  LinearProgram program;
  std::vector<int> to_token;
  for (const double p : target) to_token.push_back(program.AddEquality(p));
  std::vector<std::vector<int>> variables;
  for (const Tokens& tuple : tuples) {
    double probability = 1;
    for (const TokenId x : tuple) probability *= draft[static_cast<size_t>(x)];
    const int from_tuple = program.AddEquality(probability);
    std::vector<int>& row = variables.emplace_back();
    for (TokenId y = 0; y < vocab; ++y) {
      const bool drawn = std::find(tuple.begin(), tuple.end(), y) != tuple.end();
      row.push_back(program.AddVariable(drawn ? 1 : 0));
      program.Add(from_tuple, row.back(), 1);
      program.Add(to_token[static_cast<size_t>(y)], row.back(), 1);
    }
  }
  TransportPlan plan{.acceptance = program.Solve()};
  for (const std::vector<int>& row : variables) {
    std::vector<double>& mass = plan.mass.emplace_back();
    for (const int variable : row) mass.push_back(program.value(variable));
  }
  return plan;
}

double MostAccepted(const EnumeratedPair& pair, int k, int length) {
  const std::vector<Tokens> sequences = AllSequences(pair.vocab, length);
  std::vector<double> probabilities;
  for (const Tokens& sequence : sequences) {
    double& probability = probabilities.emplace_back(1);
    for (size_t i = 0; i < sequence.size(); ++i) {
      probability *= pair.draft(std::span(sequence).first(i))[static_cast<size_t>(sequence[i])];
    }
  }

  // For each prefix u and each x: A(u x) - p(x | u) A(u) <= 0, A(v) = Pr(v is accepted).
  LinearProgram program;
  struct Residual {
    std::vector<double> target;
    std::vector<int> rows;
  };
  std::map<Tokens, Residual> residuals;
  for (int depth = 0; depth < length; ++depth) {
    for (const Tokens& prefix : AllSequences(pair.vocab, depth)) {
      Residual& residual = residuals[prefix];
      residual.target = pair.target(prefix);
      for (int x = 0; x < pair.vocab; ++x) residual.rows.push_back(program.AddAtMost(0));
    }
  }
  ForEachMultiset(sequences.size(), k, [&](const std::vector<size_t>& chosen, double ways) {
    double probability = ways;
    std::vector<Tokens> prefixes = {{}};
    for (const size_t s : chosen) {
      probability *= probabilities[s];
      for (size_t n = 1; n <= sequences[s].size(); ++n) {
        prefixes.emplace_back(sequences[s].begin(), sequences[s].begin() + static_cast<long>(n));
      }
    }
    if (probability == 0) return;
    std::sort(prefixes.begin(), prefixes.end());
    prefixes.erase(std::unique(prefixes.begin(), prefixes.end()), prefixes.end());
    const int draws = program.AddEquality(probability);
    for (const Tokens& accepted : prefixes) {
      const int variable = program.AddVariable(static_cast<double>(accepted.size()));
      program.Add(draws, variable, 1);
      for (size_t n = 0; n <= accepted.size() && n < static_cast<size_t>(length); ++n) {
        const Residual& residual =
            residuals[Tokens(accepted.begin(), accepted.begin() + static_cast<long>(n))];
        for (size_t x = 0; x < residual.rows.size(); ++x) {
          const bool on_path = n < accepted.size() && static_cast<size_t>(accepted[n]) == x;
          program.Add(residual.rows[x], variable, (on_path ? 1 : 0) - residual.target[x]);
        }
      }
    }
  });
  return program.Solve();
}

}  // namespace outrider::testing
