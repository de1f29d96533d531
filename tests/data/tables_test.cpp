// Tables, arrays and tokens in files: right values, and clear errors for what is wrong in them.
#include <brim/core/error.h>
#include <brim/data/loader.h>
#include <brim/data/tables.h>
#include <gtest/gtest.h>

#include "data/scratch.h"
#include "io/zip_writer.h"
#include "temporary_folder.h"

namespace brim::data {
namespace {

using tests::has;
using tests::message_of;
using tests::TemporaryFolder;
using tests::write_bytes;

class Files : public ::testing::Test {
 protected:
  std::string write(const std::string& name, const std::string& text) {
    const std::string path = folder_ / name;
    write_bytes(path, {text.begin(), text.end()});
    return path;
  }
  std::string csv(const std::string& text) { return write("t.csv", text); }

  TemporaryFolder folder_;
};

/// All rows, in order, as one batch; what cannot be read is left out.
Batch all_of(const DatasetPtr& data) {
  const Loader loader(
      data, {.batch = data->size(), .workers = 0, .shuffle = false, .on_error = OnError::skip});
  Epoch epoch = loader.epoch(0);
  return *epoch.next();
}

using Floats = std::vector<float>;
using Longs = std::vector<int64_t>;

TEST_F(Files, ColumnsAndClassesOfACsv) {
  const auto table = open_csv(csv("a,b,kind\n1,2,cat\n-3.5,4e2,ant\n\n5,6,cat\r\n"));
  EXPECT_EQ(table->size(), 3);
  EXPECT_EQ(table->columns(), (std::vector<std::string>{"a", "b"}));
  EXPECT_EQ(table->classes(), (std::vector<std::string>{"ant", "cat"}));
  const Batch b = all_of(table);
  EXPECT_EQ(b.x.shape(), (Shape{3, 2}));
  EXPECT_EQ(b.x.to_vector<float>(), (Floats{1, 2, -3.5, 400, 5, 6}));
  EXPECT_EQ(b.y.to_vector<int64_t>(), (Longs{1, 0, 1}));
  EXPECT_TRUE(has(table->describe(2), "t.csv: line 5"));
}

TEST_F(Files, TargetsOfACsv) {
  const std::string path = csv("a,b,c\n1,0,10\n2,1,9\n3,2,2\n");
  EXPECT_EQ(all_of(open_csv(path, {.targets = {"b"}})).y.to_vector<int64_t>(), (Longs{0, 1, 2}));
  EXPECT_EQ(all_of(open_csv(path)).y.to_vector<float>(), (Floats{10, 9, 2}));  // not 0 to n - 1
  EXPECT_EQ(all_of(open_csv(path, {.target = Target::classes})).y.to_vector<int64_t>(),
            (Longs{2, 1, 0}));  // in the order of numbers
  EXPECT_EQ(open_csv(path, {.target = Target::classes})->classes(),
            (std::vector<std::string>{"2", "9", "10"}));
  const Batch two = all_of(open_csv(path, {.columns = {"b"}, .targets = {"c", "a"}}));
  EXPECT_EQ(two.y.to_vector<float>(), (Floats{10, 1, 9, 2, 2, 3}));
  EXPECT_EQ(two.x.shape(), (Shape{3, 1}));
  EXPECT_FALSE(all_of(open_csv(path, {.has_target = false})).y.defined());
  const Batch numbers = all_of(open_csv(path, {.targets = {"b"}, .target = Target::numbers}));
  EXPECT_EQ(numbers.y.dtype(), f32);
  EXPECT_EQ(all_of(open_csv(csv("1;2\n3;4"), {.delimiter = ';', .header = false})).x.shape(),
            (Shape{2, 1}));
}

TEST_F(Files, QuotesInACsv) {
  const auto table =
      open_csv(csv("\xef\xbb\xbf\"a, b\",y\n\"1\",\"say \"\"x\"\"\"\n2,\"two\nlines\"\n3,z\n"));
  EXPECT_EQ(table->columns(), (std::vector<std::string>{"a, b"}));
  EXPECT_EQ(table->classes(), (std::vector<std::string>{"say \"x\"", "two\nlines", "z"}));
  EXPECT_TRUE(has(table->describe(2), "line 5"));
}

TEST_F(Files, BadLinesOfACsvAreSamplesThatCannotBeRead) {
  const auto table =
      open_csv(csv("a,b,y\n1,2,0\n1,,0\n1,x,1\n1,nan,1\n1,2\n1,2,\n7,8,1\n1e999,2,0\n"));
  EXPECT_EQ(table->size(), 8);
  const Batch b = all_of(table);
  EXPECT_EQ(b.x.to_vector<float>(), (Floats{1, 2, 7, 8}));
  EXPECT_EQ(b.y.to_vector<int64_t>(), (Longs{0, 1}));
  Sample sample;
  const auto says = [&](int64_t i) { return message_of([&] { table->get(i, sample); }); };
  EXPECT_TRUE(has(says(1), "t.csv: line 3: column 'b' is empty"));
  EXPECT_TRUE(has(says(2), "line 4: column 'b': 'x' is no finite number"));
  EXPECT_TRUE(has(says(3), "'nan' is no finite number"));
  EXPECT_TRUE(has(says(4), "2 fields instead of 3"));
  EXPECT_TRUE(has(says(5), "column 'y' is empty"));
  EXPECT_TRUE(has(says(7), "'1e999' is no finite number"));
}

TEST_F(Files, AWordAmongNumbersIsDamage) {
  const auto table = open_csv(csv("x,price\n1,10.5\n2,?\n3,11.25\n4,1e39\n"));
  EXPECT_EQ(all_of(table).y.to_vector<float>(), (Floats{10.5, 11.25}));
  Sample sample;
  EXPECT_TRUE(has(message_of([&] { table->get(1, sample); }),
                  "line 3: column 'price': '?' is no finite number"));
  EXPECT_EQ(open_csv(csv("x,y\n1,7\n2,?\n"), {.target = Target::classes})->classes(),
            (std::vector<std::string>{"7", "?"}));
}

TEST_F(Files, ACsvThatIsNoTable) {
  const auto says = [&](const std::string& text, const CsvOptions& options = {}) {
    return message_of<FileError>([&] { (void)open_csv(csv(text), options); });
  };
  EXPECT_TRUE(has(says(""), "no lines"));
  EXPECT_TRUE(has(says("a,b\n"), "no lines behind the names"));
  EXPECT_TRUE(has(says("a,b\n1,2\n", {.targets = {"c"}}), "no column 'c'; there are a, b"));
  EXPECT_TRUE(has(says("a,a,b\n1,2,3\n", {.targets = {"a"}}), "two columns are called 'a'"));
  EXPECT_TRUE(has(says("a;b\n1;2\n"), "is the delimiter ',' right?"));
  EXPECT_TRUE(has(says("a,b\n\"1,2\n"), "line 2: a quote that never ends"));
  EXPECT_TRUE(has(says("a,b\n\"1\"2,2\n"), "line 2: text behind a field in quotes"));
  EXPECT_TRUE(has(says("a,b\nx,1\ny,2\n"), "no other line is good"));
  EXPECT_THROW(open_csv(folder_ / "none.csv"), FileError);
  EXPECT_THROW(open_csv(csv("a,b\n1,2\n"), {.delimiter = '"'}), ValueError);
  EXPECT_THROW(open_csv(csv("a,b\n1,2\n"), {.targets = {"b"}, .has_target = false}), ValueError);
  const CsvOptions classes_of_nothing{.has_target = false, .target = Target::classes};
  EXPECT_THROW(open_csv(csv("a,b\n1,2\n"), classes_of_nothing), ValueError);
}

std::string npy(const std::string& descr, const std::string& shape, const std::string& data,
                const std::string& order = "False") {
  std::string header =
      "{'descr': '" + descr + "', 'fortran_order': " + order + ", 'shape': " + shape + ", }";
  header.resize((header.size() + 10 + 64) / 64 * 64 - 10 - 1, ' ');
  header += '\n';
  std::string file = "\x93NUMPY";
  file += '\x01';
  file += '\x00';
  file += static_cast<char>(header.size() % 256);
  file += static_cast<char>(header.size() / 256);
  return file + header + data;
}

template <class T>
std::string raw(const std::vector<T>& values) {
  return {reinterpret_cast<const char*>(values.data()), values.size() * sizeof(T)};
}

TEST_F(Files, ArraysOfNumPy) {
  const auto rows = open_npy(write("x.npy", npy("<f4", "(2, 3)", raw<float>({1, 2, 3, 4, 5, 6}))));
  const Batch b = all_of(rows);
  EXPECT_EQ(b.x.shape(), (Shape{2, 3}));
  EXPECT_EQ(b.x.to_vector<float>(), (Floats{1, 2, 3, 4, 5, 6}));
  EXPECT_TRUE(has(rows->describe(1), "x.npy: row 1"));
  const Batch numbers =
      all_of(open_npy(write("n.npy", npy("<i8", "(3,)", raw<int64_t>({7, 8, 9})))));
  EXPECT_EQ(numbers.x.to_vector<int64_t>(), (Longs{7, 8, 9}));
}

TEST_F(Files, ArraysOfNumPyTogether) {
  const auto zip = [&](const std::vector<std::pair<std::string, std::string>>& entries) {
    const std::string path = folder_ / "a.npz";
    io::AtomicFile file(path);
    io::ZipWriter writer(file);
    for (const auto& [name, text] : entries) writer.add(name, text);
    writer.finish();
    file.commit();
    return path;
  };
  const std::string x = npy("<f8", "(2, 1)", raw<double>({0.5, 1.5}));
  const std::string y = npy("|u1", "(2,)", "\x03\x04");
  const Batch b = all_of(open_npz(zip({{"x.npy", x}, {"y.npy", y}})));
  EXPECT_EQ(b.x.to_vector<double>(), (std::vector<double>{0.5, 1.5}));
  EXPECT_EQ(b.y.to_vector<uint8_t>(), (std::vector<uint8_t>{3, 4}));
  const auto says = [&](const auto& entries) {
    return message_of<FileError>([&] { (void)open_npz(zip(entries)); });
  };
  using Entries = std::vector<std::pair<std::string, std::string>>;
  EXPECT_TRUE(has(says(Entries{{"x.npy", x}, {"y.npy", npy("|u1", "(3,)", "abc")}}), "3 rows"));
  EXPECT_TRUE(has(says(Entries{{"x.txt", "a"}}), "expected arrays"));
  EXPECT_TRUE(has(says(Entries{}), "no arrays"));
}

TEST_F(Files, DamagedArraysOfNumPy) {
  const auto says = [&](const std::string& bytes) {
    return message_of<FileError>([&] { (void)open_npy(write("x.npy", bytes)); });
  };
  EXPECT_TRUE(has(says("hello, world"), "no array of NumPy's format"));
  EXPECT_TRUE(has(says(npy("<f4", "(2, 3)", "1234")), "4 bytes of data for f32 (2, 3)"));
  EXPECT_TRUE(has(says(npy("<f4", "(9223372036854775807, 9)", "")), "0 bytes of data"));
  EXPECT_TRUE(has(says(npy("<f4", "(0, 3)", "")), "a row for each sample"));
  EXPECT_TRUE(has(says(npy("<f4", "(1, 0, 4611686018427387904, 4611686018427387904)", "")),
                  "0 bytes of data"));
  EXPECT_TRUE(has(says(npy("<f4", "()", "1234")), "a row for each sample"));
  EXPECT_TRUE(has(says(npy(">f4", "(1,)", "1234")), "elements of '>f4'"));
  EXPECT_TRUE(has(says(npy("|O", "(1,)", "1234")), "elements of '|O'"));
  EXPECT_TRUE(has(says(npy("<f4", "(1,)", "1234", "True")), "Fortran order"));
  EXPECT_TRUE(has(says(npy("<f4", "(-1,)", "1234")), "a shape of (-1,)"));
  EXPECT_TRUE(has(says(npy("<f4", "(1, 1, 1, 1, 1, 1, 1, 1, 1)", "1234")), "a shape of"));
  EXPECT_TRUE(has(says(npy("<f4", "", "1234")), "a shape of ''"));
  EXPECT_TRUE(has(says(npy("<f4", "7", "1234")), "a shape of '7'"));
  const std::string whole = npy("<f4", "(1,)", "1234");
  for (size_t size = 0; size < whole.size(); ++size)
    EXPECT_NE(says(whole.substr(0, size)), "no error") << size;
}

TEST_F(Files, WindowsOfTokens) {
  const std::string path = write("t.bin", raw<uint16_t>({0, 1, 2, 3, 4, 5, 6, 7}));
  const DatasetPtr data = open_tokens(path, {.window = 3, .dtype = DType::u16});
  EXPECT_EQ(data->size(), 2);
  const Batch b = all_of(data);
  EXPECT_EQ(b.x.to_vector<int64_t>(), (Longs{0, 1, 2, 3, 4, 5}));
  EXPECT_EQ(b.y.to_vector<int64_t>(), (Longs{1, 2, 3, 4, 5, 6}));
  EXPECT_EQ(open_tokens(path, {.window = 3, .stride = 1, .dtype = DType::u16})->size(), 5);
  EXPECT_EQ(open_tokens(path, {.window = 7, .dtype = DType::u16})->size(), 1);
  const Batch text = all_of(open_tokens(write("t.txt", "abcde"), {.window = 2}));
  EXPECT_EQ(text.x.to_vector<int64_t>(), (Longs{'a', 'b', 'c', 'd'}));
  EXPECT_EQ(text.y.to_vector<int64_t>(), (Longs{'b', 'c', 'd', 'e'}));
}

TEST_F(Files, TokensThatAreNone) {
  const std::string path = write("t.bin", raw<int32_t>({0, 1, -2, 3, 4}));
  const auto says = [&](const TokenOptions& options) {
    return message_of([&] {
      const DatasetPtr data = open_tokens(path, options);
      Sample sample;
      for (int64_t i = 0; i < data->size(); ++i) data->get(i, sample);
    });
  };
  EXPECT_TRUE(has(says({.window = 5, .dtype = DType::i32}), "5 tokens, and a window of 5"));
  EXPECT_TRUE(has(says({.window = 1, .dtype = DType::i32, .vocabulary = 5}), "a token is -2"));
  EXPECT_TRUE(has(says({.window = 3, .dtype = DType::u8, .vocabulary = 3}), "a token is"));
  EXPECT_TRUE(has(says({.window = 0}), "windows of 0 tokens"));
  EXPECT_TRUE(has(says({.dtype = DType::f32}), "tokens of f32"));
  EXPECT_TRUE(has(message_of([&] {
                    (void)open_tokens(write("odd.bin", "abc"), {.window = 1, .dtype = DType::u16});
                  }),
                  "no whole number of u16"));
  EXPECT_THROW(open_tokens(write("empty.bin", "")), FileError);
}

}  // namespace
}  // namespace brim::data
