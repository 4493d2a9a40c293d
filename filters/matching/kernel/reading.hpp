// The values of elements, as tests ask for them.
#pragma once

#include <string>
#include <string_view>

#include "values.hpp"
#include "vocabulary.hpp"

namespace dragoman {

// Copies nothing where a value is one piece.
class Reading {
  public:
    explicit Reading(const Vocabulary& vocabulary) : vocabulary_(vocabulary) {}

    void begin() { element_ = nullptr; }

    // Whether the value handed out last is there as long as the message, not in a copy.
    bool is_lasting() const { return lasting_; }

    // Call *take* with each value of a subject at *node*. What it gets lives until it returns.
    template <typename Take>
    void each(const xmlNode* node, uint8_t subject, uint32_t label, Take take) {
        lasting_ = true;
        if (subject == SELF) {
            if (element_ != node) {
                element_ = node;
                text_ = string_of(node, scratch_);
            }
            lasting_ = text_.data() != scratch_.data();
            take(text_);
        } else if (subject == TEXT) {
            for (const xmlNode* child = node->children; child; child = child->next) {
                if (is_text(child)) take(view_of(child->content));
            }
        } else if (is_element(node)) {
            for (const xmlAttr* attr = node->properties; attr; attr = attr->next) {
                if (!vocabulary_.fits(label, attr->name, attr->ns)) continue;
                value_of(attr, take);
                if (vocabulary_.is_single(subject, label)) return;
            }
        }
    }

    // Call *take* with the value of an attribute. What it gets lives until it returns.
    template <typename Take>
    void value_of(const xmlAttr* attr, Take take) {
        const xmlNode* child = attr->children;
        lasting_ = !child || (!child->next && is_text(child));
        if (!lasting_) {
            std::string pieces;
            take(string_of(reinterpret_cast<const xmlNode*>(attr), pieces));
        } else {
            take(child ? view_of(child->content) : std::string_view());
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
    bool lasting_ = true;
};

}  // namespace dragoman
