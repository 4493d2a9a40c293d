// Which elements of a message facts speak of, to see that several speak of the same one.
//
// The elements that the walk visits have rows, in document order. Sets of rows are words of bits:
// what lies behind the first 64 is no witness, and whoever finds none has to ask otherwise.
#pragma once

#include <vector>

#include "containers.hpp"
#include "facts.hpp"
#include "trie.hpp"

namespace dragoman {

class Witnesses {
  public:
    static constexpr uint32_t MOST = 64;

    explicit Witnesses(const Trie& trie) : trie_(trie) {}

    // Another message; so many atoms there are.
    void begin(size_t atoms) {
        if (first_.size() < atoms) first_.resize(atoms);
        open_.assign(1, MOST);
        states_.clear();
        elements_ = 0;
        last_ = MOST;
    }

    // The walk comes to an element, goes to what is within the last one, comes out of one.
    void visit() {
        last_ = elements_ < MOST ? elements_++ : MOST;
        if (last_ == MOST) return;
        const uint32_t parent = open_.back();
        parents_[last_] = bit(parent);
        ancestors_[last_] = parent == MOST ? 0 : ancestors_[parent] | bit(parent);
        within_[last_] = bit(last_);
        each_of(ancestors_[last_], [&](uint32_t row) { within_[row] |= bit(last_); });
    }
    void descend() { open_.push_back(last_); }
    void ascend() { open_.pop_back(); }

    // The last element is the first that is in a state; *place* says where it is noted.
    uint32_t meet(uint32_t state) {
        states_.push_back({state, 0});
        return uint32_t(states_.size() - 1);
    }
    // The last element is in the state noted at *place*.
    void note(uint32_t place) { states_[place].rows |= bit(last_); }

    // The row of the last element; MOST stands for none that is known.
    uint32_t row() const { return last_; }

    // An atom holds because of the element with that row.
    void note_atom(uint32_t atom, uint32_t row) { first_[atom] = uint8_t(row); }

    // Numbers of states change: the states of elements are not known any more.
    void forget_states() { states_.clear(); }

    // Narrow *rows*, elements at the node *branch*, to those that a fact may speak of: that it
    // holds of the very one or of what is below it. A fact that is not about *branch* narrows
    // nothing. *is_at* says whether elements of a state are at a node.
    template <typename IsAt>
    void narrow(uint64_t& rows, uint32_t branch, uint32_t fact, uint32_t node,
                const IsAt& is_at) const {
        const uint64_t near = ~rows ? any_of(rows, within_) : rows;
        uint64_t found = is_presence(fact) ? rows_at(node, near, is_at) : bit(first_[fact]);
        while (node != branch) {
            const Node& step = trie_[node];
            node = step.parent;
            if (node == ROOT) return;
            if (step.axis == CHILD) found = any_of(found, parents_);
            else found = any_of(found, ancestors_) & rows_at(node, near, is_at);
        }
        rows &= found;
    }

  private:
    struct State {
        uint32_t state;
        uint64_t rows;
    };

    static uint64_t bit(uint32_t row) { return row < MOST ? uint64_t(1) << row : 0; }

    static uint64_t any_of(uint64_t rows, const uint64_t* of) {
        uint64_t all = 0;
        each_of(rows, [&](uint32_t row) { all |= of[row]; });
        return all;
    }

    template <typename Take>
    static void each_of(uint64_t rows, Take take) {
        for (; rows; rows &= rows - 1) take(uint32_t(__builtin_ctzll(rows)));
    }

    // The elements at *node* among *rows*.
    template <typename IsAt>
    uint64_t rows_at(uint32_t node, uint64_t rows, const IsAt& is_at) const {
        uint64_t found = 0;
        for (const State& state : states_) {
            if (state.rows & rows && is_at(state.state, node)) found |= state.rows;
        }
        return found & rows;
    }

    const Trie& trie_;
    Words open_;  // rows of the elements around
    uint32_t elements_ = 0, last_ = MOST;
    uint64_t parents_[MOST], ancestors_[MOST], within_[MOST];
    std::vector<State> states_;   // that the elements are in
    std::vector<uint8_t> first_;  // of atoms: an element because of which it holds
};

}  // namespace dragoman
