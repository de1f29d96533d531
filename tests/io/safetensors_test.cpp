// safetensors: round trips, files as other tools write them, and damaged files.
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <cstring>
#include <filesystem>
#include <fstream>

#include <brim/io/safetensors.h>
#include <brim/ops/create.h>

#include "any_bits.h"
#include "core/check.h"
#include "io/file_error.h"
#include "message_of.h"
#include "temporary_folder.h"

namespace brim::io {
namespace {

namespace fs = std::filesystem;

class SafeTensorsTest : public ::testing::Test {
 protected:
  std::string path(const char* name) const { return folder / name; }
  tests::TemporaryFolder folder;
};

std::string file_of(std::string header, const std::string& data) {
  const uint64_t length = header.size();
  std::string bytes(8, '\0');
  std::memcpy(bytes.data(), &length, 8);
  return bytes + header + data;
}

SafeTensors parse(const std::string& bytes) {
  return SafeTensors({reinterpret_cast<const uint8_t*>(bytes.data()), bytes.size()}, "some.file");
}

std::string safetensors_error(const std::string& bytes) {
  return tests::file_error([&] {
    const SafeTensors file = parse(bytes);
    for (const std::string& name : file.names()) (void)file.load(name);
  });
}

std::string slurp(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

TEST_F(SafeTensorsTest, RoundTripOfEveryDType) {
  TensorMap tensors;
  for (int i = 0; i < kDTypeCount; ++i) {
    const DType t = static_cast<DType>(i);
    if (t != DType::c128) tensors["t" + std::string(name(t))] = tests::any_bits(t);
  }
  tensors["scalar"] = full({}, 2.5);
  tensors["empty"] = zeros({0, 4});
  tensors["vast"] = zeros({int64_t{1} << 62, 0});
  tensors["turned"] = Tensor::from<float>({1, 2, 3, 4, 5, 6}, {2, 3}).t();
  save_safetensors(path("a"), tensors, {{"who", "me\n\"quoted\""}});
  const SafeTensors file(path("a"));
  EXPECT_EQ(file.metadata().at("who"), "me\n\"quoted\"");
  const TensorMap back = file.load_all();
  ASSERT_EQ(back.size(), tensors.size());
  for (const auto& [name, x] : tensors) {
    EXPECT_EQ(back.at(name).shape(), x.shape()) << name;
    EXPECT_EQ(back.at(name).dtype(), x.dtype()) << name;
    EXPECT_EQ(file.info(name).offset % size_of(x.dtype()), 0U) << name;
    EXPECT_EQ(tests::bytes_of(back.at(name)), tests::bytes_of(x)) << name;
  }
  EXPECT_EQ(back.at("scalar").item(), 2.5);
  EXPECT_EQ(back.at("turned").to_vector<float>(), (std::vector<float>{1, 4, 2, 5, 3, 6}));
}

TEST_F(SafeTensorsTest, EqualInputGivesEqualBytes) {
  const TensorMap tensors = {{"b", ones({3})}, {"a", zeros({2}, {.dtype = i64})}};
  save_safetensors(path("a"), tensors, {{"k", "v"}});
  save_safetensors(path("b"), tensors, {{"k", "v"}});
  EXPECT_EQ(slurp(path("a")), slurp(path("b")));
  EXPECT_EQ(SafeTensors(path("a")).names(), (std::vector<std::string>{"a", "b"}));
}

TEST_F(SafeTensorsTest, HeaderIsCompactAndInOrder) {
  save_safetensors(path("a"), {{"b", ones({1, 2})}, {"a\"", zeros({}, {.dtype = i64})}},
                   {{"k", "v"}});
  const std::string header =
      R"({"__metadata__":{"k":"v"},"a\"":{"dtype":"I64","shape":[],"data_offsets":[0,8]},)"
      R"("b":{"dtype":"F32","shape":[1,2],"data_offsets":[8,16]}})";
  EXPECT_EQ(slurp(path("a")).substr(8, header.size()), header);
  save_safetensors(path("a"), {});
  EXPECT_EQ(slurp(path("a")).substr(8, 3), "{} ");
}

TEST_F(SafeTensorsTest, HoldsManyTensors) {  // a header written in quadratic time would take long
  TensorMap tensors;
  const Tensor x = ones({1});
  for (int i = 0; i < 50000; ++i) tensors.emplace("layers." + std::to_string(i) + ".weight", x);
  save_safetensors(path("a"), tensors);
  EXPECT_EQ(SafeTensors(path("a")).names().size(), tensors.size());
}

TEST_F(SafeTensorsTest, ReplacesTheOldFileOnlyWhenComplete) {
  save_safetensors(path("a"), {{"x", ones({3})}});
  EXPECT_THROW(save_safetensors(path("a"), {{"x", Tensor()}}), ValueError);
  EXPECT_THROW(save_safetensors(path("a"), {{"x", ones({1})}}, {{"bad", "\xff"}}), ValueError);
  EXPECT_NE(tests::message_of<ValueError>([&] {
              save_safetensors(path("a"), {{"x", tests::any_bits(DType::c128)}});
            }).find("tensor 'x' is c128, which the format has not got"),
            std::string::npos);
  EXPECT_EQ(load_safetensors(path("a")).at("x").numel(), 3);
  save_safetensors(path("a"), {{"x", ones({4})}});
  EXPECT_EQ(load_safetensors(path("a")).at("x").numel(), 4);
  EXPECT_EQ(std::distance(fs::directory_iterator(folder.path()), {}), 1);
}

TEST_F(SafeTensorsTest, PathsThatCannotBeUsed) {
  EXPECT_THROW(SafeTensors(path("missing")), FileError);
  EXPECT_THROW(SafeTensors{folder.path()}, FileError);
  EXPECT_THROW(save_safetensors(path("no/such/folder"), {{"x", ones({1})}}), FileError);
  EXPECT_THROW(save_safetensors(folder.path(), {{"x", ones({1})}}), FileError);
}

TEST_F(SafeTensorsTest, AnyOrderAndForeignTypesAreRead) {
  const std::string bytes = file_of(
      R"({"second":{"data_offsets":[4,8],"shape":[1],"dtype":"F32"},"__metadata__":{"format":"pt"},)"
      R"("odd":{"dtype":"F4","shape":[8],"data_offsets":[8,12]},)"
      R"("first":{"dtype":"I8","shape":[2,2],"data_offsets":[0,4]}}   )",
      std::string("\1\2\3\4\0\0\x80\x3f____", 12));
  const SafeTensors file = parse(bytes);  // which does not own them
  EXPECT_EQ(file.names(), (std::vector<std::string>{"first", "second", "odd"}));
  EXPECT_EQ(file.metadata().at("format"), "pt");
  EXPECT_EQ(file.load("second").item(), 1.0);
  EXPECT_EQ(file.load("first").to(i64).to_vector<int64_t>(), (std::vector<int64_t>{1, 2, 3, 4}));
  EXPECT_FALSE(file.info("odd").dtype);
  EXPECT_THROW((void)file.load("odd"), FileError);
  EXPECT_THROW((void)file.load("absent"), FileError);
}

TEST_F(SafeTensorsTest, NoTensorsAtAll) { EXPECT_TRUE(parse(file_of("{}", "")).names().empty()); }

TEST_F(SafeTensorsTest, DamagedFiles) {
  const std::string good = R"({"x":{"dtype":"F32","shape":[2],"data_offsets":[0,8]}})";
  const std::string data(8, '\0');
  EXPECT_EQ(safetensors_error(file_of(good, data)), "no error");

  const std::vector<std::pair<std::string, std::string>> cases = {
      {"", "0 bytes"},
      {"\x10", "1 bytes"},
      {std::string(8, '\xff'), "limit"},
      {file_of(good, data).substr(0, 20), "truncated"},
      {file_of(good, data.substr(1)), "truncated"},
      {file_of(good, data + "x"), "9 bytes follow"},
      {file_of("[]", ""), "begin with '{'"},
      {file_of("", ""), "begin with '{'"},
      {file_of("{\"x\":", ""), "not JSON"},
      {file_of("{} {}", ""), "not JSON"},
      {file_of(std::string("{}\0garbage", 10), ""), "not JSON at byte 10"},
      {file_of(std::string("{}\0", 3), ""), "not JSON"},
      {file_of("{\"\xff\":1}", ""), "not JSON"},
      {file_of(R"({"x":1})", ""), "a number"},
      {file_of(R"({"x":[]})", ""), "an array"},
      {file_of(R"({"x":{}})", ""), "incomplete"},
      {file_of(R"({"x":{"dtype":"F32","shape":[2]}})", data), "incomplete"},
      {file_of(R"({"x":{"dtype":"","shape":[2],"data_offsets":[0,32]}})", std::string(32, 'x')),
       "unknown dtype ''"},
      {file_of(R"({"x":{"dtype":"F99","shape":[2],"data_offsets":[0,8]}})", data), "F99"},
      {file_of(R"({"x":{"dtype":"F32","shape":[3],"data_offsets":[0,8]}})", data), "(3)"},
      {file_of(R"({"x":{"dtype":"F32","shape":[2],"data_offsets":[8,0]}})", data), "ends at 0"},
      {file_of(R"({"x":{"dtype":"U8","shape":[0,4611686018427387904,4],"data_offsets":[0,0]}})",
               ""),
       "holds 0 bytes"},
      {file_of(R"({"x":{"dtype":"F32","shape":[2],"data_offsets":[0,8,8]}})", data), "third"},
      {file_of(R"({"x":{"dtype":"F32","shape":[-2],"data_offsets":[0,8]}})", data), "negative"},
      {file_of(R"({"x":{"dtype":"F32","shape":[2.0],"data_offsets":[0,8]}})", data), "integer"},
      {file_of(R"({"x":{"dtype":"F32","shape":[[2]],"data_offsets":[0,8]}})", data), "array"},
      {file_of(R"({"x":{"dtype":"F32","shape":[2],"data_offsets":[0,8],"more":1}})", data), "more"},
      {file_of(R"({"x":{"dtype":"F32","shape":[2],"shape":[2],"data_offsets":[0,8]}})", data),
       "second field"},
      {file_of(R"({"x":{"dtype":"U8","shape":[4],"data_offsets":[4,8]}})", data), "begins at 4"},
      {file_of(R"({"x":{"dtype":"U8","shape":[8],"data_offsets":[0,8]},)"
               R"("y":{"dtype":"U8","shape":[4],"data_offsets":[4,8]}})",
               data),
       "begins at 4"},
      {file_of(R"({"x":{"dtype":"U8","shape":[8],"data_offsets":[0,8]},)"
               R"("x":{"dtype":"U8","shape":[8],"data_offsets":[0,8]}})",
               data),
       "twice"},
      {file_of(R"({"x":{"dtype":"U8","shape":[4294967296,4294967296,8],"data_offsets":[0,8]}})",
               data),
       "damaged"},
      {file_of(R"({"x":{"dtype":"U8","shape":[99999999999999999999],"data_offsets":[0,8]}})", data),
       "integer"},
      {file_of(R"({"x":{"dtype":"U8","shape":[1,1,1,1,1,1,1,1,8],"data_offsets":[0,8]}})", data),
       "axes"},
      {file_of(R"({"x":{"dtype":"BOOL","shape":[8],"data_offsets":[0,8]}})", "\2_______"), "BOOL"},
      {file_of(R"({"__metadata__":{"a":1}})", ""), "string"},
      {file_of(R"({"__metadata__":{"a":"b"},"__metadata__":{"a":"b"}})", ""), "twice"},
      {file_of(R"({"__metadata__":{"a":{}}})", ""), "an object"},
      {file_of("{\"x\":" + std::string(100000, '['), ""), "an array"},
  };
  for (const auto& [bytes, expected] : cases)
    EXPECT_NE(safetensors_error(bytes).find(expected), std::string::npos)
        << "expected '" << expected << "', got: " << safetensors_error(bytes);
}

TEST_F(SafeTensorsTest, ShardsAreReadAsOneFile) {
  save_safetensors(path("model-00001-of-00002.safetensors"),
                   {{"a", full({2}, 1)}, {"of nobody", full({1}, 9)}}, {{"made", "by a test"}});
  save_safetensors(path("model-00002-of-00002.safetensors"), {{"b", full({3}, 2)}});
  std::ofstream(path("model.safetensors.index.json"))
      << R"({"metadata": {"total_size": 20}, "weight_map": {
             "b": "model-00002-of-00002.safetensors", "a": "model-00001-of-00002.safetensors"}})";
  for (const char* name : {"model.safetensors", "model.safetensors.index.json"}) {
    const SafeTensors file(path(name));
    EXPECT_EQ(file.names(), (std::vector<std::string>{"a", "b"}));
    EXPECT_EQ(file.load("b").to_vector<float>(), (std::vector<float>{2, 2, 2}));
    EXPECT_EQ(file.info("a").shape, Shape({2}));
    EXPECT_FALSE(file.contains("of nobody"));
    EXPECT_EQ(file.metadata().at("made"), "by a test");
    EXPECT_EQ(file.load_all().size(), 2u);
  }
  save_safetensors(path("model.safetensors"), {{"c", full({1}, 3)}});  // a file goes first
  EXPECT_EQ(SafeTensors(path("model.safetensors")).names(), std::vector<std::string>{"c"});
}

TEST_F(SafeTensorsTest, DamagedIndices) {
  save_safetensors(path("one.safetensors"), {{"a", full({2}, 1)}});
  const auto error = [&](const std::string& text) {
    std::ofstream(path("m.safetensors.index.json"), std::ios::trunc) << text;
    return tests::message_of<FileError>([&] { SafeTensors file(path("m.safetensors")); });
  };
  for (const char* text : {"", "{"})
    EXPECT_NE(error(text).find("is no valid JSON"), std::string::npos) << text;
  for (const char* text : {"[]", "3", R"({"weight_map": 3})", R"({"weights": {}})"})
    EXPECT_NE(error(text).find("is no index of .safetensors files"), std::string::npos) << text;
  for (const char* name : {"", "..", "../one.safetensors", "/etc/passwd", ".hidden", "x/y"})
    EXPECT_NE(error(fmt::format(R"({{"weight_map": {{"a": "{}"}}}})", name))
                  .find("is no name of a file beside it"),
              std::string::npos)
        << name;
  EXPECT_NE(error(R"({"weight_map": {"a": 7}})").find("is no name of a file"), std::string::npos);
  EXPECT_NE(error(R"({"weight_map": {"b": "one.safetensors"}})")
                .find("tensor 'b' is not in one.safetensors"),
            std::string::npos);
  EXPECT_NE(error(R"({"weight_map": {"a": "two.safetensors"}})").find("two.safetensors"),
            std::string::npos);
  std::ofstream(path("m.safetensors.index.json"), std::ios::trunc) << R"({"weight_map": {}})";
  EXPECT_TRUE(SafeTensors(path("m.safetensors")).names().empty());
}

TEST_F(SafeTensorsTest, PipeIsRefusedAndNotWaitedFor) {
  ASSERT_EQ(mkfifo(path("pipe").c_str(), 0600), 0);
  EXPECT_THROW(SafeTensors(path("pipe")), FileError);
}

TEST_F(SafeTensorsTest, FileThatShrinksWhileOpen) {
  save_safetensors(path("a"), {{"x", ones({1000})}});
  const SafeTensors file(path("a"));
  fs::resize_file(path("a"), 200);
  EXPECT_THROW((void)file.load("x"), FileError);
}

}  // namespace
}  // namespace brim::io
