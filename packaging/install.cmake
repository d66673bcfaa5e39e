# Rules of `make install`. Paths in the units follow the prefix, which is known at the installation only.
include(GNUInstallDirs)
install(TARGETS penstock RUNTIME DESTINATION "${CMAKE_INSTALL_BINDIR}" COMPONENT penstock)
install(FILES LICENSE DESTINATION "${CMAKE_INSTALL_DATADIR}/licenses/penstock" COMPONENT penstock)
install(FILES packaging/monitoring/penstock-rules.yaml packaging/monitoring/penstock-dashboard.json
        DESTINATION "${CMAKE_INSTALL_DATADIR}/penstock/monitoring" COMPONENT penstock)
install(FILES packaging/penstock.1 DESTINATION "${CMAKE_INSTALL_MANDIR}/man1" COMPONENT penstock)
install(CODE "
  set(bindir \"\${CMAKE_INSTALL_PREFIX}/${CMAKE_INSTALL_BINDIR}\")
  foreach(unit penstock-gateway penstock-planner)
    configure_file(\"${CMAKE_SOURCE_DIR}/packaging/systemd/\${unit}.service.in\" \"${CMAKE_BINARY_DIR}/packaging/\${unit}.service\" @ONLY)
    file(INSTALL \"${CMAKE_BINARY_DIR}/packaging/\${unit}.service\" DESTINATION \"\${CMAKE_INSTALL_PREFIX}/lib/systemd/system\")
  endforeach()
  foreach(shell bash zsh)
    execute_process(COMMAND \"$<TARGET_FILE:penstock>\" completion \${shell}
                    OUTPUT_FILE \"${CMAKE_BINARY_DIR}/packaging/\${shell}\" COMMAND_ERROR_IS_FATAL ANY)
  endforeach()
  file(INSTALL \"${CMAKE_BINARY_DIR}/packaging/bash\" DESTINATION \"\${CMAKE_INSTALL_PREFIX}/share/bash-completion/completions\" RENAME penstock)
  file(INSTALL \"${CMAKE_BINARY_DIR}/packaging/zsh\" DESTINATION \"\${CMAKE_INSTALL_PREFIX}/share/zsh/vendor-completions\" RENAME _penstock)
" COMPONENT penstock)
