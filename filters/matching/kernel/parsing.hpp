// Parses octets with the very libxml2 that lxml carries, found in lxml's module: a second one would
// have trees, names and options of its own.
#pragma once

#include <libxml/dict.h>
#include <libxml/parser.h>

#ifndef _WIN32
#include <dlfcn.h>
#endif

#include <climits>
#include <memory>
#include <new>

#include "limits.hpp"

namespace dragoman {

// The functions of libxml2 that are needed, each by its name.
struct Libxml2 {
    decltype(&xmlNewParserCtxt) new_context = nullptr;
    decltype(&xmlFreeParserCtxt) free_context = nullptr;
    decltype(&xmlCtxtSetErrorHandler) handle_errors = nullptr;
    decltype(&xmlCtxtReadMemory) read = nullptr;
    decltype(&xmlCtxtGetLastError) last_error = nullptr;
    decltype(&xmlDocGetRootElement) root_of = nullptr;
    decltype(&xmlFreeDoc) free_document = nullptr;
    decltype(&xmlDictSize) names_in = nullptr;

    // False if the module of lxml at *path* is not loaded, or does not offer them.
    bool find([[maybe_unused]] const char* path) {
#ifndef _WIN32
        void* module = dlopen(path, RTLD_LAZY | RTLD_NOLOAD);
        if (!module) return false;
        // What is open once more is never closed: lxml stays loaded, and so do its functions.
        return take(module, "xmlNewParserCtxt", new_context) &&
               take(module, "xmlFreeParserCtxt", free_context) &&
               take(module, "xmlCtxtSetErrorHandler", handle_errors) &&
               take(module, "xmlCtxtReadMemory", read) &&
               take(module, "xmlCtxtGetLastError", last_error) &&
               take(module, "xmlDocGetRootElement", root_of) &&
               take(module, "xmlFreeDoc", free_document) &&
               take(module, "xmlDictSize", names_in);
#else
        return false;
#endif
    }

  private:
#ifndef _WIN32
    template <typename Function>
    static bool take(void* module, const char* name, Function& function) {
        function = reinterpret_cast<Function>(dlsym(module, name));
        return function;
    }
#endif
};

// A document of a parser. It is freed in the thread that parses with it: both use its names.
class Tree {
  public:
    Tree() = default;
    Tree(const Tree&) = delete;
    Tree& operator=(const Tree&) = delete;
    ~Tree() { free(); }

    void hold(xmlDoc* document, decltype(&xmlFreeDoc) free_document) noexcept {
        free();
        document_ = document;
        free_document_ = free_document;
    }

    void free() noexcept {
        if (document_) free_document_(document_);
        document_ = nullptr;
    }

  private:
    xmlDoc* document_ = nullptr;
    decltype(&xmlFreeDoc) free_document_ = nullptr;
};

// Not for several threads at a time. It shares nothing with the parsers of lxml: neither names nor
// what handles errors.
class Parser {
  public:
    Parser() = default;
    Parser(const Parser&) = delete;
    Parser& operator=(const Parser&) = delete;
    ~Parser() { forget(); }

    bool find(const char* path) { return libxml2_.find(path); }

    // The root element of a document that is put into *tree*; null where lxml has to parse it: it
    // is not well-formed, is not plainly in UTF-8, may have a document type, or may exceed one of
    // the limits, of which libxml2 enforces its own alone.
    const xmlNode* parse(const char* octets, size_t size, size_t body, const Limits* limits,
                         Tree& tree) {
        if (size < 2 || size > INT_MAX || octets[0] != '<' || !octets[1]) return nullptr;
        if (may_declare(octets, size)) return nullptr;
        if (limits && !limits->surely_hold(octets + body, size - body)) return nullptr;
        if (!context_) begin();
        xmlDoc* document = libxml2_.read(context_, octets, int(size), nullptr, nullptr, OPTIONS);
        if (!document) {
            // It may have failed because there is no room for more names.
            forget();
            return nullptr;
        }
        tree.hold(document, libxml2_.free_document);
        const xmlError* error = libxml2_.last_error(context_);
        const bool fine = !error || error->level < XML_ERR_ERROR;
        if (!document->dict || libxml2_.names_in(document->dict) > MAX_NAMES) forget();
        return fine ? libxml2_.root_of(document) : nullptr;
    }

  private:
    // Those of `filters.documents`.
    static constexpr int OPTIONS =
        XML_PARSE_NOCDATA | XML_PARSE_NONET | XML_PARSE_COMPACT | XML_PARSE_BIG_LINES;
    // A context keeps the names that it meets.
    static constexpr int MAX_NAMES = 20000;

    static void be_silent(void*, const xmlError*) {}

    void begin() {
        context_ = libxml2_.new_context();
        if (!context_) throw std::bad_alloc();
        libxml2_.handle_errors(context_, be_silent, nullptr);
    }

    void forget() noexcept {
        if (context_) libxml2_.free_context(context_);
        context_ = nullptr;
    }

    Libxml2 libxml2_;
    xmlParserCtxt* context_ = nullptr;
};

}  // namespace dragoman
