# Warnings, sanitizers and determinism: the flags that every target of ours is built with.
add_library(penstock_compiler INTERFACE)
target_compile_options(penstock_compiler INTERFACE
  -Wall -Wextra -Wshadow -Wconversion -Wnon-virtual-dtor -Woverloaded-virtual -Wold-style-cast
  -Wduplicated-cond -Wlogical-op -Wimplicit-fallthrough -Werror
  # Same seed, same bytes, on every machine: no fused multiply-add behind our back.
  -ffp-contract=off)
# Hardening of what users run. FORTIFY needs optimisation, which tests do without; sanitizers bring checks of their own.
add_library(penstock_hardening INTERFACE)
if(CMAKE_BUILD_TYPE STREQUAL "Release" AND NOT PENSTOCK_SANITIZE)
  set(PENSTOCK_HARDENED ON)
  # Compilers for other processors than x86 reject this flag.
  if(CMAKE_SYSTEM_PROCESSOR MATCHES "^(x86_64|AMD64|i[3-6]86)$")
    set(control_flow_protection -fcf-protection=full)
  endif()
  target_compile_options(penstock_hardening INTERFACE
    -fPIE -fstack-protector-strong -fstack-clash-protection ${control_flow_protection} -U_FORTIFY_SOURCE -D_FORTIFY_SOURCE=3)
  add_link_options(-pie -Wl,-z,relro,-z,now,-z,noexecstack)
endif()
# An index out of range ends the process, in tests as in the programs that users run.
target_compile_definitions(penstock_compiler INTERFACE _GLIBCXX_ASSERTIONS)
if(PENSTOCK_SANITIZE)
  add_compile_options(-fsanitize=${PENSTOCK_SANITIZE} -fno-omit-frame-pointer -fno-sanitize-recover=all)
  if(PENSTOCK_SANITIZE MATCHES "address,undefined")
    # AddressSanitizer finds what the first two of these find, and without the four the build takes three quarters of the time.
    add_compile_options(-fno-sanitize=null,object-size,alignment,vptr)
  endif()
  add_link_options(-fsanitize=${PENSTOCK_SANITIZE})
endif()

# Checkouts in other folders share the compiler cache: no object file contains the folder of its checkout.
add_compile_options(-fmacro-prefix-map=${CMAKE_SOURCE_DIR}/=)
find_program(CCACHE ccache)
if(CCACHE)
  set(CMAKE_CXX_COMPILER_LAUNCHER
      ${CMAKE_COMMAND} -E env CCACHE_SLOPPINESS=pch_defines,time_macros CCACHE_BASEDIR=${CMAKE_SOURCE_DIR} CCACHE_NOHASHDIR=1
      ${CCACHE})
endif()
