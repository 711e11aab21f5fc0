# Writes a source file that holds a text file: cmake -D FROM=... -D TO=... -P embed.cmake
file(READ ${FROM} text)
string(FIND "${text}" ")page\"" clash)
if(NOT clash EQUAL -1)
  message(FATAL_ERROR "${FROM} holds )page\", which ends the literal")
endif()
file(WRITE ${TO} "#include \"verifier/status/status_page.h\"\n\nnamespace outrider {\n\n"
  "std::string_view StatusPageHtml() {\n  return R\"page(${text})page\";\n}\n\n"
  "}  // namespace outrider\n")
