// Files that torch.save wrote, read bit for bit, and written again.
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include <filesystem>
#include <set>

#include <brim/io/pth.h>

#include "golden/golden_file.h"
#include "temporary_folder.h"

namespace golden {
namespace {

using brim::Tensor;
using Json = nlohmann::json;

std::string pth_path(const std::string& name) {
  return std::filesystem::path(path_of(name)).replace_extension(".pth").string();
}

/// `expected`: values, or bytes where `x` is stored only.
void expect_equal(const Tensor& x, const Tensor& expected, const std::string& name) {
  if (!brim::is_computed(x.dtype())) {
    const Tensor packed = x.contiguous();
    const auto* bytes = static_cast<const uint8_t*>(packed.raw());
    const size_t count = static_cast<size_t>(x.numel()) * brim::size_of(x.dtype());
    EXPECT_EQ(std::vector<int64_t>(bytes, bytes + count), expected.to_vector<int64_t>()) << name;
    return;
  }
  ASSERT_EQ(x.shape(), expected.shape()) << name;
  if (expected.dtype() == brim::f64)
    EXPECT_EQ(x.to(brim::f64).to_vector<double>(), expected.to_vector<double>()) << name;
  else
    EXPECT_EQ(x.to(brim::i64).to_vector<int64_t>(), expected.to_vector<int64_t>()) << name;
}

/// Names, dtypes, strides and values of one file, as read and after save_pth.
brim::io::TensorMap check_pth(const std::string& file) {
  const File golden("pth");
  const brim::io::Pth pth(pth_path(file));
  const brim::io::TensorMap tensors = pth.load_all();
  const brim::tests::TemporaryFolder folder;
  const std::string copy = folder / "copy.pth";
  brim::io::save_pth(copy, tensors);
  const brim::io::TensorMap again = brim::io::load_pth(copy);
  size_t count = 0;
  for (const auto& [key, expected] : golden.tensors) {
    if (!key.starts_with(file + "/")) continue;
    ++count;
    const std::string name = key.substr(file.size() + 1);
    if (!tensors.contains(name)) {
      ADD_FAILURE() << key << " was not read";
      continue;
    }
    const Tensor& x = tensors.at(name);
    const Json record = Json::parse(golden.metadata.at(key));
    EXPECT_EQ(brim::name(x.dtype()), record.at("dtype").get<std::string>()) << key;
    if (x.numel() > 0) {
      const std::vector<int64_t> strides(x.strides().begin(), x.strides().end());
      EXPECT_EQ(strides, record.at("strides").get<std::vector<int64_t>>()) << key;
    }
    expect_equal(x, expected, key);
    expect_equal(pth.load(name), expected, key);
    EXPECT_EQ(again.at(name).dtype(), x.dtype()) << key;
    expect_equal(again.at(name), expected, key);
  }
  EXPECT_EQ(tensors.size(), count) << file;
  EXPECT_EQ(again.size(), count) << file;
  return tensors;
}

TEST(GoldenPth, StateDictOfANetwork) {
  const brim::io::TensorMap tensors = check_pth("pth_network");
  EXPECT_EQ(tensors.size(), 7U);
  EXPECT_EQ(brim::io::Pth(pth_path("pth_network")).names().front(), "conv.weight");
}

TEST(GoldenPth, ViewsShareTheirStorageAgain) {
  for (const char* file : {"pth_views", "pth_protocol1", "pth_protocol4"}) {
    const brim::io::TensorMap tensors = check_pth(file);
    for (const char* name : {"rows", "column", "turned", "every_second", "last", "frozen"})
      EXPECT_EQ(tensors.at(name).storage(), tensors.at("base").storage()) << name;
    EXPECT_NE(tensors.at("parameter").storage(), tensors.at("base").storage());
  }
}

TEST(GoldenPth, DTypesThatAreStoredOnly) {
  const brim::io::TensorMap tensors = check_pth("pth_stored");
  for (int i = 0; i < brim::kDTypeCount; ++i) {
    const auto dtype = static_cast<brim::DType>(i);
    if (brim::is_computed(dtype)) continue;
    const std::string name(brim::name(dtype));
    EXPECT_EQ(tensors.at(name + "_turned").storage(), tensors.at(name).storage()) << name;
  }
}

TEST(GoldenPth, StateDictAmongOtherThings) { check_pth("pth_training"); }

}  // namespace
}  // namespace golden
