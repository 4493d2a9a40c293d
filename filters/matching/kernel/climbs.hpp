// How a fact lies below a branch, as records keep it: whoever climbs from an element that the fact
// is about gets to the element at the branch so.
#pragma once

#include "atoms.hpp"
#include "facts.hpp"
#include "trie.hpp"

namespace dragoman {

// One octet. Up to DEEPEST it is the number of CHILD steps; with LOOSE, of steps of which the
// uppermost is DESCENDANT.
struct Climb {
    static constexpr uint8_t LOOSE = 0x80, DEEPEST = 0x7d;
    static constexpr uint8_t APART = 0xff;  // it is not below
    static constexpr uint8_t MIXED = 0xfe;  // by other steps

    uint8_t octet;

    bool is_plain() const { return octet <= DEEPEST; }
    bool is_loose() const { return octet & LOOSE && octet < MIXED; }
    uint32_t steps() const { return octet & ~LOOSE; }
};

class Climbs {
  public:
    Climbs(const Trie& trie, const Atoms& atoms) : trie_(trie), atoms_(atoms) {}

    // The node that a fact is about.
    uint32_t node_of(uint32_t fact) const {
        return is_presence(fact) ? index_of(fact) : atoms_.node_of(fact);
    }

    Climb of(uint32_t fact, uint32_t branch) const {
        uint32_t steps = 0;
        bool loose = false, mixed = false;
        for (uint32_t node = node_of(fact); node != branch; node = trie_[node].parent) {
            if (node == ROOT) return {Climb::APART};
            mixed |= loose || steps == Climb::DEEPEST;
            loose |= trie_[node].axis == DESCENDANT;
            ++steps;
        }
        if (mixed) return {Climb::MIXED};
        return {uint8_t(steps | (loose ? Climb::LOOSE : 0))};
    }

  private:
    const Trie& trie_;
    const Atoms& atoms_;
};

}  // namespace dragoman
