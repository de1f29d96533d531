// Runs the golden cases of one file: rebuilds each case's inputs, calls brim through a table of
// ops, and compares outputs and gradients. The file format is described in goldenlib.py.
#pragma once

#include <algorithm>
#include <cmath>
#include <functional>
#include <sstream>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include <brim/autograd/autograd.h>
#include <brim/core/tensor.h>
#include <brim/ops/create.h>

#include "golden/golden_file.h"
#include "op_table/op_table.h"

namespace golden {

using brim::DType;
using brim::MemoryFormat;
using brim::Shape;
using brim::Tensor;
using brim::tests::Call;
using brim::tests::Json;
using brim::tests::op_table;
using brim::tests::OpTable;
using brim::tests::Outputs;

struct Options {
  double f32_tolerance = 2e-5;   ///< of max(1, |expected|)
  double f64_tolerance = 1e-11;  ///< of max(1, |expected|)
  bool channels_last = false;    ///< run again with 4-d inputs in nhwc
};

inline Tensor make_view(const Tensor& x, const std::string& view) {
  if (view == "transpose") return x.transpose(-1, -2).contiguous().transpose(-1, -2);
  if (view == "slice") {
    Shape wide = x.shape();
    wide[x.rank() - 1] *= 2;
    Tensor result = brim::zeros(wide, {.dtype = x.dtype()}).slice(-1, 0, wide.back(), 2);
    result.copy_(x);
    return result;
  }
  throw std::invalid_argument("unknown view " + view);
}

/// "" when `actual` equals `expected` within the tolerance, else the first difference.
inline std::string difference(const Tensor& actual, const Tensor& expected, double tolerance) {
  if (!actual.defined()) return "is undefined";
  if (actual.shape() != expected.shape())
    return "has shape " + actual.shape().str() + ", expected " + expected.shape().str();
  if (actual.numel() == 0) return "";
  const auto got = actual.detach().to(brim::f64).to_vector<double>();
  const auto want = expected.to(brim::f64).to_vector<double>();
  for (size_t i = 0; i < got.size(); ++i) {
    const double a = got[i], e = want[i];
    if (a == e || (std::isnan(a) && std::isnan(e))) continue;
    if (std::abs(a - e) <= tolerance * std::max(1.0, std::abs(e)) && std::isfinite(e)) continue;
    std::ostringstream text;
    text.precision(12);
    text << "element " << i << " is " << a << ", expected " << e;
    return text.str();
  }
  return "";
}

enum class Layout { plain, nhwc };

/// One case with its floating inputs in `dtype`.
inline void run_case(const File& file, const std::string& key, const Json& record,
                     const std::function<Outputs(const Call&)>& function, DType dtype,
                     Layout layout, const Options& options) {
  SCOPED_TRACE(file.name + ": " + key + " in " + std::string(brim::name(dtype)) +
               (layout == Layout::nhwc ? ", nhwc" : ""));
  const auto numbered = [&](const char* kind, int i) {
    return file.at(key + "/" + kind + "/" + std::to_string(i));
  };
  const double tolerance = dtype == brim::f32 ? options.f32_tolerance : options.f64_tolerance;
  const auto differentiable = record.at("grad").get<std::vector<int>>();

  Call call{.in = {}, .attrs = record.at("attrs")};
  for (int i = 0; i < record.at("in").get<int>(); ++i) {
    Tensor x =
        numbered("in", i).detach();  // a handle of its own: it may come to require a gradient
    if (brim::is_floating(x.dtype())) x = x.to(dtype);
    if (record.contains("views") && record["views"].contains(std::to_string(i)))
      x = make_view(x, record["views"][std::to_string(i)].get<std::string>());
    if (layout == Layout::nhwc && x.rank() == 4) x = x.to(MemoryFormat::nhwc);
    call.in.push_back(x);
  }
  std::vector<Tensor> leaves;
  for (int i : differentiable)
    leaves.push_back(call.in[static_cast<size_t>(i)].set_requires_grad());

  const Outputs outputs = function(call);
  ASSERT_EQ(outputs.size(), record.at("out").get<size_t>());
  std::vector<Tensor> sources, cotangents;
  for (int i = 0; i < static_cast<int>(outputs.size()); ++i) {
    const Tensor& output = outputs[static_cast<size_t>(i)];
    const Tensor expected = numbered("out", i);
    const std::string wrong = difference(output, expected, tolerance);
    EXPECT_EQ(wrong, "") << "output " << i;
    if (!wrong.empty()) return;
    const DType type = call.has("dtype")                     ? brim::parse_dtype(call.text("dtype"))
                       : brim::is_floating(expected.dtype()) ? dtype
                                                             : expected.dtype();
    EXPECT_EQ(brim::name(output.dtype()), brim::name(type)) << "output " << i;
    if (!file.has(key + "/cotangent/" + std::to_string(i))) continue;
    sources.push_back(output);
    cotangents.push_back(numbered("cotangent", i).to(output.dtype()));
  }
  if (leaves.empty()) return;

  const auto grads = brim::autograd::grad(sources, leaves, cotangents);
  for (size_t i = 0; i < grads.size(); ++i)
    EXPECT_EQ(difference(grads[i], numbered("grad", differentiable[i]), tolerance), "")
        << "gradient of input " << differentiable[i];
}

/// Every case of data/<family>.safetensors; each op of the file must be in the table.
inline void run_family(const std::string& family, const Options& options = {},
                       const OpTable& table = op_table()) {
  const File file(family);
  for (const auto& [key, text] : file.metadata) {
    if (key == "torch") continue;
    const std::string op = key.substr(0, key.find('/'));
    const auto entry = table.find(op);
    if (entry == table.end()) {
      ADD_FAILURE() << "no entry for " << key << " in the table of ops";
      continue;
    }
    const Json record = Json::parse(text);
    const bool floating = record.at("in").get<int>() > 0 && [&, &key = key] {
      for (int i = 0; i < record.at("in").get<int>(); ++i)
        if (brim::is_floating(file.at(key + "/in/" + std::to_string(i)).dtype())) return true;
      return false;
    }();
    for (DType dtype : floating ? std::vector{brim::f64, brim::f32} : std::vector{brim::f64}) {
      for (Layout layout : {Layout::plain, Layout::nhwc}) {
        if (layout == Layout::nhwc && !options.channels_last) continue;
        try {
          run_case(file, key, record, entry->second, dtype, layout, options);
        } catch (const std::exception& error) {
          ADD_FAILURE() << family << ": " << key << " in " << brim::name(dtype)
                        << " threw: " << error.what();
        }
      }
    }
  }
}

}  // namespace golden
