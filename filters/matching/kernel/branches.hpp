// Sets of nodes, none of which two elements of a message may meet for a plan to be exact.
#pragma once

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
            by_nodes_.make_room();
            found = sets_.add({nodes});
            by_nodes_.add(hash, found);
            for (uint32_t node : nodes) trie_.keep(node);
        }
        ++sets_[found].users;
        return found;
    }

    void let_go(uint32_t number) noexcept {
        if (number == NONE || --sets_[number].users) return;
        for (uint32_t node : sets_[number].nodes) trie_.let_go(node);
        by_nodes_.erase(uint32_t(hash_words(sets_[number].nodes)), number);
        sets_.erase(number);
    }

    const Words& operator[](uint32_t number) const {
        static const Words nothing;
        return number == NONE ? nothing : sets_[number].nodes;
    }

  private:
    struct Set {
        Words nodes;
        uint32_t users = 0;
    };

    Trie& trie_;
    Pool<Set> sets_;
    HashIndex by_nodes_;
};

}  // namespace dragoman
