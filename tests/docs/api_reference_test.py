#!/usr/bin/env python3
"""tools/api_reference.py counts public names, and finds those without documentation."""
import pathlib
import shutil
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tools"))
import api_reference  # noqa: E402

HEADER = """\
/// A namespace.
namespace sample {
namespace detail {
int hidden();
}
///@{
/// Of both.
int first(int x);
int second(int x);
///@}
/// What Doxygen gives to one of two names.
struct Pair {
  int a = 0, b = 0;  ///< parts
  int c = 0;
  Pair() = default;
  Pair(const Pair&) = delete;
  ~Pair();

 private:
  int d = 0;
};
/// Colours.
enum class Colour {
  red,  ///< like blood
  green
};
int lonely();
}  // namespace sample
"""


def main():
    if not shutil.which("doxygen"):
        print("no doxygen")
        sys.exit(77)
    with tempfile.TemporaryDirectory() as scratch:
        include = pathlib.Path(scratch) / "include"
        include.mkdir()
        (include / "sample.h").write_text(HEADER)
        warnings, count, missing = api_reference.make(pathlib.Path(scratch) / "out", include)
        index = (pathlib.Path(scratch) / "out/html/index.html").exists()
        search = (pathlib.Path(scratch) / "out/html/search/searchdata.js").exists()
    names = [name for _, name in missing]
    assert names == ["sample::Pair::c", "sample::Colour::green", "sample::lonely()"], names
    assert all(place.startswith("sample.h:") or "/sample.h:" in place for place, _ in missing), missing
    assert count == 11, count
    assert any("lonely" in line for line in warnings), warnings
    assert index and search
    print("3 names of 11 have no documentation, as they should")


if __name__ == "__main__":
    main()
