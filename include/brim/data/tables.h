// Tables and tokens in files, as data sets.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include <brim/core/dtype.h>
#include <brim/data/dataset.h>

namespace brim::data {

/// What the numbers of CsvOptions::targets are.
enum class Target : uint8_t {
  automatic,  ///< classes for a single column of words, or of 0 to n - 1; else numbers, among which
              ///< a word is damage
  numbers,    ///< f32: (), or (T) for several columns
  classes,    ///< i64: a number for each different text, in the order of numbers or letters
};

/// Options of open_csv().
struct CsvOptions {
  std::vector<std::string> columns =
      {};  ///< those of "x", in this order; empty: all but the targets
  std::vector<std::string> targets = {};  ///< those of "y"; empty: the last column
  bool has_target = true;                 ///< false: there is no "y"
  Target target = Target::automatic;      ///< what "y" holds
  /// Of the target, where they are known already, as from another table; a text that is none of
  /// them is an error. Needs Target::classes.
  std::vector<std::string> classes = {};
  char delimiter = ',';  ///< between columns
  bool header = true;    ///< the first line names the columns; else they are "0", "1", ...
};

/// A table of numbers in memory.
class Table : public Dataset {
 public:
  virtual const std::vector<std::string>& columns() const = 0;  ///< of "x"
  virtual const std::vector<std::string>& targets() const = 0;  ///< columns of "y"
  /// What the numbers of "y" stand for, where they are classes.
  virtual const std::vector<std::string>& classes() const = 0;
};

/// A CSV file (RFC 4180: fields may be in quotes), a sample a line: "x" f32 (columns) and "y". A
/// line with too few or too many fields, and one with an empty field or what is no finite number,
/// is a sample that cannot be read: the loader throws or skips it. Throws FileError for a file
/// without lines, without a column that is named, with a quote that is not closed, or in which no
/// line is good; ValueError for impossible options.
std::shared_ptr<const Table> open_csv(const std::string& path, const CsvOptions& options = {});

/// Arrays of NumPy (numpy.org/doc/stable/reference/generated/numpy.lib.format.html), row i of each
/// is sample i: a .npy file, mapped, whose field is "x", or the arrays of an .npz, in memory, under
/// their names. Throws FileError for damage, for Fortran order and objects, and for arrays that
/// have not equally many rows.
DatasetPtr open_npy(const std::string& path);
/// Arrays of a NumPy .npz file, each a field of the same number of samples. Throws FileError.
DatasetPtr open_npz(const std::string& path);

/// Options of open_tokens().
struct TokenOptions {
  int64_t window = 256;     ///< tokens of a sample
  int64_t stride = 0;       ///< from one sample to the next; 0: the window, so that none overlap
  DType dtype = DType::u8;  ///< of the file, little-endian: u8 (text as bytes), u16, i32, u32, i64
  int64_t vocabulary = 0;   ///< tokens are below it; 0: not checked
};

/// A file of tokens, mapped, or any text: windows "x" i64 (window) and, one further, what comes
/// next, "y" i64 (window). A last part that fills no window is left out. Throws FileError where
/// there is none, ValueError for impossible options; FileError, when the window is read, for a
/// token beyond the vocabulary.
DatasetPtr open_tokens(const std::string& path, const TokenOptions& options = {});

}  // namespace brim::data
