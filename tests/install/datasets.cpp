// Uses what an installed brim has in a library of its own.
#include <cstring>

#include <brim/data/convert.h>

int main() { return std::strcmp(brim::data::to_string(brim::data::DataFormat::tar), "tar"); }
