// Contract cases of einsum, by its definition.
#include <brim/ops/create.h>
#include <brim/ops/matmul.h>

#include <map>

#include "contract/contract.h"
#include "contract/positions.h"
#include "message_of.h"

namespace brim::contract {
namespace {

/// Sums over all values of all letters. No "...".
Tensor reference(const std::string& formula, const Tensors& in) {
  const size_t arrow = formula.find("->");
  std::string letters;
  std::map<char, int64_t> sizes;
  std::vector<std::string> parts(1);
  for (const char c : formula.substr(0, arrow))
    if (c == ',')
      parts.emplace_back();
    else
      parts.back().push_back(c);
  for (size_t i = 0; i < parts.size(); ++i)
    for (size_t k = 0; k < parts[i].size(); ++k) {
      int64_t& size = sizes.try_emplace(parts[i][k], 1).first->second;
      if (in[i].size(static_cast<int>(k)) != 1) size = in[i].size(static_cast<int>(k));
    }
  const std::string result = formula.substr(arrow + 2);
  letters = result;
  for (const auto& [c, n] : sizes)
    if (letters.find(c) == std::string::npos) letters.push_back(c);
  Shape all, to;
  for (const char c : letters) all.push_back(sizes[c]);
  for (const char c : result) to.push_back(sizes[c]);
  std::vector<Reader> readers;
  for (const Tensor& x : in) readers.emplace_back(x);
  std::vector<double> y(static_cast<size_t>(to.numel()));
  for_each_position(all, [&](const Shape& p) {
    double product = 1;
    for (size_t i = 0; i < parts.size(); ++i) {
      Shape at;
      for (const char c : parts[i]) {
        const int axis = at.rank();
        at.push_back(in[i].size(axis) == 1 ? 0 : p[static_cast<int>(letters.find(c))]);
      }
      product *= readers[i](at);
    }
    size_t to_at = 0;
    for (int d = 0; d < to.rank(); ++d)
      to_at = to_at * static_cast<size_t>(to[d]) + static_cast<size_t>(p[d]);
    y[to_at] += product;
  });
  return array(y, to);
}

Case formula(const std::string& text, std::vector<std::vector<Input>> inputs,
             const std::string& full = "") {
  const std::string meant = full.empty() ? text : full;
  return {.op = [=](const Tensors& x) { return einsum(text, x); },
          .inputs = std::move(inputs),
          .reference = [=](const Tensors& x) { return reference(meant, x); },
          .tolerance = 1e-4,
          .tolerance_f64 = 1e-11};
}

CONTRACT(einsum_matmul) {
  return formula("ij,jk->ik", {{{.shape = {3, 4}}, {.shape = {4, 5}}},
                               {{.shape = {0, 4}}, {.shape = {4, 5}}},
                               {{.shape = {2, 0}}, {.shape = {0, 3}}},
                               {{.shape = {3, 1}}, {.shape = {4, 5}}}});
}
CONTRACT(einsum_attention) {
  return formula("bhik, bhjk -> bhij", {{{.shape = {2, 3, 4, 5}}, {.shape = {2, 3, 2, 5}}}},
                 "bhik,bhjk->bhij");
}
CONTRACT(einsum_order_of_the_result) {
  return formula("ijk,kl->lji", {{{.shape = {2, 3, 4}}, {.shape = {4, 5}}}});
}
CONTRACT(einsum_of_one) {
  return formula("ijk->ki", {{{.shape = {2, 3, 4}}}, {{.shape = {1, 1, 1}}}});
}
CONTRACT(einsum_trace) { return formula("ii", {{{.shape = {4, 4}}}}, "ii->"); }
CONTRACT(einsum_diagonal) { return formula("iij->ji", {{{.shape = {3, 3, 2}}}}); }
CONTRACT(einsum_pointwise) {
  return formula("bi,bi->bi", {{{.shape = {2, 3}}, {.shape = {2, 3}}}});
}
CONTRACT(einsum_outer) { return formula("i,j->ij", {{{.shape = {3}}, {.shape = {4}}}}); }
CONTRACT(einsum_implied) {
  return formula("ba,cb", {{{.shape = {2, 3}}, {.shape = {4, 2}}}}, "ba,cb->ac");
}
CONTRACT(einsum_of_three) {
  return formula("bi,oij,bj->bo", {{{.shape = {2, 3}}, {.shape = {5, 3, 4}}, {.shape = {2, 4}}}});
}
CONTRACT(einsum_ellipsis) {
  return {.op =
              [](Tensor a, Tensor b) {
                return Tensors{einsum("...ij,...jk->...ik", {a, b}), einsum("...ij,...jk", {a, b}),
                               einsum("b...->...b", {a})};
              },
          .inputs = {{{.shape = {2, 3, 4}}, {.shape = {4, 5}}},
                     {{.shape = {2, 1, 3, 4}}, {.shape = {3, 4, 2}}}},
          .reference =
              [](Tensor a, Tensor b) {
                const Tensor y = matmul(a, b);
                std::vector<int> axes;
                for (int i = 1; i < a.rank(); ++i) axes.push_back(i);
                axes.push_back(0);
                return Tensors{y, y, a.permute(axes)};
              },
          .tolerance = 1e-4};
}

TEST(Einsum, ErrorsShowTheFormula) {
  using tests::message_of;
  const Tensor x = zeros({2, 3});
  EXPECT_EQ(message_of([&] { einsum("ij,jk->ik", {x}); }),
            "[einsum] \"ij,jk->ik\" is of 2 operands, but 1 were given");
  EXPECT_EQ(message_of([&] { einsum("ijk->i", {x}); }),
            "[einsum] \"ijk->i\": \"ijk\" names 3 axes of an operand of shape (2, 3)");
  EXPECT_EQ(message_of([&] { einsum("ij->ik", {x}); }),
            "[einsum] \"ij->ik\": the result names an axis that no operand has, or one twice");
  EXPECT_EQ(message_of([&] { einsum("i1->i", {x}); }),
            "[einsum] \"i1->i\": axes are letters, or \"...\" for several");
  EXPECT_EQ(message_of([&] {
              einsum("ij,jk->ik", {x, x});
            }),
            "[einsum] \"ij,jk->ik\": shapes (2, 3) and (2, 3) have 3 and 2 elements where one "
            "letter stands");
  EXPECT_NE(message_of([&] { einsum("ii->i", {x}); }).find("axes of 2 and 3 elements"),
            std::string::npos);
  EXPECT_THROW(einsum("...i...->i", {x}), ValueError);
  EXPECT_THROW(einsum("ij->ii", {x}), ValueError);
  EXPECT_THROW(einsum("", {}), ValueError);
}

}  // namespace
}  // namespace brim::contract
