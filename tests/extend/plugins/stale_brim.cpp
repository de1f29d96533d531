// Another brim's library, as far as a plugin of it can tell.
extern "C" {
extern const char brim_interface_0_0_9_00000000deadbeef;
const char brim_interface_0_0_9_00000000deadbeef = 0;
}
