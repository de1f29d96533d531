# `make package`: a .deb of the command, the library and its headers. What it depends on is read off the libraries it links.
set(CPACK_GENERATOR DEB)
set(CPACK_PACKAGE_NAME brim)
set(CPACK_PACKAGE_VENDOR "the authors of brim")
set(CPACK_PACKAGE_CONTACT "the authors of brim <brim@localhost>")
set(CPACK_PACKAGING_INSTALL_PREFIX /usr)
set(CPACK_STRIP_FILES ON)
set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
set(CPACK_DEBIAN_PACKAGE_SECTION science)
set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS ON)
set(CPACK_DEBIAN_PACKAGE_RECOMMENDS libcurl4) # opened at run time, by `brim data get`
set(CPACK_DEBIAN_PACKAGE_GENERATE_SHLIBS ON) # with them comes the call of ldconfig
include(CPack)
