// The names and values that filters speak of, each once, with a count of its users.
#pragma once

#include <string_view>

#include "tables.hpp"
#include "values.hpp"

namespace dragoman {

struct Label {
    uint32_t ns = NONE, local = NONE;  // NONE: any
    uint32_t users = 0;
};

class Vocabulary {
  public:
    // The label of a name; the label takes over the strings' users, and has one more itself.
    uint32_t keep_label(uint32_t ns, uint32_t local) {
        uint32_t found = by_name_.find(key(ns, local));
        if (found == NONE) {
            found = labels_.add({ns, local, 0});
            by_name_.set(key(ns, local), found);
        } else {
            if (ns != NONE) names.let_go(ns);
            if (local != NONE) names.let_go(local);
        }
        ++labels_[found].users;
        return found;
    }

    void keep(uint32_t label) {
        if (label != NONE) ++labels_[label].users;
    }

    void let_go(uint32_t number) {
        if (number == NONE) return;
        Label& label = labels_[number];
        if (--label.users) return;
        by_name_.erase(key(label.ns, label.local));
        if (label.ns != NONE) names.let_go(label.ns);
        if (label.local != NONE) names.let_go(label.local);
        labels_.erase(number);
    }

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
};

// The values of elements, without copying where a value is one piece.
class Reading {
  public:
    explicit Reading(const Vocabulary& vocabulary) : vocabulary_(vocabulary) {}

    void begin() { element_ = nullptr; }

    // Call *take* with each value of a subject at *node*. What it gets lives until it returns.
    template <typename Take>
    void each(const xmlNode* node, uint8_t subject, uint32_t label, Take take) {
        if (subject == SELF) {
            if (element_ != node) {
                element_ = node;
                text_ = string_of(node, scratch_);
            }
            take(text_);
        } else if (subject == TEXT) {
            for (const xmlNode* child = node->children; child; child = child->next) {
                if (is_text(child)) take(view_of(child->content));
            }
        } else if (is_element(node)) {
            for (const xmlAttr* attr = node->properties; attr; attr = attr->next) {
                if (!vocabulary_.fits(label, attr->name, attr->ns)) continue;
                const xmlNode* child = attr->children;
                if (!child) {
                    take(std::string_view());
                } else if (!child->next && is_text(child)) {
                    take(view_of(child->content));
                } else {
                    std::string pieces;
                    take(string_of(reinterpret_cast<const xmlNode*>(attr), pieces));
                }
                if (vocabulary_.is_single(subject, label)) return;
            }
        }
    }

    // Whether one of the values compares as asked.
    Verdict check(const xmlNode* node, uint8_t subject, uint8_t comparison, uint32_t label,
                  const Operand& operand) {
        Verdict verdict = NO;
        each(node, subject, label, [&](std::string_view value) {
            if (verdict == YES) return;
            Verdict here = compare(comparison, value, operand);
            if (here != NO) verdict = here;
        });
        return verdict;
    }

  private:
    const Vocabulary& vocabulary_;
    const xmlNode* element_ = nullptr;  // whose text is at hand
    std::string_view text_;
    std::string scratch_;
};

}  // namespace dragoman
