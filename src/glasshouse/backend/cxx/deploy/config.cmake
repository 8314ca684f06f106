# A model compiled by Glasshouse, for CMake:
#
#   find_package(glasshouse_@NAME@ REQUIRED)        # with -DCMAKE_PREFIX_PATH=<this folder>
#   target_link_libraries(app PRIVATE glasshouse::@NAME@)
#
# Then @NAME@.hpp (C++17) or @NAME@.h (C) is there to be included. glasshouse_@NAME@_FOLDER is this folder, for models whose
# weights lie beside the library.
get_filename_component(glasshouse_@NAME@_FOLDER "${CMAKE_CURRENT_LIST_DIR}/.." ABSOLUTE)
if(NOT EXISTS "${glasshouse_@NAME@_FOLDER}/lib@NAME@.so")
  set(glasshouse_@NAME@_FOUND FALSE)
  set(glasshouse_@NAME@_NOT_FOUND_MESSAGE "${glasshouse_@NAME@_FOLDER}/lib@NAME@.so is not there")
  return()
endif()
if(NOT TARGET glasshouse::@NAME@)
  add_library(glasshouse::@NAME@ SHARED IMPORTED)
  set_target_properties(glasshouse::@NAME@ PROPERTIES
    IMPORTED_LOCATION "${glasshouse_@NAME@_FOLDER}/lib@NAME@.so"
    IMPORTED_SO@NAME@ "lib@NAME@.so"
    INTERFACE_INCLUDE_DIRECTORIES "${glasshouse_@NAME@_FOLDER}")
endif()
