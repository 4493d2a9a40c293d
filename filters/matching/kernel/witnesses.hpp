// The elements of one message that the walk visits, and because of which of them atoms hold.
//
// Elements have rows, in document order. What lies behind the first MOST has none, and whoever asks
// about it has to ask otherwise. An atom has the row of the first element that it holds of; where it
// holds of more, the others are in a list, from the last one back.
#pragma once

#include <vector>

#include "bits.hpp"
#include "climbs.hpp"
#include "containers.hpp"

namespace dragoman {

class Witnesses {
  public:
    static constexpr uint32_t MOST = 4095;

    struct Row {
        uint32_t state;
        uint32_t parent;  // a row; MOST above the first
        uint32_t depth;
        uint32_t end;  // of the rows below it, which begin behind it
    };

    // Another message; so many atoms there are.
    void begin(size_t atoms) {
        if (first_.size() < atoms) first_.resize(atoms);
        if (last_of_.size() < atoms) last_of_.resize(atoms);
        others_.clear();
        open_.assign(1, MOST);
        count_ = 0;
        last_ = MOST;
        complete_ = states_known_ = true;
    }

    // The walk comes to an element, goes to what is within the last one, comes out of one.
    void visit(uint32_t state) {
        if (count_ == MOST) {
            complete_ = false;
            last_ = MOST;
            return;
        }
        if (rows_.size() == count_) rows_.resize(2 * count_ + 64);
        last_ = count_++;
        const uint32_t parent = open_.back();
        rows_[last_] = {state, parent, parent == MOST ? 0 : rows_[parent].depth + 1, count_};
    }
    void descend() { open_.push_back(last_); }
    void ascend() {
        close(open_.back());
        open_.pop_back();
    }

    // The walk is over.
    void end() {
        while (open_.size() > 1) ascend();
    }

    // The row of the last element; MOST stands for none that is known.
    uint32_t row() const { return last_; }

    // An atom holds because of the element with that row, and because of another.
    void note_atom(uint32_t atom, uint32_t row) { first_[atom] = uint16_t(row); }
    void note_atoms(BitsAt atoms, uint32_t row) {
        uint16_t* first = first_.data();
        atoms.each([&](uint32_t atom) { first[atom] = uint16_t(row); });
    }
    void note_again(uint32_t atom, uint32_t row) {
        if (!is_repeated(atom)) {
            first_[atom] |= AGAIN;
            last_of_[atom] = NONE;
        }
        if (others_.size() == MOST_OTHERS) return;
        others_.push_back({last_of_[atom], row});
        last_of_[atom] = uint32_t(others_.size() - 1);
    }

    // The row of the first element because of which an atom holds; MOST if it is not known.
    uint32_t first(uint32_t atom) const { return first_[atom] & MOST; }
    // Whether a climb of few steps leads from it to *row*; false where that is not known.
    bool is_first_below(uint32_t atom, uint32_t row, Climb climb) const {
        const uint32_t first = this->first(atom);
        if (first == MOST) return false;
        if (climb.is_plain()) return above(first, climb.steps()) == row;
        return climb.is_loose() && is_below(first, row) &&
               rows_[first].depth >= rows_[row].depth + climb.steps();
    }
    // Whether there may be others.
    bool is_repeated(uint32_t atom) const { return first_[atom] & AGAIN; }

    // Call *take* with the row of each element because of which an atom holds; false if there may
    // be others.
    template <typename Take>
    bool each_of(uint32_t atom, Take take) const {
        const uint32_t first = this->first(atom);
        bool all = first != MOST;
        if (all) take(first);
        if (!is_repeated(atom)) return all;
        for (uint32_t at = last_of_[atom]; at != NONE; at = others_[at].before) {
            if (others_[at].row == MOST) all = false;
            else take(others_[at].row);
        }
        return all && others_.size() < MOST_OTHERS;
    }

    // Numbers of states change: those of elements are not known any more.
    void forget_states() { states_known_ = false; }
    bool have_states() const { return states_known_; }

    // How many rows there are, and whether all elements have one.
    uint32_t size() const { return count_; }
    bool is_complete() const { return complete_; }
    const Row& operator[](uint32_t row) const { return rows_[row]; }
    uint32_t above(uint32_t row, uint32_t steps) const {
        for (; steps; --steps) row = rows_[row].parent;
        return row;
    }
    // Whether *row* lies below *above*, at any depth.
    bool is_below(uint32_t row, uint32_t above) const {
        return row > above && row < rows_[above].end;
    }

  private:
    static constexpr size_t MOST_OTHERS = 1u << 18;
    static constexpr uint16_t AGAIN = 1u << 15;

    // That an atom holds of one more element.
    struct Other {
        uint32_t before, row;
    };

    void close(uint32_t row) {
        if (row != MOST) rows_[row].end = count_;
    }

    std::vector<Row> rows_;  // with more room than there is need
    uint32_t count_ = 0, last_ = MOST;
    bool complete_ = true, states_known_ = true;
    Words open_;  // rows of the elements around
    // Of atoms: the first element because of which it holds, with AGAIN if it holds of others too.
    std::vector<uint16_t> first_;
    Words last_of_;  // of those that hold of several, among the others
    std::vector<Other> others_;
};

}  // namespace dragoman
