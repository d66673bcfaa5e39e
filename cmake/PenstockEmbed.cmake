# penstock_embed(NAME NAMESPACE namespace ASSETS name=file[,file...] ...)
#
# Takes files into the module NAME as they are: for each `name=file` there is `std::string_view namespace::name()`, which
# the module declares in a header of its own. Several files are put one after the other. The assembler copies the bytes,
# so a megabyte costs no compile time. Paths are relative to the source tree.
function(penstock_embed module)
  cmake_parse_arguments(ARG "" "NAMESPACE" "ASSETS" ${ARGN})
  set(files "")
  set(code "// Made by cmake/PenstockEmbed.cmake.\n#include <cstddef>\n#include <string_view>\n")
  foreach(asset IN LISTS ARG_ASSETS)
    string(REGEX MATCH "^([a-z_]+)=(.+)$" matched "${asset}")
    set(name ${CMAKE_MATCH_1})
    string(REPLACE "," ";" parts "${CMAKE_MATCH_2}")
    set(symbol penstock_${module}_${name})
    string(APPEND code "\nasm(\".pushsection .rodata\\n${symbol}_begin:\\n\"\n")
    foreach(part IN LISTS parts)
      set(file "${CMAKE_SOURCE_DIR}/${part}")
      if(NOT EXISTS "${file}")
        message(FATAL_ERROR "${part} is missing; run `make setup`, which installs what the build embeds")
      endif()
      list(APPEND files "${file}")
      string(APPEND code "    \".incbin \\\"${file}\\\"\\n\"\n")
    endforeach()
    string(APPEND code "    \"${symbol}_end: .byte 0\\n.popsection\\n\");\n"
      "extern const char ${symbol}_begin[] asm(\"${symbol}_begin\");\n"
      "extern const char ${symbol}_end[] asm(\"${symbol}_end\");\n"
      "namespace ${ARG_NAMESPACE} {\nstd::string_view ${name}();\nstd::string_view ${name}() {\n"
      "  return {${symbol}_begin, static_cast<std::size_t>(${symbol}_end - ${symbol}_begin)};\n}\n}\n")
  endforeach()
  set(source "${CMAKE_BINARY_DIR}/embedded/${module}.cpp")
  file(CONFIGURE OUTPUT "${source}" CONTENT "${code}" @ONLY)
  # OBJECT_DEPENDS: no compiler reports what the assembler reads. Objects of several sources would lose it.
  set_source_files_properties("${source}" PROPERTIES OBJECT_DEPENDS "${files}" SKIP_PRECOMPILE_HEADERS ON
                              SKIP_UNITY_BUILD_INCLUSION ON)
  target_sources(penstock_${module} PRIVATE "${source}")
endfunction()
