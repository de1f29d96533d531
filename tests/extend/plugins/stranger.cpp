// A library that is no plugin.
extern "C" int brim_test_stranger() { return 1; }
