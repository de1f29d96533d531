#!/bin/sh
# ccache.sh CCACHE COMPILER ARGUMENT...: runs that, once the old precompiled header that GCC would make anew is deleted. With it
# still there, GCC's preprocessor takes it in place of the headers, so that ccache, which tells compilations apart by what the
# preprocessor gives, would not see that a header changed, and would bring back what was made of an earlier one.
for argument; do
  case $argument in
    *.gch) rm -f "$argument" ;;
  esac
done
exec "$@"
