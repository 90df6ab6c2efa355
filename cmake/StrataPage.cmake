# strata_page(TARGET FOLDER): compiles the files of a folder into the target, for
# src/serve/page.hpp. They are embedded as they are: what a browser loads is what stands there.
set(STRATA_EMBED_SCRIPT ${CMAKE_CURRENT_LIST_DIR}/EmbedFiles.cmake)

function(strata_page target folder)
  set(source ${CMAKE_BINARY_DIR}/generated/page_files.cpp)
  file(GLOB files CONFIGURE_DEPENDS ${folder}/*)
  file(MAKE_DIRECTORY ${CMAKE_BINARY_DIR}/generated)
  add_custom_command(OUTPUT ${source}
                     COMMAND ${CMAKE_COMMAND} -DFOLDER=${folder} -DOUTPUT=${source}
                             -P ${STRATA_EMBED_SCRIPT}
                     DEPENDS ${STRATA_EMBED_SCRIPT} ${files}
                     COMMENT "Embedding the page" VERBATIM)
  target_sources(${target} PRIVATE ${source})
endfunction()
