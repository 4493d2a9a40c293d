// Makes a tape and its vocabulary of libxml2's tree.
#pragma once

#include <string>
#include <vector>

#include "../values.hpp"
#include "layout.hpp"

namespace dragoman::tapes {

class Writer {
  public:
    std::string tape, vocabulary;

    // False if the document is too large for a tape, or has what no tape has.
    bool write(const xmlDoc* document) {
        nodes_.push_back({DOCUMENT, NAMELESS, 0, 0, 0, 0});
        if (!walk(document) || texts_.size() + others_.size() > MOST) return false;
        close(0);
        for (Node& node : nodes_) {
            if (is_apart(node)) node.begin += uint16_t(texts_.size());
        }
        texts_ += others_;
        put(tape, nodes_, texts_);
        return put_names();
    }

  private:
    static bool is_apart(const Node& node) {
        return node.kind == ATTRIBUTE || node.kind == COMMENT || node.kind == INSTRUCTION;
    }

    template <typename Row>
    static void put(std::string& to, const std::vector<Row>& rows, const std::string& text) {
        const uint16_t count = uint16_t(rows.size());
        to.assign(reinterpret_cast<const char*>(&count), sizeof count);
        to.append(reinterpret_cast<const char*>(rows.data()), rows.size() * sizeof(Row));
        to += text;
    }

    bool walk(const xmlDoc* document) {
        const xmlNode* top = reinterpret_cast<const xmlNode*>(document);
        const xmlNode* node = top->children;
        uint16_t parent = 0;
        while (node) {
            if (texts_.size() > MOST || others_.size() > MOST) return false;
            const uint16_t at = uint16_t(nodes_.size());
            if (!add(node, parent)) return false;
            if (is_element(node) && node->children) {
                node = node->children;
                parent = at;
                continue;
            }
            close(at);
            while (!node->next) {
                node = node->parent;
                if (node == top) return true;
                close(parent);
                parent = nodes_[parent].parent;
            }
            node = node->next;
        }
        return true;
    }

    bool add(const xmlNode* node, uint16_t parent) {
        switch (node->type) {
            case XML_ELEMENT_NODE:
                if (!put_node(ELEMENT, node->name, node->ns, parent, texts_)) return false;
                return add_attributes(node, uint16_t(nodes_.size() - 1));
            case XML_TEXT_NODE:
            case XML_CDATA_SECTION_NODE:
                if (!put_node(WORDS, nullptr, nullptr, parent, texts_)) return false;
                texts_ += view_of(node->content);
                return true;
            case XML_COMMENT_NODE:
                return put_node(COMMENT, nullptr, nullptr, parent, others_) &&
                       add_value(view_of(node->content));
            case XML_PI_NODE:
                return put_node(INSTRUCTION, node->name, nullptr, parent, others_) &&
                       add_value(view_of(node->content));
            default: return false;
        }
    }

    bool add_attributes(const xmlNode* node, uint16_t parent) {
        for (const xmlAttr* attr = node->properties; attr; attr = attr->next) {
            if (!put_node(ATTRIBUTE, attr->name, attr->ns, parent, others_)) return false;
            if (!add_value(string_of(reinterpret_cast<const xmlNode*>(attr), scratch_)))
                return false;
        }
        return true;
    }

    bool put_node(Kind kind, const xmlChar* name, const xmlNs* ns, uint16_t parent,
                  const std::string& text) {
        const size_t number = name ? number_of_name(name, ns) : NAMELESS;
        if (nodes_.size() >= MOST || (name && number >= MOST_NAMES)) return false;
        const uint16_t at = uint16_t(nodes_.size());
        nodes_.push_back(
            {kind, uint16_t(number), parent, uint16_t(at + 1), uint16_t(text.size()), 0});
        return true;
    }

    bool add_value(std::string_view value) {
        others_ += value;
        nodes_.back().length = uint16_t(value.size());
        return others_.size() <= MOST;
    }

    void close(uint16_t at) {
        Node& node = nodes_[at];
        if (is_apart(node)) return;
        node.end = uint16_t(nodes_.size());
        node.length = uint16_t(texts_.size() - node.begin);
    }

    // Libxml2 has each name of a document once, so that most are found by where they are.
    size_t number_of_name(const xmlChar* name, const xmlNs* ns) {
        size_t at = 0;
        while (at < names_.size() && (names_[at].name != name || names_[at].ns != ns)) ++at;
        if (at == names_.size()) names_.push_back({name, ns});
        return at;
    }

    bool put_names() {
        std::vector<Name> rows;
        std::string text;
        for (const auto& [name, ns] : names_) {
            const std::string_view space = namespace_of(ns), local = view_of(name);
            const std::string_view prefix = ns ? view_of(ns->prefix) : std::string_view();
            Name row{uint16_t(text.size()), uint16_t(space.size()), 0, 0, 0};
            if (!rows.empty() && space == std::string_view(text).substr(rows.back().space,
                                                                         rows.back().space_length))
                row.space = rows.back().space;
            else
                text += space;
            if (text.size() > MOST) return false;
            row.name = uint16_t(text.size());
            if (!prefix.empty()) {
                text += prefix;
                text += ':';
                row.prefix = uint16_t(prefix.size() + 1);
            }
            text += local;
            if (text.size() > MOST) return false;
            row.name_length = uint16_t(text.size() - row.name);
            rows.push_back(row);
        }
        put(vocabulary, rows, text);
        return true;
    }

    struct Met {
        const xmlChar* name;
        const xmlNs* ns;
    };

    std::vector<Node> nodes_;
    std::vector<Met> names_;
    std::string texts_, others_, scratch_;
};

}  // namespace dragoman::tapes
