# What `cmake --install` copies, by component: verifier, drafter, client, models, cuda. Programs
# find one another and the CUDA backend relative to their own path, so a prefix may be moved.
include(GNUInstallDirs)

foreach(component verifier drafter)
  install(TARGETS outrider-${component} RUNTIME COMPONENT ${component})
endforeach()
install(TARGETS outrider outrider-simulate RUNTIME COMPONENT client)
if(TARGET outrider_cuda_backend)
  # Not in CMAKE_INSTALL_LIBDIR, as the programs look for it in ../lib.
  install(TARGETS outrider_cuda_backend LIBRARY DESTINATION lib COMPONENT cuda)
  set_target_properties(outrider_cuda_backend PROPERTIES INSTALL_RPATH_USE_LINK_PATH ON)
endif()

install(DIRECTORY models/default DESTINATION share/outrider/models COMPONENT models)
install(DIRECTORY deploy/compose deploy/grafana deploy/helm deploy/kustomize deploy/prometheus
  DESTINATION share/outrider COMPONENT client PATTERN rules_test.yml EXCLUDE)
# The pages, and what they link to, at the same places relative to one another.
install(FILES README.md CHANGELOG.md CONTRIBUTING.md DESTINATION ${CMAKE_INSTALL_DOCDIR}
  COMPONENT client)
install(DIRECTORY docs examples DESTINATION ${CMAKE_INSTALL_DOCDIR} COMPONENT client
  PATTERN __pycache__ EXCLUDE)
foreach(path client/python/README.md models/default/MODEL_CARD.md)
  cmake_path(GET path PARENT_PATH folder)
  install(FILES ${path} DESTINATION ${CMAKE_INSTALL_DOCDIR}/${folder} COMPONENT client)
endforeach()
install(DIRECTORY proto/outrider DESTINATION ${CMAKE_INSTALL_DOCDIR}/proto COMPONENT client)

# outrider_completion(component program...): what shells complete the programs' flags by.
function(outrider_completion component)
  foreach(program IN LISTS ARGN)
    install(FILES deploy/completion/outrider.bash RENAME ${program}
      DESTINATION share/bash-completion/completions COMPONENT ${component})
    install(FILES deploy/completion/outrider.zsh RENAME _${program}
      DESTINATION share/zsh/vendor-completions COMPONENT ${component})
  endforeach()
endfunction()
outrider_completion(verifier outrider-verifier)
outrider_completion(drafter outrider-drafter)
outrider_completion(client outrider outrider-simulate)

# Manual pages are made from --help by help2man, where it is installed.
find_program(OUTRIDER_HELP2MAN help2man)
if(NOT OUTRIDER_HELP2MAN OR OUTRIDER_SANITIZE)
  message(STATUS "Manual pages are left out: no help2man, or a build with sanitizers")
  return()
endif()
set(pages)

# outrider_manual(component "name" program [subcommand]): a page, named like program-subcommand.
function(outrider_manual component name program)
  list(JOIN ARGN " " subcommand)
  list(PREPEND ARGN ${program})
  list(JOIN ARGN "-" page)
  set(sections ${PROJECT_SOURCE_DIR}/deploy/man/${component}.h2m)
  set(output ${PROJECT_BINARY_DIR}/man/${page}.1)
  add_custom_command(OUTPUT ${output}
    COMMAND ${CMAKE_COMMAND} -E make_directory ${PROJECT_BINARY_DIR}/man
    COMMAND ${OUTRIDER_HELP2MAN} --no-info --name=${name} --source=Outrider
      --version-string=${PROJECT_VERSION} --include=${sections}
      --output=${output} "$<TARGET_FILE:${program}> ${subcommand}"
    DEPENDS ${program} ${sections}
    VERBATIM)
  install(FILES ${output} DESTINATION ${CMAKE_INSTALL_MANDIR}/man1 COMPONENT ${component} OPTIONAL)
  set(pages ${pages} ${output} PARENT_SCOPE)
endfunction()
outrider_manual(verifier "serve a large language model with speculative decoding" outrider-verifier)
outrider_manual(drafter "propose draft tokens to verifiers" outrider-drafter)
outrider_manual(client "client of an Outrider verifier" outrider)
outrider_manual(client "stream the text that follows a prompt" outrider generate)
outrider_manual(client "measure a verifier's speed under load" outrider bench)
outrider_manual(client "show a verifier, its drafters and its sessions" outrider status)
outrider_manual(client "estimate speed, capacity, network and price of a layout" outrider plan)
outrider_manual(client "train the acceptance head of a draft model" outrider train-head)
outrider_manual(client "run verification rules on toy models" outrider-simulate)
outrider_manual(client "run the controller on toy models" outrider-simulate control)
outrider_manual(client "run the services' code on a simulated fleet" outrider-simulate fleet)
add_custom_target(outrider_manuals ALL DEPENDS ${pages})
