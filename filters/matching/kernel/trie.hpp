// The paths of all atoms as one tree of steps, which begins at the document.
//
// An element is at many nodes with the same label: their numbers lie side by side.
#pragma once

#include <vector>

#include "containers.hpp"
#include "runs.hpp"
#include "vocabulary.hpp"

namespace dragoman {

constexpr uint32_t ROOT = 0;  // the node that stands for the document
enum Axis : uint8_t { CHILD, DESCENDANT };

struct Node {
    uint32_t parent = NONE, label = NONE;
    uint32_t users = 0;      // atoms, branches, children, presence
    uint32_t presence = 0;   // users that ask whether there is an element, and no more
    uint32_t tables = NONE;  // the first one, of atoms with tests
    uint32_t counted = 0;    // users that want to know whether two elements are here
    uint32_t forks = 0;      // DESCENDANT children
    uint8_t axis = CHILD;
    bool idle = false;  // it may have no users
};

class Trie {
  public:
    explicit Trie(Vocabulary& vocabulary)
        : vocabulary_(vocabulary), nodes_(numbers_.bound()) {}

    Node& operator[](uint32_t node) { return nodes_[node]; }
    const Node& operator[](uint32_t node) const { return nodes_[node]; }
    uint32_t bound() const { return uint32_t(nodes_.size()); }
    size_t live() const { return 1 + numbers_.live(); }

    uint32_t child(uint32_t parent, uint8_t axis, uint32_t label) const {
        return children_.find(child_key(parent, axis, label));
    }

    // A child that was not there; takes over the label, unless it fails.
    uint32_t grow(uint32_t parent, uint8_t axis, uint32_t label) {
        children_.make_room();
        // All may become idle, and that must not fail.
        reserve_for(idle_, live() + 1 - idle_.size());
        const uint32_t number = numbers_.take(label, nodes_);
        Node& node = nodes_[number];
        node.parent = parent;
        node.label = label;
        node.axis = axis;
        become_idle(number);
        children_.set(child_key(parent, axis, label), number);
        if (axis == DESCENDANT) ++nodes_[parent].forks;
        keep(parent);
        return number;
    }

    void keep(uint32_t node) { ++nodes_[node].users; }

    // A node without users goes with the next sweep.
    void let_go(uint32_t node) noexcept {
        if (!--nodes_[node].users) become_idle(node);
    }

    // One more who wants to know whether two elements are at *node*, or one less.
    void count(uint32_t node, int change) { nodes_[node].counted += change; }

    // Drop the nodes without users. Call *take* with each before it goes.
    template <typename Take>
    void sweep(Take take) noexcept {
        while (!idle_.empty()) {
            const uint32_t number = idle_.back();
            idle_.pop_back();
            nodes_[number].idle = false;
            const Node node = nodes_[number];
            if (node.parent == NONE || node.users) continue;
            take(number);
            children_.erase(child_key(node.parent, node.axis, node.label));
            vocabulary_.let_go(node.label);
            nodes_[number] = Node();
            numbers_.give_back(number);
            if (node.axis == DESCENDANT) --nodes_[node.parent].forks;
            let_go(node.parent);
        }
    }

  private:
    void become_idle(uint32_t node) noexcept {
        if (nodes_[node].idle) return;
        nodes_[node].idle = true;
        idle_.push_back(node);
    }

    static uint64_t child_key(uint32_t parent, uint8_t axis, uint32_t label) {
        return uint64_t(parent << 1 | axis) << 32 | label;
    }

    Vocabulary& vocabulary_;
    Runs<4, 16, 64> numbers_{ROOT + 1};  // by label
    std::vector<Node> nodes_;
    NumberMap children_;
    Words idle_;
};

}  // namespace dragoman
