// The elements of one message in document order, each with its symbol and where what is below it
// ends.
#pragma once

#include <vector>

#include "symbols.hpp"

namespace dragoman {

class Document {
  public:
    static constexpr uint32_t ROOT_ELEMENT = 1;  // behind the document itself

    Document(const Vocabulary& vocabulary, Symbols& symbols)
        : vocabulary_(vocabulary), symbols_(symbols) {}

    void begin(const xmlNode* root) {
        root_ = root;
        made_ = vocabulary_.made();
        rows_.clear();
    }

    // Read the tree, unless that was done; few messages need it. A program that comes during a
    // message may bring labels, and numbers of labels are used again.
    void read() {
        if (made_ != vocabulary_.made()) {
            symbols_.begin();
            begin(root_);
        }
        if (!rows_.empty()) return;
        try {
            read_tree();
        } catch (...) {
            rows_.clear();
            throw;
        }
    }

    const xmlNode* node(uint32_t row) const { return rows_[row].node; }
    uint32_t symbol(uint32_t row) const { return rows_[row].symbol; }
    uint32_t end(uint32_t row) const { return rows_[row].end; }

  private:
    struct Row {
        const xmlNode* node;
        uint32_t symbol, end;
    };

    void read_tree() {
        rows_.push_back({reinterpret_cast<const xmlNode*>(root_->doc), NONE, 0});
        open_.clear();
        const xmlNode* node = root_;
        while (true) {
            if (is_element(node)) {
                rows_.push_back({node, symbols_.of(node), 0});
                if (node->children) {
                    open_.push_back(uint32_t(rows_.size() - 1));
                    node = node->children;
                    continue;
                }
                rows_.back().end = uint32_t(rows_.size());
            }
            while (node != root_ && !node->next) {
                node = node->parent;
                rows_[open_.back()].end = uint32_t(rows_.size());
                open_.pop_back();
            }
            if (node == root_) break;
            node = node->next;
        }
        rows_[0].end = uint32_t(rows_.size());
    }

    const Vocabulary& vocabulary_;
    Symbols& symbols_;
    uint64_t made_ = 0;
    const xmlNode* root_ = nullptr;
    std::vector<Row> rows_;
    std::vector<uint32_t> open_;
};

}  // namespace dragoman
