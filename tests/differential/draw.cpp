// Reads draws, lays inputs out in memory, computes in every mode, and compares.
#include "differential/draw.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <limits>

#include <fmt/core.h>

#include <brim/autograd/autograd.h>
#include <brim/io/safetensors.h>
#include <brim/ops/create.h>
#include <brim/plan/compile.h>

#include "layouts.h"

namespace brim::differential {
namespace {

/// Bytes of a file's tensor `data`, taken one after the other.
class Bytes {
 public:
  explicit Bytes(const Tensor& data) : at_(data.data<uint8_t>()), end_(at_ + data.numel()) {}

  Tensor tensor(DType dtype, const Shape& shape) {
    Tensor t = Tensor::empty(shape, dtype, Device::cpu());
    const size_t size = static_cast<size_t>(t.numel()) * size_of(dtype);
    if (size > 0) std::memcpy(t.raw(), take(size), size);
    return t;
  }

  /// Numbers of bfloat16.
  std::vector<double> tolerances(int64_t count) {
    return tensor(bf16, {count}).to(f64).to_vector<double>();
  }

  bool at_end() const { return at_ == end_; }

 private:
  const uint8_t* take(size_t size) {
    if (size > static_cast<size_t>(end_ - at_)) throw FileError("[draws] the data end too early");
    return std::exchange(at_, at_ + size);
  }

  const uint8_t* at_;
  const uint8_t* end_;
};

Shape shape_of(const Json& sizes) {
  const auto list = sizes.get<std::vector<int64_t>>();
  return Shape(std::span<const int64_t>(list));
}

/// What results of `dtype` are stored as.
DType stored_as(DType dtype) { return dtype == f16 || dtype == bf16 ? f32 : dtype; }

/// `tolerance`: null if the result is not compared, else whether it has tolerances.
void add_expected(Draw& d, const std::string& name, DType dtype, const Shape& shape,
                  const Json& tolerance, Bytes& bytes) {
  if (tolerance.is_null()) return;
  Expected e{
      .name = name, .dtype = dtype, .shape = shape, .values = {}, .tolerance = {}, .whole = {}};
  const Tensor values = bytes.tensor(stored_as(dtype), shape);
  if (dtype == i64)
    e.whole = values.to_vector<int64_t>();
  else
    e.values = values.to(f64).to_vector<double>();
  if (tolerance.get<bool>()) e.tolerance = bytes.tolerances(shape.numel());
  d.expected.push_back(std::move(e));
}

Draw parse(const Json& j, Bytes& bytes) {
  Draw d;
  d.id = j.at("id");
  d.op = j.at("op");
  d.attrs = j.at("attrs");
  d.order = j.value("order", 0);
  d.refused = j.value("refused", false);
  d.free = j.value("free", false);
  d.reads_host = j.value("reads_host", false);
  d.leaves = j.value("leaves", d.leaves);
  d.sources = j.value("sources", d.sources);
  for (const Json& in : j.at("in"))
    d.in.push_back({bytes.tensor(parse_dtype(in.at(0).get<std::string>()), shape_of(in.at(1))),
                    in.size() > 2 ? in.at(2).get<std::string>() : ""});
  const Json none = Json::array(), &y = j.value("y", none), &g = j.value("g", none),
             &h = j.value("h", none);
  const auto dtype_of_output = [&](size_t i) {
    return parse_dtype(y.at(i).at(0).get<std::string>());
  };
  if (d.order > 0)
    for (const size_t i : d.sources)
      d.w.push_back(bytes.tensor(dtype_of_output(i), shape_of(y.at(i).at(1))));
  if (d.order > 1)
    for (const size_t i : d.leaves)
      d.v.push_back(bytes.tensor(d.in[i].values.dtype(), d.in[i].values.shape()));
  for (size_t i = 0; i < y.size(); ++i)
    add_expected(d, fmt::format("y{}", i), dtype_of_output(i), shape_of(y[i][1]), y[i].at(2),
                 bytes);
  Tensors like;
  for (const size_t i : d.leaves) like.push_back(d.in[i].values);
  like.insert(like.end(), d.w.begin(), d.w.end());
  for (const auto& [name, flags] : {std::pair("g", &g), std::pair("h", &h)})
    for (size_t i = 0; i < flags->size(); ++i)
      add_expected(d, fmt::format("{}{}", name, i), like.at(i).dtype(), like.at(i).shape(),
                   (*flags)[i], bytes);
  return d;
}

/// `x` in the layout of that name, as it is where it cannot lie so.
Tensor arranged(const Tensor& x, const std::string& layout) {
  if (layout.empty()) return x;
  const auto& names = tests::kLayoutName;
  const auto found = std::find(std::begin(names), std::end(names), layout);
  if (found == std::end(names)) throw std::invalid_argument("no layout called " + layout);
  const Tensor view = tests::arrange(x, static_cast<tests::Layout>(found - std::begin(names)));
  return view.defined() ? view : x;
}

// --- computing

Device device_of(const std::string& mode) {
  return mode.starts_with("sim")    ? Device::sim(0)
         : mode.starts_with("cuda") ? Device::cuda(0)
                                    : Device::cpu();
}

/// Results by their names.
using Results = std::vector<std::pair<std::string, Tensor>>;

/// Outputs, and gradients up to the draw's order.
Results differentiate(const Draw& d, Tensors in, Tensors w, const Tensors& v, Device device) {
  Tensors leaves;
  if (d.order > 0)
    for (const size_t i : d.leaves) leaves.push_back(in[i] = in[i].detach().set_requires_grad());
  const auto found = tests::op_table().find(d.op);
  if (found == tests::op_table().end()) throw std::invalid_argument("no op called " + d.op);
  const tests::Outputs y = found->second({.in = std::move(in), .attrs = d.attrs, .device = device});
  Results results;
  const auto add = [&](const char* name, const Tensors& list) {
    for (size_t i = 0; i < list.size(); ++i)
      if (list[i].defined()) results.emplace_back(fmt::format("{}{}", name, i), list[i].detach());
  };
  add("y", y);
  if (d.order == 0) return results;
  Tensors sources;
  for (const size_t i : d.sources) sources.push_back(y.at(i));
  if (d.order > 1)
    for (Tensor& t : w) t = t.detach().set_requires_grad();
  const Tensors g = autograd::grad(sources, leaves, w, {.create_graph = d.order > 1});
  add("g", g);
  if (d.order == 1) return results;
  Tensors recorded, weights;
  for (size_t i = 0; i < g.size(); ++i)
    if (g[i].defined() && g[i].requires_grad()) {
      recorded.push_back(g[i]);
      weights.push_back(v[i]);
    }
  Tensors with_respect_to = leaves;
  with_respect_to.insert(with_respect_to.end(), w.begin(), w.end());
  if (!recorded.empty()) add("h", autograd::grad(recorded, with_respect_to, weights));
  return results;
}

/// The same in a compiled step, whose second replay counts.
Results compiled(const Draw& d, const Tensors& in, const Tensors& w, const Tensors& v,
                 Device device) {
  std::vector<std::string> names;
  const plan::Compiler::Step step = [&](std::span<const Tensor> all) {
    const auto part = [&](size_t from, size_t count) {
      return Tensors(all.begin() + static_cast<std::ptrdiff_t>(from),
                     all.begin() + static_cast<std::ptrdiff_t>(from + count));
    };
    names.clear();
    Tensors results;
    for (auto& [name, result] : differentiate(d, part(0, in.size()), part(in.size(), w.size()),
                                              part(in.size() + w.size(), v.size()), device)) {
      names.push_back(name);
      results.push_back(result);
    }
    return results;
  };
  Tensors all = in;
  all.insert(all.end(), w.begin(), w.end());
  all.insert(all.end(), v.begin(), v.end());
  plan::Compiler compiler({});
  compiler.run(all, step);
  const std::span<const Tensor> computed = compiler.run(all, step);
  Results results;
  for (size_t i = 0; i < names.size(); ++i) results.emplace_back(names[i], computed[i].clone());
  return results;
}

// --- comparing

double largest_of(DType dtype) {
  return dtype == f16    ? 65504
         : dtype == bf16 ? 0x1.fep127
         : dtype == f32  ? std::numeric_limits<float>::max()
                         : std::numeric_limits<double>::max();
}

/// Whether `got` of `dtype` is `want`, which was rounded to f32 if the dtype is narrower.
bool agrees(double got, double want, double tolerance, DType dtype) {
  if (got == want || (std::isnan(got) && std::isnan(want)) || tolerance == INFINITY) return true;
  if (std::isnan(got) || std::isnan(want)) return false;
  if (std::abs(got - want) <= tolerance) return true;  // not between equal infinities
  // Overflow: one of the two is infinite, and the other not far from it.
  const double finite = std::abs(std::isinf(got) ? want : got);
  const bool same_sign = std::signbit(got) == std::signbit(want);
  return is_floating(dtype) && same_sign && (std::isinf(got) || std::isinf(want)) &&
         finite * (1 + 0x1p-8) + tolerance >= largest_of(dtype);
}

/// "" if all is as expected, else the first difference.
std::string difference(const Tensor& result, const Expected& e) {
  if (!result.defined()) return "there is none";
  if (result.dtype() != e.dtype)
    return fmt::format("dtype {}, not {}", name(result.dtype()), name(e.dtype));
  if (result.shape() != e.shape)
    return fmt::format("shape {}, not {}", result.shape().str(), e.shape.str());
  const Tensor host = result.to(Device::cpu());
  size_t wrong = 0;
  std::string first;
  const auto note = [&](size_t i, auto got, auto want, double tolerance) {
    if (wrong++ == 0)
      first = fmt::format("element {}: {}, expected {}, tolerance {:.3g}", i, got, want, tolerance);
  };
  if (e.dtype == i64) {
    const auto got = host.to_vector<int64_t>();
    for (size_t i = 0; i < got.size(); ++i)
      if (got[i] != e.whole[i]) note(i, got[i], e.whole[i], 0);
  } else {
    const auto got = host.to(f64).to_vector<double>();
    for (size_t i = 0; i < got.size(); ++i) {
      const double tolerance = e.tolerance.empty() ? 0 : e.tolerance[i];
      if (!agrees(got[i], e.values[i], tolerance, e.dtype)) note(i, got[i], e.values[i], tolerance);
    }
  }
  return wrong > 1 ? fmt::format("{} ({} of {} elements)", first, wrong, host.numel()) : first;
}

/// A gradient that does not depend on an input may be missing: it is zero.
Tensor result_of(const Results& results, const Expected& e) {
  for (const auto& [name, result] : results)
    if (name == e.name) return result;
  return e.name[0] == 'y' ? Tensor() : zeros(e.shape, {.dtype = e.dtype});
}

}  // namespace

std::vector<std::string> modes() {
  std::vector<std::string> list{"eager", "compiled"};
  // A backend that somebody named has to open: what fails to says why here.
  if (const char* const named = std::getenv("BRIM_BACKEND_PATH"); named && *named)
    Tensor::empty({}, f32, Device::cuda(0));
  for (const char* kind : {"sim", "cuda"})
    if (Device::count(kind) > 0) list.insert(list.end(), {kind, std::string(kind) + "_compiled"});
  return list;
}

std::vector<Draw> read_draws(const std::string& path) {
  const io::TensorMap file = io::load_safetensors(path);
  const Tensor& text = file.at("draws");
  Bytes bytes(file.at("data"));
  std::vector<Draw> draws;
  const char* at = reinterpret_cast<const char*>(text.data<uint8_t>());
  const char* const end = at + text.numel();
  while (at < end) {  // one a line
    const char* const line_end = std::find(at, end, '\n');
    draws.push_back(parse(Json::parse(at, line_end), bytes));
    at = line_end + 1;
  }
  if (!bytes.at_end()) throw FileError("[draws] there are more data than the draws have");
  return draws;
}

std::vector<Mismatch> run(const Draw& d, const std::string& mode) {
  const bool compile = mode.ends_with("compiled");
  if (compile && (d.reads_host || d.refused)) return {};
  const Device device = device_of(mode);
  if (d.refused && !device.is_cpu()) return {};  // bad indices are reported later there
  std::vector<Mismatch> found;
  const auto add = [&](const std::string& what, const std::string& text) {
    found.push_back({d.id, mode, what, text});
  };
  try {
    Tensors in, w, v;
    for (const Input& x : d.in) in.push_back(arranged(x.values.to(device), x.layout));
    for (const Tensor& x : d.w) w.push_back(x.to(device));
    for (const Tensor& x : d.v) v.push_back(x.to(device));
    const Results results =
        compile ? compiled(d, in, w, v, device) : differentiate(d, in, w, v, device);
    if (d.refused) {
      add("", "nothing was thrown; PyTorch refuses this");
      return found;
    }
    for (const Expected& e : d.expected)
      if (const std::string text = difference(result_of(results, e), e); !text.empty())
        add(e.name, text);
  } catch (const Error& error) {
    if (!d.refused && !d.free) add("", fmt::format("threw: {}", error.what()));
  } catch (const std::exception& error) {
    add("", fmt::format("threw what is no Error: {}", error.what()));
  }
  return found;
}

}  // namespace brim::differential
