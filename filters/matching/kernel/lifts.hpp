// At which elements of a branch an atom holds below, by rows: found once a message, for many
// filters ask.
#pragma once

#include <algorithm>
#include <vector>

#include "agendas.hpp"
#include "climbs.hpp"
#include "trie.hpp"
#include "witnesses.hpp"

namespace dragoman {

// Rows of a message as bits.
using Rows = std::vector<uint64_t>;

class Lifts {
  public:
    Lifts(const Trie& trie, const Climbs& climbs, const Agendas& agendas,
          const Witnesses& witnesses)
        : trie_(trie), climbs_(climbs), agendas_(agendas), witnesses_(witnesses) {}

    // Another message, whose rows are known.
    void begin() {
        words_ = (witnesses_.size() + Bits::SIZE - 1) / Bits::SIZE;
        lifts_.clear();
        count_ = 0;
        if (!++message_) {
            slots_.assign(slots_.size(), Slot());
            ++message_;
        }
    }

    // All rows, and one of them.
    void fill(Rows& rows) const { rows.assign(words_, ~uint64_t(0)); }
    void fill(Rows& rows, uint32_t row) const {
        rows.assign(words_, 0);
        put(rows.data(), row);
    }

    // Whether *fact*, an atom with that *climb*, holds below the element with *row* at *branch*.
    // *all* becomes false if it may hold below others than those that are known.
    bool holds_below(uint32_t row, uint32_t fact, uint32_t branch, Climb climb, bool& all) {
        // Mostly it is the first one, or there is no other.
        if (witnesses_.is_first_below(fact, row, climb)) return true;
        if (witnesses_.first(fact) != Witnesses::MOST && climb.octet < Climb::MIXED &&
            !witnesses_.is_repeated(fact)) {
            return false;
        }
        const uint32_t place = find(fact, branch, climb);
        all &= !(place & OPEN);
        if (place == NONE) return false;
        return lifts_[(place >> 1) + row / Bits::SIZE] >> row % Bits::SIZE & 1;
    }

    // Leave those of *rows* that are at *branch*, and below which *fact* holds, an atom with that
    // *climb* or the branch itself. False if it may hold below others, too.
    bool narrow(Rows& rows, uint32_t fact, uint32_t branch, Climb climb) {
        const uint32_t place = find(fact, branch, climb);
        if (place == NONE) {
            std::fill(rows.begin(), rows.end(), 0);
            return false;
        }
        const uint64_t* lift = lifts_.data() + (place >> 1);
        for (size_t at = 0; at < words_; ++at) rows[at] &= lift[at];
        return !(place & OPEN);
    }

    // Leave those of *rows* that are at *branch*, and below which is one of *others*, which are at
    // *node*. False if there may be more.
    bool narrow(Rows& rows, const Rows& others, uint32_t node, uint32_t branch) {
        const Climb climb = climbs_.of(node | PRESENT, branch);
        lifted_.assign(words_, 0);
        visits_ = 0;
        each(others, [&](uint32_t row) { lift(row, node, branch, climb, lifted_.data()); });
        for (size_t at = 0; at < words_; ++at) rows[at] &= lifted_[at];
        return visits_ <= MOST_VISITS;
    }

    // Call *take* with each of *rows*.
    template <typename Take>
    static void each(const Rows& rows, Take take) {
        for (size_t at = 0; at < rows.size(); ++at) {
            BitsAt{rows[at], uint32_t(at)}.each(take);
        }
    }

    // Whether the path up from *node*, at which the element with *row* is, may lead to that at the
    // branch with *top*; each look is counted among the *visits*.
    bool leads(uint32_t row, uint32_t node, uint32_t top, uint32_t branch,
               uint32_t& visits) const {
        while (node != branch) {
            if (++visits > MOST_VISITS || !witnesses_.is_below(row, top)) return false;
            const bool child = trie_[node].axis == CHILD;
            node = trie_[node].parent;
            row = witnesses_[row].parent;
            if (child) continue;
            for (; witnesses_.is_below(row, top); row = witnesses_[row].parent) {
                if (is_at(row, node) && leads(row, node, top, branch, visits)) return true;
            }
        }
        return row == top;
    }

    bool is_at(uint32_t row, uint32_t node) const {
        return agendas_.is_at(witnesses_[row].state, node);
    }

    static constexpr uint32_t MOST_VISITS = 512;  // of rows, in one question by other than climbs

  private:
    static constexpr size_t MOST_WORDS = 1u << 20;
    static constexpr uint32_t OPEN = 1;  // in a place: there may be other rows

    struct Slot {
        uint64_t key = 0;
        uint32_t message = 0;  // others are free
        uint32_t place = 0;    // of the words, doubled
    };

    // The place of what is known of a fact below a branch; NONE where that would be too much.
    uint32_t find(uint32_t fact, uint32_t branch, Climb climb) {
        if (count_ * 2 >= slots_.size()) grow();
        const uint64_t key = uint64_t(fact) << 32 | branch;
        Slot& slot = slot_of(key);
        if (slot.message != message_) {
            if (lifts_.size() + words_ > MOST_WORDS) return NONE;
            const uint32_t place = make(fact, branch, climb);
            slot = {key, message_, place};
            ++count_;
        }
        return slot.place;
    }

    uint32_t make(uint32_t fact, uint32_t branch, Climb climb) {
        const size_t place = lifts_.size();
        lifts_.resize(place + words_);
        uint64_t* rows = lifts_.data() + place;
        bool all = true;
        if (fact == (branch | PRESENT)) {
            for (uint32_t row = 0; row < witnesses_.size(); ++row) {
                if (is_at(row, branch)) put(rows, row);
            }
        } else {
            visits_ = 0;
            // To ask for it costs two looks into cold memory.
            const uint32_t node = climb.octet == Climb::MIXED ? climbs_.node_of(fact) : NONE;
            all = witnesses_.each_of(
                fact, [&](uint32_t row) { lift(row, node, branch, climb, rows); });
            all &= visits_ <= MOST_VISITS;
        }
        return uint32_t(place << 1) | (all ? 0 : OPEN);
    }

    // Add to *rows* those at *branch* that *climb* leads to from *row*, which is at *node*.
    void lift(uint32_t row, uint32_t node, uint32_t branch, Climb climb, uint64_t* rows) {
        if (climb.is_plain()) {
            put(rows, witnesses_.above(row, climb.steps()));
        } else if (climb.is_loose()) {
            uint32_t top = witnesses_.above(row, climb.steps());
            for (; top != Witnesses::MOST; top = witnesses_[top].parent) {
                if (is_at(top, branch)) put(rows, top);
            }
        } else {
            uint32_t top = witnesses_.above(row, 1);
            for (; top != Witnesses::MOST; top = witnesses_[top].parent) {
                if (is_at(top, branch) && leads(row, node, top, branch, visits_)) put(rows, top);
            }
        }
    }

    static void put(uint64_t* rows, uint32_t row) {
        rows[row / Bits::SIZE] |= uint64_t(1) << row % Bits::SIZE;
    }

    Slot& slot_of(uint64_t key) {
        const size_t mask = slots_.size() - 1;
        size_t at = hash_number(key) & mask;
        while (slots_[at].message == message_ && slots_[at].key != key) at = (at + 1) & mask;
        return slots_[at];
    }

    void grow() {
        std::vector<Slot> slots(std::max<size_t>(256, slots_.size() * 2));
        slots.swap(slots_);
        for (const Slot& slot : slots) {
            if (slot.message == message_) slot_of(slot.key) = slot;
        }
    }

    const Trie& trie_;
    const Climbs& climbs_;
    const Agendas& agendas_;
    const Witnesses& witnesses_;
    std::vector<uint64_t> lifts_;
    std::vector<Slot> slots_;
    Rows lifted_;
    size_t words_ = 0, count_ = 0;
    uint32_t message_ = 0, visits_ = 0;
};

}  // namespace dragoman
