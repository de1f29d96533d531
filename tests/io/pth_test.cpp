// .pth files: round trips, and pickles and zips that no torch.save would write.
#include <gtest/gtest.h>

#include <cstring>
#include <filesystem>
#include <fstream>

#include <brim/io/pth.h>
#include <brim/ops/create.h>

#include "any_bits.h"
#include "core/check.h"
#include "io/atomic_file.h"
#include "io/file_error.h"
#include "io/zip_writer.h"
#include "temporary_folder.h"

namespace brim::io {
namespace {

namespace fs = std::filesystem;
using namespace std::string_literals;

// --- pickles, put together from opcodes

template <class T>
std::string raw(T value) {
  return {reinterpret_cast<const char*>(&value), sizeof value};
}
std::string text(const std::string& s) { return "X" + raw(static_cast<uint32_t>(s.size())) + s; }
std::string integer(int64_t value) { return "\x8a\x08" + raw(value); }
std::string integers(const std::vector<int64_t>& values) {
  std::string out = "(";
  for (const int64_t v : values) out += integer(v);
  return out + "t";
}
std::string storage(const std::string& type, const std::string& key, int64_t count) {
  return "(" + text("storage") + "ctorch\n" + type + "\n" + text(key) + text("cuda:0") +
         integer(count) + "tQ";
}
const std::string kOrdered = "ccollections\nOrderedDict\n)R";
const std::string kRebuild = "ctorch._utils\n_rebuild_tensor_v2\n";
std::string tensor(const std::string& of, int64_t offset, const std::vector<int64_t>& shape,
                   const std::vector<int64_t>& strides) {
  return kRebuild + "(" + of + integer(offset) + integers(shape) + integers(strides) + "\x89" +
         kOrdered + "tR";
}
/// A tensor of a dtype that has no storage class, over `bytes` bytes in data/0.
std::string bytes_tensor(int64_t bytes, const std::string& dtype, const std::vector<int64_t>& shape,
                         const std::string& type = "ctorch.storage\nUntypedStorage\n") {
  return "ctorch._utils\n_rebuild_tensor_v3\n((" + text("storage") + type + text("0") +
         text("cpu") + integer(bytes) + "tQ" + integer(0) + integers(shape) + integers({1}) +
         "\x89" + kOrdered + "ctorch\n" + dtype + "\ntR";
}
/// Eight floats in data/0.
std::string floats(int64_t offset, const std::vector<int64_t>& shape,
                   const std::vector<int64_t>& strides) {
  return tensor(storage("FloatStorage", "0", 8), offset, shape, strides);
}
std::string dict(const std::string& items) { return "\x80\x02}(" + items + "u."; }
const std::string kGood = floats(0, {8}, {1});

class PthTest : public ::testing::Test {
 protected:
  std::string path(const char* name) const { return folder / name; }

  using Entries = std::vector<std::pair<std::string, std::string>>;
  std::string zip(const Entries& entries, uint64_t zip64_from = 0xffffffff) const {
    AtomicFile file(path("zip"));
    ZipWriter writer(file, zip64_from);
    for (const auto& [name, bytes] : entries) writer.add(name, bytes);
    writer.finish();
    file.commit();
    std::ifstream in(path("zip"), std::ios::binary);
    return {std::istreambuf_iterator<char>(in), {}};
  }
  std::string with_pickle(const std::string& pickle) const {
    return zip({{"a/data.pkl", pickle}, {"a/data/0", std::string(32, '\0')}, {"a/version", "3\n"}});
  }

  tests::TemporaryFolder folder;
};

std::string pth_error(const std::string& bytes) {
  return tests::file_error([&] {
    const Pth file({reinterpret_cast<const uint8_t*>(bytes.data()), bytes.size()}, "some.file");
    for (const std::string& name : file.names()) (void)file.load(name).contiguous();
  });
}

void expect_error(const std::string& bytes, const std::string& expected) {
  const std::string error = pth_error(bytes);
  EXPECT_NE(error.find(expected), std::string::npos)
      << "expected '" << expected << "', got: " << error;
}

TEST_F(PthTest, EntriesHaveTheirCrc32) {
  const auto crc = [this](const std::string& bytes) {
    uint32_t value = 0;
    std::memcpy(&value, zip({{"a", bytes}}).data() + 14, sizeof value);  // of the local header
    return value;
  };
  EXPECT_EQ(crc(""), 0U);
  EXPECT_EQ(crc("123456789"), 0xCBF43926U);
  EXPECT_EQ(crc("The quick brown fox jumps over the lazy dog"), 0x414FA339U);
}

TEST_F(PthTest, RoundTripOfEveryDType) {
  TensorMap tensors;
  for (int i = 0; i < kDTypeCount; ++i) {
    const DType t = static_cast<DType>(i);
    tensors["t" + std::string(name(t))] = tests::any_bits(t);
    tensors["turned " + std::string(name(t))] = tests::any_bits(t).t();
  }
  tensors["scalar"] = full({}, 2.5);
  tensors["empty"] = zeros({0, 4});
  tensors["vast"] = zeros({int64_t{1} << 62, 0});
  save_pth(path("a.pth"), tensors);
  const Pth file(path("a.pth"));
  EXPECT_EQ(file.names().size(), tensors.size());
  const TensorMap back = load_pth(path("a.pth"));
  ASSERT_EQ(back.size(), tensors.size());
  for (const auto& [name, x] : tensors) {
    EXPECT_EQ(back.at(name).shape(), x.shape()) << name;
    EXPECT_EQ(back.at(name).dtype(), x.dtype()) << name;
    EXPECT_EQ(file.info(name).dtype, x.dtype()) << name;
    EXPECT_EQ(file.info(name).offset % 64, 0U) << name;
    EXPECT_EQ(tests::bytes_of(back.at(name)), tests::bytes_of(x)) << name;
    EXPECT_TRUE(back.at(name).is_contiguous()) << name;
  }
  EXPECT_THROW((void)file.load("absent"), FileError);
  EXPECT_THROW((void)file.info("absent"), FileError);
}

TEST_F(PthTest, WritingIsRepeatableAndAtomic) {
  const TensorMap tensors = {{"b", ones({3})}, {"a", zeros({2}, {.dtype = i64})}};
  save_pth(path("a"), tensors);
  save_pth(path("b"), tensors);
  std::ifstream a(path("a"), std::ios::binary), b(path("b"), std::ios::binary);
  EXPECT_EQ(std::string(std::istreambuf_iterator<char>(a), {}),
            std::string(std::istreambuf_iterator<char>(b), {}));
  EXPECT_THROW(save_pth(path("a"), {{"x", Tensor()}}), ValueError);
  EXPECT_THROW(save_pth(path("a"), {{"\xff", ones({1})}}), ValueError);
  EXPECT_THROW(save_pth(path("no/such/folder"), tensors), FileError);
  EXPECT_EQ(load_pth(path("a")).size(), 2U);
  EXPECT_EQ(std::distance(fs::directory_iterator(folder.path()), {}), 2);
  save_pth(path("none"), {});
  EXPECT_TRUE(load_pth(path("none")).empty());
}

TEST_F(PthTest, HandMadeFilesThatAreGood) {
  EXPECT_EQ(pth_error(with_pickle(dict(text("x") + kGood))), "no error");
  EXPECT_EQ(pth_error(with_pickle(dict(""))), "no error");
  // Newer records, and an integer of a protocol's other sizes.
  EXPECT_EQ(pth_error(zip({{"a/data.pkl", dict(text("x") + kGood)},
                           {"a/.format_version", "7"},
                           {"a/byteorder", "little"},
                           {"a/data/0", std::string(32, 'x')}})),
            "no error");
  EXPECT_EQ(pth_error(with_pickle(dict(text("x") + floats(6, {2, 1}, {1, 900}) + text("y") +
                                       floats(0, {0, 5}, {7, 7})))),
            "no error");
  // zip64 records where small values would have done.
  EXPECT_EQ(pth_error(zip(
                {{"a/data.pkl", dict(text("x") + kGood)}, {"a/data/0", std::string(32, 'x')}}, 1)),
            "no error");
}

// torch.save("epoch:3.pth") names the archive's folder "epoch:3", torch.save("...pth") "..".
TEST_F(PthTest, TheFolderHasTheNameOfTheFile) {
  for (const std::string name : {"epoch:3", "2026-01-01T10:20:30", "..", ".", "a b"})
    EXPECT_EQ(pth_error(zip({{name + "/data.pkl", dict(text("x") + kGood)},
                             {name + "/data/0", std::string(32, '\0')},
                             {name + "/.data/serialization_id", "7"}})),
              "no error")
        << name;
}

// As torch.save(..., pickle_protocol=1) writes it: no PROTO, bools and wide integers in decimal.
TEST_F(PthTest, ProtocolOne) {
  const std::string storage =
      "(" + text("storage") + "ctorch\nFloatStorage\n" + text("0") + text("cpu") + "L8L\ntQ";
  const std::string tensor = kRebuild + "(" + storage + "I2\n(K\x03t(L1L\ntI00\n" + kOrdered + "tR";
  const std::string state = kOrdered + "q\1(" + text("x") + tensor + "u.";
  const std::string bytes = with_pickle(state);
  EXPECT_EQ(pth_error(bytes), "no error");
  const Pth file({reinterpret_cast<const uint8_t*>(bytes.data()), bytes.size()}, "some.file");
  EXPECT_EQ(file.info("x").shape, Shape({3}));

  for (const char* integer : {"I\n", "I8L\n", "Ix\n", "L9223372036854775808L\n", "I-\n", "I 1\n"})
    expect_error(with_pickle(integer + std::string(".")), "an integer that is none");
  expect_error(with_pickle("I8"), "cut off");
  // Protocol 0: torch.load's own storages are broken there.
  for (const std::string pickle : {"ccollections\nOrderedDict\np0\n(tRp1\n.", "(dp0\nVx\np1\n.",
                                   "(lp0\n.", "(P('storage', 8)\n."})
    expect_error(with_pickle(pickle), "pickle protocol 0");
  expect_error(with_pickle("\x80\x02(dp0\n."), "0x64");
}

TEST_F(PthTest, HostilePickles) {
  const std::string x = text("x");
  std::string deep = "\x80\x02";
  for (int i = 0; i < 100000; ++i) deep += "](";
  const std::vector<std::pair<std::string, std::string>> cases = {
      // Code.
      {"\x80\x02"
       "cos\nsystem\n(" +
           text("true") + "tR.",
       "'os.system'"},
      {"\x80\x02"
       "cposix\nsystem\n(" +
           text("true") + "tR.",
       "'posix.system'"},
      {"\x80\x04\x8c\x02os\x8c\x06system\x93(" + text("true") + "tR.", "'os.system'"},
      {"\x80\x02"
       "cbuiltins\neval\n.",
       "'builtins.eval'"},
      {"\x80\x02"
       "ctorch._utils\n_rebuild_qtensor\n.",
       "_rebuild_qtensor"},
      {"\x80\x02"
       "ctorch\nload\n.",
       "'torch.load'"},
      {"\x80\x02"
       "ctorch\nFloatStorage\n(tR.",
       "a call of a class"},
      {"\x80\x02" + text("os.system") + ")R.", "a call of a string"},
      {dict(x + kGood + ")R"), "a call of a tensor"},
      {"\x80\x02" + kOrdered +
           "N"
           "b.",
       "state of its own"},
      {dict(x + kGood + "}b"), "state of its own"},
      {"\x80\x02"
       "ccollections\nOrderedDict\n]\x85R.",
       "made from something"},
      {"\x80\x02(ios\nsystem\n.", "0x69"},
      {"\x80\x02(cos\nsystem\no.", "'os.system'"},
      {"\x80\x02\x82\x01.", "0x82"},
      {"\x80\x02)\x81.", "0x81"},
      {dict(x + kGood.substr(0, kGood.size() - 2) + "}" + text("neg") + "\x88s" + "tR"),
       "resolve_neg"},
      // Damage.
      {"", "cut off"},
      {"\x80", "cut off"},
      {"\x80\x09.", "protocol 9"},
      {"\x80\x02}", "cut off"},
      {"\x80\x02"
       "c" +
           std::string(50, 'x'),
       "cut off"},
      {"\x80\x02.", "stack empty"},
      {"\x80\x02u.", "no mark"},
      {"\x80\x02(u.", "stack empty"},
      {"\x80\x02}(}u.", "no dict"},
      {"\x80\x02}(N}u.", "no dict of tensors, but None"},
      {"\x80\x02K\x01s.", "too few"},
      {"\x80\x02}K\x01K\x02(s.", "too few"},
      {"\x80\x02K\x01(\x85.", "too few"},
      {"\x80\x02q\x01.", "stack empty"},
      {"\x80\x02h\x05.", "missing entry 5"},
      {"\x80\x02j\xff\xff\xff\xff.", "missing entry 4294967295"},
      {"\x80\x02X\xff\xff\xff\xff"
       "abc.",
       "cut off"},
      {"\x80\x04\x8d" + raw(uint64_t{1} << 62) + "abc.", "cut off"},
      {"\x80\x02\x8a\x09"
       "123456789.",
       "64 bits"},
      {"\x80\x02" + text("hello") + "Q.", "no storage"},
      {"\x80\x02(" + text("module") + "tQ.", "no storage"},
      {"\x80\x02" + storage("FloatStorage", "0", -1) + ".", "no storage"},
      {"\x80\x02" + kRebuild + "(tR.", "with other than"},
      {"\x80\x02"
       "ctorch._utils\n_rebuild_parameter\n(}\x89}tR.",
       "parameter of something else"},
      {"\x80\x02]q\x01h\x01"
       "a.",
       "a list instead of a dict"},
      {"\x80\x02}q\x01" + x + "h\x01s.", "no dict of tensors, but 'x'"},
      {deep, "cut off"},
      // State dicts.
      {"\x80\x02N.", "None instead of a dict"},
      {"\x80\x02" + kGood + ".", "a tensor instead of a dict"},
      {dict(x + kGood + x + kGood), "'x' appears twice"},
      {dict(x + kGood + text("epoch") + "K\x03"), "'epoch' is an int"},
      {dict("K\x03" + kGood), "an int is a key"},
      {dict(text("epoch") + "K\x03" + text("lr") + "G12345678"), "'epoch', 'lr'"},
      {dict(text("a") + "}" + x + kGood + "s" + text("b") + "}" + x + kGood + "s"), "'a' and 'b'"},
      // Sizes.
      {dict(x + floats(0, {9}, {1})), "leaves its storage of 8"},
      {dict(x + floats(1, {8}, {1})), "leaves its storage"},
      {dict(x + floats(0, {2, 4}, {5, 1})), "leaves its storage"},
      {dict(x + floats(-1, {2}, {1})), "impossible strides"},
      {dict(x + floats(0, {2}, {-1})), "no natural number"},
      {dict(x + floats(0, {-2}, {1})), "no natural number"},
      {dict(x + floats(0, {2}, {})), "impossible strides"},
      {dict(x + floats(0, {8, 8}, {1, 0})), "expanded"},
      {dict(x + floats(0, {int64_t{1} << 40}, {0})), "expanded"},
      {dict(x + floats(0, {int64_t{1} << 40, int64_t{1} << 40}, {0, 0})), "leaves its storage"},
      {dict(x + floats(0, {0, int64_t{1} << 40, int64_t{1} << 40}, {0, 0, 0})),
       "leaves its storage"},
      {dict(x + floats(INT64_MAX, {2}, {INT64_MAX})), "leaves its storage"},
      {dict(x + floats(0, {1, 1, 1, 1, 1, 1, 1, 1, 8}, {8, 8, 8, 8, 8, 8, 8, 8, 1})), "axes"},
      {dict(x + tensor(storage("FloatStorage", "7", 8), 0, {8}, {1})), "no entry data/7"},
      {dict(x + tensor(storage("FloatStorage", std::string(256, '0'), 8), 0, {8}, {1})),
       "key of 256 bytes"},
      {dict(x + tensor(storage("FloatStorage", "../0", 8), 0, {8}, {1})), "no entry data/../0"},
      {dict(x + tensor(storage("FloatStorage", "0", 50'000'000'000), 0, {50'000'000'000}, {1})),
       "50000000000 elements of 4 bytes but holds 32"},
      {dict(x + tensor(storage("DoubleStorage", "0", INT64_MAX), 0, {2}, {1})), "but holds 32"},
      {dict(x + tensor(storage("ComplexDoubleStorage", "0", int64_t{1} << 60), 0, {2}, {1})),
       "elements of 16 bytes but holds 32"},
      {dict(x + tensor(storage("ByteStorage", "0", 31), 0, {2}, {1})), "but holds 32"},
      {dict(x + kGood + text("y") + tensor(storage("IntStorage", "0", 8), 0, {8}, {1})),
       "second type"},
      {dict(x + bytes_tensor(32, "float4_e2m1fn_x2", {32})), "float4_e2m1fn_x2, which brim"},
      // Storages of bytes, whose tensors have a dtype each.
      {dict(x + bytes_tensor(32, "uint32", {9})), "leaves its storage of 8"},
      {dict(x + bytes_tensor(32, "uint8", {8})), "'torch.uint8'"},
      {dict(x + tensor("(" + text("storage") + "ctorch.storage\nUntypedStorage\n" + text("0") +
                           text("cpu") + integer(32) + "tQ",
                       0, {8}, {1})),
       "other than a storage"},
      {dict(x + bytes_tensor(16, "uint16", {8}, "ctorch\nShortStorage\n")), "other than a storage"},
      {dict(x + kGood + text("y") + bytes_tensor(32, "uint16", {8})), "second type"},
  };
  for (const auto& [pickle, expected] : cases) expect_error(with_pickle(pickle), expected);
  expect_error(zip({{"a/data.pkl", dict(x + tensor(storage("BoolStorage", "0", 4), 0, {4}, {1}))},
                    {"a/data/0", "\0\1\2\0"s}}),
               "other than 0 and 1");
}

TEST_F(PthTest, StoragesOfBytes) {
  // PyTorch gives a float8 tensor and its view(torch.uint8) one storage, of two names.
  const std::string shared =
      zip({{"a/data.pkl", dict(text("x") + bytes_tensor(5, "float8_e5m2", {4}) + text("y") +
                               tensor(storage("ByteStorage", "0", 5), 1, {4}, {1}) + text("z") +
                               bytes_tensor(5, "uint16", {2}) + text("w") +
                               tensor(storage("ShortStorage", "1", 1), 0, {1}, {1}))},
           {"a/data/0", "\1\2\3\4\5"},
           {"a/data/1", "\1\2\3"}});
  const Pth file(std::span(reinterpret_cast<const uint8_t*>(shared.data()), shared.size()), "it");
  const TensorMap tensors = file.load_all();
  EXPECT_EQ(tensors.at("x").dtype(), DType::f8_e5m2);
  EXPECT_EQ(tests::bytes_of(tensors.at("x")), (std::vector<uint8_t>{1, 2, 3, 4}));
  EXPECT_EQ(tensors.at("y").to_vector<uint8_t>(), (std::vector<uint8_t>{2, 3, 4, 5}));
  EXPECT_EQ(tensors.at("z").to_vector<uint16_t>(), (std::vector<uint16_t>{0x201, 0x403}));
  EXPECT_EQ(file.load("z").to_vector<uint16_t>()[1], 0x403);
  EXPECT_EQ(tensors.at("w").to_vector<int16_t>()[0], 0x201);
}

TEST_F(PthTest, HostileZips) {
  const std::string pickle = dict(text("x") + kGood), data(32, 'x');
  const std::string good = zip({{"a/data.pkl", pickle}, {"a/data/0", data}});
  ASSERT_EQ(pth_error(good), "no error");
  for (size_t n = 0; n < good.size(); n += 7)
    EXPECT_NE(pth_error(good.substr(0, n)), "no error") << n;
  expect_error("", "0 bytes");
  expect_error("hello, world", "no zip file");
  expect_error("\x80\x02\x8a\x0al\xfc\x9c\x46\xf9\x20\x6a\xa8\x50\x19.", "PyTorch 1.6 or newer");
  expect_error(good.substr(0, good.size() - 1), "not at the end");
  expect_error(good + "x", "not at the end");

  // One field of the good file changed. `from` counts from the directory's entry of data.pkl.
  const size_t directory = good.find("PK\1\2"), end = good.size() - 22;
  const auto changed = [&](size_t at, const auto& value) {
    std::string bytes = good;
    std::memcpy(bytes.data() + at, &value, sizeof value);
    return bytes;
  };
  const size_t second = good.find("PK\1\2", directory + 1);
  expect_error(changed(directory + 8, uint16_t{1}), "encrypted");
  expect_error(changed(directory + 10, uint16_t{8}), "compressed");
  expect_error(changed(second + 10, uint16_t{8}), "compressed");
  expect_error(changed(directory + 20, uint32_t{5}), "two sizes");
  expect_error(changed(directory + 28, uint16_t{0xffff}), "cut off");
  expect_error(changed(directory + 46, '/'), "outside the archive");
  expect_error(changed(directory + 42, uint32_t{1}), "no header");
  expect_error(changed(directory + 42, uint32_t{0xfffffff0}), "no header");
  expect_error(changed(directory + 42, uint32_t{0xffffffff}), "zip64 sizes");
  expect_error(changed(second + 42, uint32_t{0}), "inside the one before it");
  expect_error(changed(directory + 16, uint32_t{1}), "checksum");
  expect_error(changed(good.find(data), 'y'), "checksum");
  EXPECT_EQ(pth_error(changed(second + 16, uint32_t{0})), "no error") << "no checksum is given";
  expect_error(changed(end + 10, uint16_t{1}), "follow the 1 entries");
  expect_error(changed(end + 10, uint16_t{3}), "does not fit");
  expect_error(changed(end + 10, uint16_t{0xfffe}), "does not fit");
  expect_error(changed(end + 10, uint16_t{0xffff}), "zip64 record");
  expect_error(changed(end + 16, uint32_t{0xfffffff0}), "does not fit");
  std::string huge = changed(second + 20, uint32_t{0xfffffff0});
  std::memcpy(huge.data() + second + 24, huge.data() + second + 20, 4);
  expect_error(huge, "declares 4294967280 bytes");
  const std::string wide = zip({{"a/data.pkl", pickle}, {"a/data/0", data}}, 1);
  std::string terabytes = wide;
  const size_t record = terabytes.find("a/data/0", wide.find("PK\1\2")) + 8 + 4;
  for (const size_t i : {size_t{0}, size_t{8}}) {
    const uint64_t size = uint64_t{200} << 40;
    std::memcpy(terabytes.data() + record + i, &size, 8);
  }
  expect_error(terabytes, "declares 219902325555200 bytes");

  for (const char* name : {"a/../../x", "a/..", "/x", "a\\x"})
    expect_error(zip({{"a/data.pkl", pickle}, {name, "x"}}), "outside the archive");
  expect_error(zip({{"a/data.pkl", pickle}, {"a/data.pkl", pickle}}), "appears twice");
  expect_error(zip({{"a/data.pkl", pickle}, {"b/data.pkl", pickle}}), "both there");
  expect_error(zip({{"data.pkl", pickle}}), "without FOLDER/data.pkl");
  expect_error(zip({{"a/data.pkl", pickle}, {"a/constants.pkl", ""}}), "TorchScript");
  expect_error(zip({{"a/data.pkl", pickle}, {"a/byteorder", "big"}}), "little-endian");
  expect_error(zip({{"a/data.pkl", pickle}, {"a/byteorder", std::string(99, 'x')}}), "limit");
  expect_error(zip({{"a/data.pkl", std::string((16 << 20) + 1, 'N')}}), "limit");
}

// A key of a MiB, remembered once and looked up for each of 20,000 tensors.
TEST_F(PthTest, LongKeysAreRefused) {  // each use would copy and hash them
  std::string pickle = "\x80\x02" + text(std::string(1 << 20, '7')) + "q\1";
  for (int i = 0; i < 20000; ++i)
    pickle += "(" + text("storage") + "ctorch\nFloatStorage\nh\1" + text("cpu") + "K\x08tQ";
  expect_error(with_pickle(pickle + "."), "a storage's key of 1048576 bytes");
}

/// Peak resident memory in bytes since the last reset_peak().
int64_t peak_memory() {
  std::ifstream in("/proc/self/status");
  for (std::string line; std::getline(in, line);)
    if (line.starts_with("VmHWM:")) return 1024 * std::stoll(line.substr(6));
  return 0;
}
void reset_peak() { std::ofstream("/proc/self/clear_refs") << "5"; }

TEST_F(PthTest, DeclaredSizesTakeNoMemory) {
  const char* root = std::getenv("BRIM_SOURCE_DIR");
  const std::string corpus = std::string(root ? root : ".") + "/tests/fuzz/corpus/pth/";
  for (const char* name : {"huge", "terabytes", "claim", "bomb", "laughs"}) {
    reset_peak();
    const int64_t before = peak_memory();
    EXPECT_THROW((void)load_pth(corpus + name + ".pth"), FileError) << name;
    EXPECT_LT(peak_memory() - before, 10 << 20) << name;
  }
}

TEST_F(PthTest, PathsThatCannotBeUsed) {
  EXPECT_THROW(Pth(path("missing")), FileError);
  EXPECT_THROW(Pth{folder.path()}, FileError);
}

}  // namespace
}  // namespace brim::io
