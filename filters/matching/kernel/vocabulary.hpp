// The names and values that filters speak of, each once, with a count of its users.
#pragma once

#include <string_view>

#include "containers.hpp"
#include "values.hpp"

namespace dragoman {

struct Label {
    uint32_t ns = NONE, local = NONE;  // NONE: any
    uint32_t users = 0;
};

class Vocabulary {
  public:
    // The label of a name, or of any where there is no text; the label has one more user.
    uint32_t keep_label(const std::string_view* ns, const std::string_view* local) {
        labels_.make_room();
        by_name_.make_room();
        const uint32_t space = ns ? names.keep(*ns) : NONE;
        uint32_t name = NONE;
        try {
            if (local) name = names.keep(*local);
        } catch (...) {
            if (space != NONE) names.let_go(space);
            throw;
        }
        uint32_t found = by_name_.find(key(space, name));
        if (found == NONE) {
            found = labels_.add({space, name, 0});
            by_name_.set(key(space, name), found);
            ++made_;
        } else {
            if (space != NONE) names.let_go(space);
            if (name != NONE) names.let_go(name);
        }
        ++labels_[found].users;
        return found;
    }

    void keep(uint32_t label) {
        if (label != NONE) ++labels_[label].users;
    }

    void let_go(uint32_t number) noexcept {
        if (number == NONE) return;
        Label& label = labels_[number];
        if (--label.users) return;
        by_name_.erase(key(label.ns, label.local));
        if (label.ns != NONE) names.let_go(label.ns);
        if (label.local != NONE) names.let_go(label.local);
        labels_.erase(number);
    }

    // How many labels there ever were: another number, and what was known of names may be wrong.
    uint64_t made() const { return made_; }

    uint32_t find_label(uint32_t ns, uint32_t local) const { return by_name_.find(key(ns, local)); }

    bool fits(uint32_t number, const xmlChar* name, const xmlNs* ns) const {
        const Label& label = labels_[number];
        return (label.local == NONE || names[label.local] == view_of(name)) &&
               (label.ns == NONE || names[label.ns] == namespace_of(ns));
    }

    // Whether an element has at most one value of the subject.
    bool is_single(uint8_t subject, uint32_t label) const {
        if (subject != ATTRIBUTE) return subject == SELF;
        return labels_[label].ns != NONE && labels_[label].local != NONE;
    }

    Strings names, values;

  private:
    static uint64_t key(uint32_t ns, uint32_t local) {
        return uint64_t(ns + 1) << 32 | uint32_t(local + 1);
    }

    Pool<Label> labels_;
    NumberMap by_name_;
    uint64_t made_ = 0;
};

}  // namespace dragoman
