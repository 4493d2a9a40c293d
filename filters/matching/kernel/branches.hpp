// Sets of nodes, none of which two elements of a message may meet for a plan to be exact.
#pragma once

#include <algorithm>
#include <vector>

#include "containers.hpp"
#include "trie.hpp"

namespace dragoman {

class Branches {
  public:
    explicit Branches(Trie& trie) : trie_(trie) {}

    // The set of *nodes*, which has one more user; NONE if there are none.
    uint32_t keep(const Words& nodes) {
        if (nodes.empty()) return NONE;
        const uint32_t hash = uint32_t(hash_words(nodes));
        uint32_t found =
            by_nodes_.find(hash, [&](uint32_t number) { return sets_[number].nodes == nodes; });
        if (found == NONE) {
            found = sets_.add({nodes});
            by_nodes_.add(hash, found);
            for (uint32_t node : nodes) {
                trie_.keep(node);
                trie_.count(node, +1);
            }
        }
        ++sets_[found].users;
        return found;
    }

    void let_go(uint32_t number) {
        if (number == NONE || --sets_[number].users) return;
        for (uint32_t node : sets_[number].nodes) {
            trie_.count(node, -1);
            trie_.let_go(node);
        }
        by_nodes_.erase(uint32_t(hash_words(sets_[number].nodes)), number);
        sets_.erase(number);
    }

    // Another message; before any element of it is met.
    void begin() {
        if (met_.size() < trie_.bound()) met_.resize(trie_.bound());
    }

    // Messages are counted anew.
    void forget_messages() {
        for (uint32_t number = 0; number < sets_.bound(); ++number) sets_[number].message = 0;
        std::fill(met_.begin(), met_.end(), Met());
    }

    // There are so many *elements* more at *node*; true if that makes them several.
    bool meet(uint32_t node, uint32_t elements, uint32_t message) {
        Met& met = met_[node];
        if (met.message != message) met = {message, 0};
        const bool alone = met.elements < 2;
        met.elements += elements;
        return alone && met.elements > 1;
    }

    // Whether no node of the set is met by two elements, once all are counted.
    bool are_single(uint32_t number, uint32_t message) {
        if (number == NONE) return true;
        Set& set = sets_[number];
        if (set.message != message) {
            set.message = message;
            set.single = std::none_of(set.nodes.begin(), set.nodes.end(), [&](uint32_t node) {
                return met_[node].message == message && met_[node].elements > 1;
            });
        }
        return set.single;
    }

  private:
    struct Set {
        Words nodes;
        uint32_t users = 0, message = 0;
        bool single = false;
    };

    struct Met {
        uint32_t message = 0, elements = 0;
    };

    Trie& trie_;
    Pool<Set> sets_;
    HashIndex by_nodes_;
    std::vector<Met> met_;  // of nodes
};

}  // namespace dragoman
