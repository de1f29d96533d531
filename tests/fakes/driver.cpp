// libcuda.so.1 as a file: that a driver is there is all that is asked of it.
extern "C" int brim_fake_driver() { return 1; }
