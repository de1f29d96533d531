// einsum: sums of products by a formula, as products of matrices
#include <algorithm>
#include <array>
#include <cctype>

#include <brim/ops/binary.h>
#include <brim/ops/matmul.h>
#include <brim/ops/reduce.h>
#include <brim/ops/shape.h>

#include "ops/checks.h"

namespace brim {
namespace {

/// An axis by its letter; those of "..." count from -1 downwards, from the last one on.
using Labels = std::vector<int>;

bool has(const Labels& labels, int label) {
  return std::find(labels.begin(), labels.end(), label) != labels.end();
}

/// An operand whose axes have different labels.
struct Term {
  Tensor x;
  Labels labels;

  int axis(int label) const {
    return static_cast<int>(std::find(labels.begin(), labels.end(), label) - labels.begin());
  }
  /// 1 where it has no such axis.
  int64_t size(int label) const { return has(labels, label) ? x.size(axis(label)) : 1; }
};

class Formula {
 public:
  Formula(const std::string& text, const std::vector<Tensor>& operands) : text_(text) {
    std::string plain;
    for (const char c : text)
      if (c != ' ') plain.push_back(c);
    const size_t arrow = plain.find("->");
    std::string rest = plain.substr(0, arrow) + ",";
    std::vector<std::string> parts;
    for (size_t comma; (comma = rest.find(',')) != std::string::npos; rest.erase(0, comma + 1))
      parts.push_back(rest.substr(0, comma));
    BRIM_CHECK(parts.size() == operands.size(), ValueError,
               "[einsum] \"{}\" is of {} operands, but {} were given", text, parts.size(),
               operands.size());
    for (size_t i = 0; i < parts.size(); ++i) {
      ops::check_defined("einsum", operands[i]);
      terms.push_back(term(parts[i], operands[i]));
    }
    if (arrow != std::string::npos)
      result = labels_of(plain.substr(arrow + 2), ellipsis_);
    else
      imply_result();
    for (size_t i = 0; i < result.size(); ++i) {
      const bool known = std::any_of(terms.begin(), terms.end(),
                                     [&](const Term& t) { return has(t.labels, result[i]); });
      const bool once = std::count(result.begin(), result.end(), result[i]) == 1;
      if (!known || !once) malformed("the result names an axis that no operand has, or one twice");
    }
  }

  std::vector<Term> terms;
  Labels result;

 private:
  [[noreturn]] void malformed(const char* why) const {
    throw ValueError(fmt::format("[einsum] \"{}\": {}", text_, why));
  }

  /// `rank` axes stand behind "...".
  Labels labels_of(const std::string& part, int rank) const {
    Labels labels;
    for (size_t i = 0; i < part.size(); ++i) {
      if (std::isalpha(static_cast<unsigned char>(part[i]))) {
        labels.push_back(part[i]);
      } else if (part.compare(i, 3, "...") == 0) {
        for (int k = rank; k > 0; --k) labels.push_back(-k);
        i += 2;
      } else {
        malformed("axes are letters, or \"...\" for several");
      }
    }
    if (part.find("...") != part.rfind("...")) malformed("\"...\" stands twice in one operand");
    return labels;
  }

  Term term(const std::string& part, const Tensor& x) {
    const int letters = static_cast<int>(labels_of(part, 0).size());
    const bool open = part.find("...") != std::string::npos;
    BRIM_CHECK(open ? letters <= x.rank() : letters == x.rank(), ShapeError,
               "[einsum] \"{}\": \"{}\" names {} axes of an operand of shape {}", text_, part,
               letters, x.shape().str());
    if (open) ellipsis_ = std::max(ellipsis_, x.rank() - letters);
    Term t{x, labels_of(part, x.rank() - letters)};
    // A label twice: its diagonal, which becomes the last axis.
    for (size_t i = 0; i < t.labels.size();) {
      const auto again =
          std::find(t.labels.begin() + static_cast<long>(i) + 1, t.labels.end(), t.labels[i]);
      if (again == t.labels.end()) {
        ++i;
        continue;
      }
      const int a = static_cast<int>(i), b = static_cast<int>(again - t.labels.begin());
      BRIM_CHECK(t.x.size(a) == t.x.size(b), ShapeError,
                 "[einsum] \"{}\": axes of {} and {} elements have one letter in an operand of "
                 "shape {}",
                 text_, t.x.size(a), t.x.size(b), x.shape().str());
      const int label = t.labels[i];
      t.x = diagonal(t.x, 0, a, b);
      t.labels.erase(again);
      t.labels.erase(t.labels.begin() + a);
      t.labels.push_back(label);
    }
    return t;
  }

  void imply_result() {
    for (int k = ellipsis_; k > 0; --k) result.push_back(-k);
    for (int c = 'A'; c <= 'z'; ++c) {
      // Of letters that an operand has twice one is left.
      const std::string letter(1, static_cast<char>(c));
      if (std::isalpha(c) && std::count(text_.begin(), text_.end(), letter[0]) == 1)
        result.push_back(c);
    }
  }

  std::string text_;
  int ellipsis_ = 0;  // axes behind "..."
};

/// Over the labels that nobody needs any more.
Term summed(Term t, const Labels& needed) {
  std::vector<int> axes;
  Labels left;
  for (size_t i = 0; i < t.labels.size(); ++i)
    if (has(needed, t.labels[i]))
      left.push_back(t.labels[i]);
    else
      axes.push_back(static_cast<int>(i));
  if (axes.empty()) return t;
  return {sum(t.x, axes), left};
}

/// t with these axes, in this order, those that it has not with size 1.
Tensor arranged_by(const Term& t, const Labels& labels) {
  std::vector<int> axes;
  for (const int label : labels)
    if (has(t.labels, label)) axes.push_back(t.axis(label));
  Tensor x = t.x.permute(axes);
  for (size_t i = 0; i < labels.size(); ++i)
    if (!has(t.labels, labels[i])) x = x.unsqueeze(static_cast<int>(i));
  return x;
}

/// The product of two terms, summed over what they share and nobody needs.
Term multiplied(const std::string& formula, const Term& a, const Term& b, const Labels& needed) {
  Labels batch, rows, columns, inner;
  for (const int label : a.labels)
    (!has(b.labels, label) ? rows : has(needed, label) ? batch : inner).push_back(label);
  for (const int label : b.labels)
    if (!has(a.labels, label)) columns.push_back(label);
  const auto common = [&](int label) {
    const int64_t p = a.size(label), q = b.size(label);
    BRIM_CHECK(p == q || p == 1 || q == 1, ShapeError,
               "[einsum] \"{}\": shapes {} and {} have {} and {} elements where one letter stands",
               formula, a.x.shape().str(), b.x.shape().str(), p, q);
    return p == 1 ? q : p;
  };
  Labels all = batch;
  all.insert(all.end(), rows.begin(), rows.end());
  all.insert(all.end(), columns.begin(), columns.end());
  for (const int label : batch) (void)common(label);
  if (inner.empty()) return {mul(arranged_by(a, all), arranged_by(b, all)), all};
  Shape shape, left, right;  // of the result, and of both as stacks of matrices
  int64_t stack = 1, m = 1, n = 1, k = 1;
  const auto add_axes = [](Shape& to, const Labels& labels, const auto& size) {
    for (const int label : labels) to.push_back(size(label));
  };
  for (const int label : batch) stack *= common(label);
  for (const int label : rows) m *= a.size(label);
  for (const int label : columns) n *= b.size(label);
  for (const int label : inner) k *= common(label);
  add_axes(left, batch, common), add_axes(right, batch, common), add_axes(shape, batch, common);
  const auto of_a = [&](int label) { return a.size(label); };
  const auto of_b = [&](int label) { return b.size(label); };
  add_axes(left, rows, of_a), add_axes(left, inner, common);
  add_axes(right, inner, common), add_axes(right, columns, of_b);
  add_axes(shape, rows, of_a), add_axes(shape, columns, of_b);
  Labels as = batch, bs = batch;
  as.insert(as.end(), rows.begin(), rows.end());
  as.insert(as.end(), inner.begin(), inner.end());
  bs.insert(bs.end(), inner.begin(), inner.end());
  bs.insert(bs.end(), columns.begin(), columns.end());
  const Tensor x = arranged_by(a, as).expand(left).reshape({stack, m, k});
  const Tensor y = arranged_by(b, bs).expand(right).reshape({stack, k, n});
  const Tensor product = batch.empty() ? matmul(x.squeeze(0), y.squeeze(0)) : matmul(x, y);
  return {product.reshape(shape), all};
}

}  // namespace

Tensor einsum(const std::string& text, const std::vector<Tensor>& operands) {
  BRIM_CHECK(!operands.empty(), ValueError, "[einsum] \"{}\" has no operands", text);
  Formula formula(text, operands);
  std::vector<Term>& terms = formula.terms;
  // Labels that the result or a term behind the i-th one has.
  const auto needed_behind = [&](size_t i) {
    Labels needed = formula.result;
    for (size_t k = i + 1; k < terms.size(); ++k)
      needed.insert(needed.end(), terms[k].labels.begin(), terms[k].labels.end());
    return needed;
  };
  Term all =
      terms.size() == 1 ? summed(terms[0], formula.result) : summed(terms[0], needed_behind(0));
  for (size_t i = 1; i < terms.size(); ++i) {
    const Labels needed = needed_behind(i);
    Labels in_product = needed;
    in_product.insert(in_product.end(), all.labels.begin(), all.labels.end());
    all = multiplied(text, all, summed(terms[i], in_product), needed);
    all = summed(all, needed);
  }
  return arranged_by(all, formula.result);
}

}  // namespace brim
