// The paths of all atoms as one tree of steps, which begins at the document.
#pragma once

#include "containers.hpp"
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
    uint8_t axis = CHILD;
    bool forks = false;    // it has DESCENDANT children
    bool touched = false;  // see Trie::touch
};

class Trie {
  public:
    explicit Trie(Vocabulary& vocabulary) : vocabulary_(vocabulary) { nodes_.add(Node()); }

    Node& operator[](uint32_t node) { return nodes_[node]; }
    const Node& operator[](uint32_t node) const { return nodes_[node]; }
    uint32_t bound() const { return nodes_.bound(); }
    size_t live() const { return nodes_.live(); }

    uint32_t child(uint32_t parent, uint8_t axis, uint32_t label) const {
        return children_.find(child_key(parent, axis, label));
    }

    // A child that was not there; takes over the label.
    uint32_t grow(uint32_t parent, uint8_t axis, uint32_t label) {
        Node node;
        node.parent = parent;
        node.label = label;
        node.axis = axis;
        const uint32_t number = nodes_.add(node);
        ++idle_;
        children_.set(child_key(parent, axis, label), number);
        if (axis == DESCENDANT) nodes_[parent].forks = true;
        keep(parent);
        return number;
    }

    void keep(uint32_t node) {
        if (node != ROOT && !nodes_[node].users++) --idle_;
    }

    // A node without users stays until the next purge: it may come back, and states hold it.
    void let_go(uint32_t node) {
        if (node != ROOT && !--nodes_[node].users) ++idle_;
    }

    // One more who wants to know whether two elements are at *node*, or one less.
    void count(uint32_t node, int change) {
        nodes_[node].counted += change;
        if (nodes_[node].counted == uint32_t(change > 0)) touch(node);
    }

    // What hangs on *node* is no more what states were told of it.
    void touch(uint32_t node) {
        if (nodes_[node].touched) return;
        touched_.push_back(node);
        nodes_[node].touched = true;
    }

    const Words& touched() const { return touched_; }

    void untouch() {
        for (uint32_t node : touched_) nodes_[node].touched = false;
        touched_.clear();
    }

    bool is_overgrown() const { return idle_ > MAX_IDLE + nodes_.live() / 8; }

    // Drop the nodes without users. Nobody may hold numbers of nodes: states must be forgotten
    // first.
    void purge() {
        untouch();
        Words idle;
        for (uint32_t number = 1; number < nodes_.bound(); ++number) {
            if (nodes_[number].parent != NONE && !nodes_[number].users) idle.push_back(number);
        }
        while (!idle.empty()) {
            const Node node = nodes_[idle.back()];
            children_.erase(child_key(node.parent, node.axis, node.label));
            vocabulary_.let_go(node.label);
            nodes_.erase(idle.back());
            idle.pop_back();
            --idle_;
            let_go(node.parent);
            if (node.parent != ROOT && !nodes_[node.parent].users) idle.push_back(node.parent);
        }
        for (uint32_t number = 0; number < nodes_.bound(); ++number) nodes_[number].forks = false;
        for (uint32_t number = 1; number < nodes_.bound(); ++number) {
            const Node& node = nodes_[number];
            if (node.parent != NONE && node.axis == DESCENDANT) nodes_[node.parent].forks = true;
        }
    }

  private:
    static constexpr size_t MAX_IDLE = 1024;

    static uint64_t child_key(uint32_t parent, uint8_t axis, uint32_t label) {
        return uint64_t(parent << 1 | axis) << 32 | label;
    }

    Vocabulary& vocabulary_;
    Pool<Node> nodes_;
    NumberMap children_;
    size_t idle_ = 0;  // nodes without users
    Words touched_;
};

}  // namespace dragoman
