// Formulas over facts (see plan.py), as rows of words: in each a kind and a number, that of a fact
// or of the words of the operands, which follow.
#pragma once

#include <algorithm>

#include "containers.hpp"

namespace dragoman {

enum Kind : uint32_t { HOLDS, FAILS, ALL, ANY };

constexpr uint32_t KIND_SHIFT = 30, NUMBER_MASK = (1u << KIND_SHIFT) - 1;

inline uint32_t word(Kind kind, uint32_t number) {
    return kind << KIND_SHIFT | number;
}
inline Kind kind_of(uint32_t word) {
    return Kind(word >> KIND_SHIFT);
}
inline uint32_t number_in(uint32_t word) {
    return word & NUMBER_MASK;
}
inline bool is_literal(uint32_t word) {
    return kind_of(word) <= FAILS;
}

// Where the formula ends that begins at *at*.
inline const uint32_t* behind(const uint32_t* at) {
    return at + 1 + (is_literal(*at) ? 0 : number_in(*at));
}

struct Formula {
    const uint32_t *begin, *end;
};

// Whether the formula is true, given what *holds* says of facts; in the *loose* reading each
// negated fact counts as true. *at* moves behind it.
template <typename Holds>
bool evaluate(const uint32_t*& at, bool loose, const Holds& holds) {
    const uint32_t word = *at++;
    switch (kind_of(word)) {
        case HOLDS: return holds(number_in(word));
        case FAILS: return loose || !holds(number_in(word));
        default: break;
    }
    const bool all = kind_of(word) == ALL;
    for (const uint32_t* end = at + number_in(word); at != end;) {
        if (evaluate(at, loose, holds) != all) {
            at = end;
            return !all;
        }
    }
    return all;
}

// Add to *chosen* facts of which one must hold for the formula to hold, such that *price* finds
// them cheapest, and to *cost* what they cost. False if there are none such. *at* moves behind it.
template <typename Price>
bool cut(const uint32_t*& at, Words& chosen, uint32_t& cost, const Price& price) {
    const uint32_t word = *at++;
    switch (kind_of(word)) {
        case HOLDS:
            chosen.push_back(number_in(word));
            cost += price(number_in(word));
            return true;
        case FAILS: return false;
        default: break;
    }
    const uint32_t* end = at + number_in(word);
    if (kind_of(word) == ANY) {
        while (at != end) {
            if (!cut(at, chosen, cost, price)) {
                at = end;
                return false;
            }
        }
        return true;
    }
    bool found = false;
    Words best;
    uint32_t least = 0;
    while (at != end) {
        Words other;
        uint32_t here = 0;
        if (!cut(at, other, here, price) || (found && here >= least)) continue;
        found = true;
        best.swap(other);
        least = here;
    }
    chosen.insert(chosen.end(), best.begin(), best.end());
    cost += least;
    return found;
}

// Whether *fact* is one of the operands at *at*.
inline bool has_operand(const uint32_t* at, uint32_t fact) {
    const uint32_t* end = behind(at);
    for (++at; at != end; at = behind(at)) {
        if (*at == word(HOLDS, fact)) return true;
    }
    return false;
}

// Whether the formula at *at* asks for one of some facts, or for one not to hold.
inline bool is_clause(const uint32_t* at) {
    return is_literal(*at) || (kind_of(*at) == ANY && std::all_of(at + 1, behind(at), is_literal));
}

}  // namespace dragoman
