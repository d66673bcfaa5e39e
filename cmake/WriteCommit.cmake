# Writes OUT with the commit of the checkout SOURCE, only if it has changed: cmake -DSOURCE=… -DOUT=… -P WriteCommit.cmake
set(commit "")
if(EXISTS "${SOURCE}/.git")
  execute_process(COMMAND git rev-parse --short=10 HEAD WORKING_DIRECTORY "${SOURCE}" OUTPUT_VARIABLE commit
                  OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET)
endif()
file(CONFIGURE OUTPUT "${OUT}" CONTENT "#define PENSTOCK_COMMIT \"${commit}\"\n")
