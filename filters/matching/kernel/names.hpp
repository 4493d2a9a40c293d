// How many different names of elements and attributes were met in documents.
#pragma once

#include "containers.hpp"
#include "values.hpp"

namespace dragoman {

class Names {
  public:
    // Meet those of a document; how many there were ever, counted up to *limit*.
    size_t meet(const xmlNode* root, size_t limit) {
        for (const xmlNode* node = root; node && met_.size() < limit;
             node = next_below(node, root)) {
            if (!is_element(node)) continue;
            meet(node->name);
            for (const xmlAttr* attr = node->properties; attr; attr = attr->next) meet(attr->name);
        }
        return met_.size();
    }

  private:
    void meet(const xmlChar* name) {
        std::string_view text = view_of(name);
        met_.set(hash_octets(text.data(), text.size()), 0);
    }

    NumberMap met_;
};

}  // namespace dragoman
