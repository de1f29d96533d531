#!/bin/sh
# ccache.sh CCACHE COMPILER ARGUMENT...: runs that, so that a precompiled header of GCC's is brought back for the same headers alone.
# With the old one still there, GCC's preprocessor takes it in place of the headers, and ccache, which tells compilations apart by what
# the preprocessor gives, would not see that one changed: it is deleted. A comment does not show there at all, but GCC knows headers
# that it precompiled by their bytes: these compilations are told apart by the files that they read (depend mode).
for argument; do
  case $argument in
    *.gch)
      rm -f "$argument"
      export CCACHE_DEPEND=1 CCACHE_NAMESPACE=precompiled
      ;;
  esac
done
exec "$@"
