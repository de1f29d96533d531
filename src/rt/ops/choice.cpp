// The largest of scores, and where they are.
#include "rt/ops/choice.h"

#include "rt/step.h"

namespace brim::rt {
namespace {

constexpr int64_t kWorthOfChoice = int64_t{1} << 14;  // scores that are worth a thread

bool is_larger(float a, float b) { return a > b || (a != a && b == b); }

/// Rows of x, of c scores each.
struct Scores {
  int64_t rows, c;
  const float* x;
};

Scores scores_of(const Step& s) {
  const Operand& x = s.in(0);
  const int64_t c = x.dims[x.rank - 1];
  return {x.count() / c, c, x.as<float>()};
}

bool has_scores(const Step& s, int outputs) {
  return s.word_count == 0 && s.inputs == 1 && s.outputs == outputs &&
         s.in(0).dtype == DType::f32 && s.in(0).rank > 0;
}

int check_top(const Step& s, const Failure& fail) {
  if (!has_scores(s, 2)) return does_not_fit(s, fail);
  const Operand &values = s.out(0), &indices = s.out(1);
  if (values.dtype != DType::f32 || indices.dtype != DType::i32 || values.rank < 1 ||
      values.count() != indices.count())
    return does_not_fit(s, fail);
  const int64_t k = values.dims[values.rank - 1];
  const Scores scores = scores_of(s);
  const bool fits = scores.c <= kMaxScores && k <= scores.c && k <= kMaxTop &&
                    values.count() % k == 0 && values.count() / k == scores.rows;
  return fits ? BRIM_RT_OK : does_not_fit(s, fail);
}

int run_top(const Step& s, const Run& run, const Failure&) {
  const Scores scores = scores_of(s);
  const int64_t k = s.out(0).dims[s.out(0).rank - 1];
  float* const values = s.out(0).as<float>();
  int32_t* const indices = s.out(1).as<int32_t>();
  parallel_parts(run.threads, scores.rows, kWorthOfChoice / scores.c + 1,
                 [&](int64_t, int64_t begin, int64_t end) {
                   for (int64_t row = begin; row < end; ++row) {
                     const float* const x = scores.x + row * scores.c;
                     float* const best = values + row * k;
                     int32_t* const at = indices + row * k;
                     int64_t found = 0;
                     for (int64_t i = 0; i < scores.c; ++i) {
                       if (found == k && !is_larger(x[i], best[k - 1])) continue;
                       const float score = x[i];
                       int64_t j = found < k ? found++ : k - 1;
                       for (; j > 0 && is_larger(score, best[j - 1]); --j) {
                         best[j] = best[j - 1];
                         at[j] = at[j - 1];
                       }
                       best[j] = score;
                       at[j] = static_cast<int32_t>(i);
                     }
                   }
                 });
  return BRIM_RT_OK;
}

int check_argmax(const Step& s, const Failure& fail) {
  if (!has_scores(s, 1)) return does_not_fit(s, fail);
  const Operand& y = s.out(0);
  const Scores scores = scores_of(s);
  const bool fits = y.dtype == DType::i32 && y.count() == scores.rows && scores.c <= kMaxScores;
  return fits ? BRIM_RT_OK : does_not_fit(s, fail);
}

int run_argmax(const Step& s, const Run& run, const Failure&) {
  const Scores scores = scores_of(s);
  int32_t* const y = s.out(0).as<int32_t>();
  parallel_parts(run.threads, scores.rows, kWorthOfChoice / scores.c + 1,
                 [&](int64_t, int64_t begin, int64_t end) {
                   for (int64_t row = begin; row < end; ++row) {
                     const float* const x = scores.x + row * scores.c;
                     int64_t best = 0;
                     for (int64_t i = 1; i < scores.c; ++i)
                       if (is_larger(x[i], x[best])) best = i;
                     y[row] = static_cast<int32_t>(best);
                   }
                 });
  return BRIM_RT_OK;
}

}  // namespace

const Op kTopOp = {OpCode::top, "top", &check_top, nullptr, &run_top};
const Op kArgmaxOp = {OpCode::argmax, "argmax", &check_argmax, nullptr, &run_argmax};

}  // namespace brim::rt
