// The program `brim`.
#include <brim/command/cli.h>

int main(int argc, char** argv) { return brim::cli(argc, argv); }
