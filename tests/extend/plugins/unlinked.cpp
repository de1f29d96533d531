// A plugin that was linked without what it needs.
extern "C" const int brim_test_nobody_has_this;

extern "C" {
extern const int* const brim_test_needed;
const int* const brim_test_needed = &brim_test_nobody_has_this;
}
