# Debian packages, one for each component: `cpack --config build/cpu/CPackConfig.cmake`. Files that
# only a system-wide installation has are left out of `cmake --install`.
set(packaging ${PROJECT_SOURCE_DIR}/deploy/debian)
if(NOT EXISTS ${packaging})
  return()  # the image's build has no folder deploy
endif()
set(CPACK_GENERATOR DEB)
set(CPACK_COMPONENTS_ALL verifier drafter client models)
set(CPACK_DEB_COMPONENT_INSTALL ON)
set(CPACK_COMPONENTS_GROUPING IGNORE)
set(CPACK_STRIP_FILES ON)
set(CPACK_PACKAGING_INSTALL_PREFIX /usr)
set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
set(CPACK_DEBIAN_PACKAGE_MAINTAINER "Outrider maintainers <maintainers@outrider.invalid>")
set(CPACK_DEBIAN_PACKAGE_RELEASE 1)
set(CPACK_DEBIAN_PACKAGE_SECTION net)
set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS ON)

set(CPACK_DEBIAN_CLIENT_PACKAGE_NAME outrider)
set(CPACK_DEBIAN_CLIENT_PACKAGE_RECOMMENDS bash-completion)
set(CPACK_DEBIAN_CLIENT_DESCRIPTION "client of Outrider, speculative decoding as two services\n\
The command outrider, the simulator, documentation, and files for Kubernetes, Compose,\n\
Prometheus and Grafana.")
set(CPACK_DEBIAN_MODELS_PACKAGE_NAME outrider-models)
set(CPACK_DEBIAN_MODELS_PACKAGE_ARCHITECTURE all)
set(CPACK_DEBIAN_MODELS_PACKAGE_SHLIBDEPS OFF)
set(CPACK_DEBIAN_MODELS_DESCRIPTION "default pair of models of Outrider\n\
A target of 20 million parameters and its drafter, to try Outrider out with.")
set(CPACK_DEBIAN_VERIFIER_DESCRIPTION "verifier of Outrider: serves a large language model\n\
Serves a large language model over gRPC, and faster where drafters attach.")
set(CPACK_DEBIAN_DRAFTER_DESCRIPTION "drafter of Outrider: proposes tokens with a small model\n\
Proposes the next tokens with a small model to the verifiers that it attaches to.")

# outrider_service_package(component): a package whose program runs as a service of its own user.
function(outrider_service_package component)
  string(TOUPPER ${component} upper)
  set(package outrider-${component})
  set(control ${PROJECT_BINARY_DIR}/packaging/${component})
  foreach(script postinst prerm postrm)
    configure_file(${packaging}/${script}.in ${control}/${script} @ONLY
      FILE_PERMISSIONS OWNER_READ OWNER_WRITE OWNER_EXECUTE GROUP_READ GROUP_EXECUTE
        WORLD_READ WORLD_EXECUTE)
  endforeach()
  file(WRITE ${control}/conffiles "/etc/outrider/${component}.conf\n")
  set(CPACK_DEBIAN_${upper}_PACKAGE_NAME ${package} PARENT_SCOPE)
  set(CPACK_DEBIAN_${upper}_PACKAGE_DEPENDS adduser PARENT_SCOPE)
  set(CPACK_DEBIAN_${upper}_PACKAGE_RECOMMENDS outrider-models PARENT_SCOPE)
  set(CPACK_DEBIAN_${upper}_PACKAGE_CONTROL_STRICT_PERMISSION ON PARENT_SCOPE)
  set(CPACK_DEBIAN_${upper}_PACKAGE_CONTROL_EXTRA
    ${control}/postinst ${control}/prerm ${control}/postrm ${control}/conffiles PARENT_SCOPE)
  install(FILES deploy/config/${component}.conf DESTINATION /etc/outrider COMPONENT ${component}
    EXCLUDE_FROM_ALL)
  install(FILES deploy/systemd/${package}.service DESTINATION /lib/systemd/system
    COMPONENT ${component} EXCLUDE_FROM_ALL)
endfunction()
outrider_service_package(verifier)
outrider_service_package(drafter)

if(TARGET outrider_cuda_backend)
  list(APPEND CPACK_COMPONENTS_ALL cuda)
  set(CPACK_DEBIAN_CUDA_PACKAGE_NAME outrider-cuda)
  # cuBLAS comes from NVIDIA's packages, which dpkg-shlibdeps may not see.
  set(CPACK_DEBIAN_CUDA_PACKAGE_SHLIBDEPS OFF)
  set(CPACK_DEBIAN_CUDA_PACKAGE_DEPENDS
    "libc6, libstdc++6, libcublas-${CUDAToolkit_VERSION_MAJOR}-${CUDAToolkit_VERSION_MINOR}")
  set(CPACK_DEBIAN_CUDA_PACKAGE_SUGGESTS libnccl2)  # for several devices
  set(CPACK_DEBIAN_CUDA_PACKAGE_ENHANCES "outrider-verifier, outrider-drafter")
  set(CPACK_DEBIAN_CUDA_DESCRIPTION "CUDA backend of Outrider\n\
Lets outrider-verifier and outrider-drafter run on NVIDIA GPUs.")
endif()

foreach(component IN LISTS CPACK_COMPONENTS_ALL)
  string(TOUPPER ${component} upper)
  install(FILES deploy/debian/copyright COMPONENT ${component} EXCLUDE_FROM_ALL
    DESTINATION share/doc/${CPACK_DEBIAN_${upper}_PACKAGE_NAME})
endforeach()
include(CPack)
