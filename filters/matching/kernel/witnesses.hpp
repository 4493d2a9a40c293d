// The elements of one message that the walk visits, and because of which of them atoms hold.
//
// Elements have rows, in document order. What lies behind the first MOST has none, and whoever asks
// about it has to ask otherwise.
#pragma once

#include <array>
#include <vector>

#include "bits.hpp"
#include "containers.hpp"

namespace dragoman {

class Witnesses {
  public:
    static constexpr uint32_t MOST = 255;

    struct Row {
        uint32_t state;
        uint32_t parent;  // a row; MOST above the first
        uint32_t depth;
        uint32_t end;  // of the rows below it, which begin behind it
    };

    // Another message; so many atoms there are.
    void begin(size_t atoms) {
        if (first_.size() < atoms) first_.resize(atoms);
        for (uint32_t atom : repeated_now_) repeated_.erase(atom);
        repeated_now_.clear();
        repeated_.reserve(atoms);
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
    void note_atom(uint32_t atom, uint32_t row) { first_[atom] = uint8_t(row); }
    void note_atoms(BitsAt atoms, uint32_t row) {
        uint8_t* first = first_.data();  // read once: for all that is known, octets change it
        atoms.each([&](uint32_t atom) { first[atom] = uint8_t(row); });
    }
    void note_again(uint32_t atom) {
        if (repeated_.put(atom)) repeated_now_.push_back(atom);
    }

    // The row of an element because of which an atom holds, or MOST.
    uint32_t of(uint32_t atom) const { return first_[atom]; }
    // Whether there may be others.
    bool is_repeated(uint32_t atom) const { return repeated_.has(atom); }

    // Numbers of states change: those of elements are not known any more.
    void forget_states() { states_known_ = false; }
    bool have_states() const { return states_known_; }

    // How many rows there are, and whether all elements have one.
    uint32_t size() const { return count_; }
    bool is_complete() const { return complete_; }
    const Row& operator[](uint32_t row) const { return rows_[row]; }
    // Whether *row* lies below *above*, at any depth.
    bool is_below(uint32_t row, uint32_t above) const {
        return row > above && row < rows_[above].end;
    }

  private:
    void close(uint32_t row) {
        if (row != MOST) rows_[row].end = count_;
    }

    std::array<Row, MOST> rows_;
    uint32_t count_ = 0, last_ = MOST;
    bool complete_ = true, states_known_ = true;
    Words open_;                  // rows of the elements around
    std::vector<uint8_t> first_;  // of atoms: an element because of which it holds
    Bits repeated_;
    Words repeated_now_;
};

}  // namespace dragoman
