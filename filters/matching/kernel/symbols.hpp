// What the names of elements are to filters: the same symbol, the same labels.
#pragma once

#include <array>
#include <vector>

#include "vocabulary.hpp"

namespace dragoman {

class Symbols {
  public:
    // The labels that name an element: its full name, its namespace, its local name.
    using Labels = std::array<uint32_t, 3>;

    explicit Symbols(Vocabulary& vocabulary)
        : any(vocabulary.keep_label(nullptr, nullptr)), vocabulary_(vocabulary) {}

    const uint32_t any;  // the label of every name

    size_t size() const { return labels_.size(); }
    const Labels& operator[](uint32_t symbol) const { return labels_[symbol]; }

    // Symbols with *label* among their labels.
    const std::vector<uint32_t>& with(uint32_t label) const {
        static const std::vector<uint32_t> nothing;
        return label < with_.size() ? with_[label] : nothing;
    }

    // Nodes of another message: what was known of addresses is none any more.
    void begin() {
        if (!++message_) {
            for (Cached& cached : cache_) cached.message = 0;
            message_ = 1;
        }
        ns_ = nullptr;
        uri_ = vocabulary_.names.find({});
    }

    void forget() {
        std::vector<Labels>().swap(labels_);
        std::vector<std::vector<uint32_t>>().swap(with_);
        by_labels_ = HashIndex();
        by_name_.clear();
        for (Cached& cached : cache_) cached.message = 0;
    }

    // That of an element, or of an attribute: libxml2's nodes begin alike.
    uint32_t of(const xmlAttr* attribute) {
        return of(reinterpret_cast<const xmlNode*>(attribute));
    }
    uint32_t of(const xmlNode* node) {
        // A document has few names, and its parser keeps each once.
        size_t place = (uintptr_t(node->name) >> 3 ^ uintptr_t(node->ns) >> 5) % cache_.size();
        Cached& cached = cache_[place];
        if (cached.message != message_ || cached.name != node->name || cached.ns != node->ns) {
            cached = {node->name, node->ns, message_, find(node)};
        }
        return cached.symbol;
    }

    bool fits(uint32_t label, uint32_t symbol) const {
        const Labels& labels = labels_[symbol];
        return label == labels[0] || label == any || label == labels[1] || label == labels[2];
    }

  private:
    static constexpr size_t MAX_NAMES = 1u << 16;

    struct Cached {
        const xmlChar* name = nullptr;
        const xmlNs* ns = nullptr;
        uint32_t message = 0, symbol = 0;
    };

    uint32_t find(const xmlNode* node) {
        if (node->ns != ns_) {
            ns_ = node->ns;
            uri_ = vocabulary_.names.find(namespace_of(ns_));
        }
        const uint32_t ns = uri_;
        const uint32_t local = vocabulary_.names.find(view_of(node->name));
        if (made_ != vocabulary_.made() || by_name_.size() > MAX_NAMES) {
            // With other labels, numbers of names and labels may mean others.
            by_name_.clear();
            made_ = vocabulary_.made();
        }
        const uint64_t name = uint64_t(ns) << 32 | local;
        uint32_t symbol = by_name_.find(name);
        if (symbol == NONE) by_name_.set(name, symbol = find(ns, local));
        return symbol;
    }

    uint32_t find(uint32_t ns, uint32_t local) {
        Labels labels{NONE, NONE, NONE};
        if (ns != NONE && local != NONE) labels[0] = vocabulary_.find_label(ns, local);
        if (ns != NONE) labels[1] = vocabulary_.find_label(ns, NONE);
        if (local != NONE) labels[2] = vocabulary_.find_label(NONE, local);
        uint32_t hash =
            uint32_t(hash_octets(reinterpret_cast<const char*>(labels.data()), sizeof labels));
        uint32_t symbol =
            by_labels_.find(hash, [&](uint32_t other) { return labels_[other] == labels; });
        if (symbol != NONE) return symbol;
        symbol = uint32_t(labels_.size());
        labels_.push_back(labels);
        by_labels_.add(hash, symbol);
        for (uint32_t label : labels) {
            if (label == NONE) continue;
            if (label >= with_.size()) with_.resize(label + 1);
            with_[label].push_back(symbol);
        }
        return symbol;
    }

    const Vocabulary& vocabulary_;
    std::vector<Labels> labels_;
    std::vector<std::vector<uint32_t>> with_;
    HashIndex by_labels_;
    NumberMap by_name_;  // as long as there are no other labels
    uint64_t made_ = 0;
    std::array<Cached, 256> cache_;
    uint32_t message_ = 0;
    const xmlNs* ns_ = nullptr;  // that of the last name that was found, and its number
    uint32_t uri_ = NONE;
};

}  // namespace dragoman
