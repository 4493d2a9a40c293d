// What one message says: at which nodes of the trie there are elements, and which atoms hold.
//
// Both are facts, which formulas are about. The number of a fact is that of an atom, or of a node
// with PRESENT.
#pragma once

#include "bits.hpp"
#include "containers.hpp"

namespace dragoman {

constexpr uint32_t PRESENT = 1u << 29;

inline bool is_presence(uint32_t fact) {
    return fact & PRESENT;
}
inline uint32_t index_of(uint32_t fact) {
    return fact & (PRESENT - 1);
}

class Facts {
  public:
    // Another message; so many there are.
    void begin(size_t atoms, size_t nodes) {
        atoms_.reserve(atoms);
        nodes_.reserve(nodes);
        several_.reserve(nodes);
        atoms_.clear();
        nodes_.clear();
        several_.clear();
    }

    bool holds(uint32_t fact) const {
        return (is_presence(fact) ? nodes_ : atoms_).has(index_of(fact));
    }

    // Whether more than one element is at *node*, once all are counted.
    bool are_several(uint32_t node) const { return several_.has(node); }

    // False if *atom* was known to hold.
    bool fire(uint32_t atom) { return atoms_.put(atom); }
    // Those of *atoms* that were not known to hold.
    BitsAt fire(BitsAt atoms) { return atoms_.put(atoms); }

    // There is an element at each of *nodes*, none of the elements that were met before.
    void meet(const Words& nodes) {
        for (uint32_t node : nodes) nodes_.merge(node, several_);
    }
    void meet(const SparseBits& nodes) { nodes_.merge(nodes, several_); }

    const Bits& atoms() const { return atoms_; }
    const Bits& nodes() const { return nodes_; }

  private:
    Bits atoms_, nodes_, several_;
};

}  // namespace dragoman
