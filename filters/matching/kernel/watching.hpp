// Under which atoms each filter waits.
//
// Each is filed under atoms of which one must hold if its formula does. One that is looked at in
// vain moves to atoms that hold less often, much as solvers of satisfiability watch literals: so it
// ends up under what is rarely true.
#pragma once

#include <algorithm>

#include "atoms.hpp"
#include "filters.hpp"
#include "formulas.hpp"
#include "watches.hpp"

namespace dragoman {

class Watching {
  public:
    Watching(const Atoms& atoms, Filters& filters, Watches& watches)
        : atoms_(atoms), filters_(filters), watches_(watches) {}

    // Those for which no atom need hold.
    const Words& always() const { return always_; }

    void add(uint32_t number) {
        if (watch(number)) return;
        filters_[number].always = true;
        always_.push_back(number);
    }

    void erase(uint32_t number) {
        unwatch(number);
        if (!filters_[number].always) return;
        auto place = std::find(always_.begin(), always_.end(), number);
        if (place == always_.end()) return;
        *place = always_.back();
        always_.pop_back();
    }

    void move(uint32_t number) {
        unwatch(number);
        watch(number);
    }

    // Whether a filter that was looked at in vain, by *atom*, should be filed elsewhere.
    bool is_misplaced(uint32_t number, uint32_t atom) {
        uint32_t cost = 0;
        choose(number, cost);
        // Not for a small gain, for others would make it move back.
        return std::find(chosen_.begin(), chosen_.end(), atom) == chosen_.end() &&
               cost < watches_.heat(atom) / 4 * 3;
    }

  private:
    static constexpr uint32_t SEVERAL = NONE - 1;  // watched: more than one atom
    // What holds wherever an element is, many wait for, and it says little.
    static constexpr uint32_t PRESENCE_COST = 64;

    bool choose(uint32_t number, uint32_t& cost) {
        chosen_.clear();
        const uint32_t* at = filters_.formula_of(number).begin;
        return cut(at, chosen_, cost, [&](uint32_t atom) {
            return 1 + watches_.heat(atom) + (atoms_[atom].table == NONE ? PRESENCE_COST : 0);
        });
    }

    bool watch(uint32_t number) {
        uint32_t cost = 0;
        if (!choose(number, cost)) return false;
        Filter& filter = filters_[number];
        filter.watched = chosen_.size() == 1 ? chosen_[0] : SEVERAL;
        for (uint32_t atom : chosen_) {
            watches_.add(atom, {number, also_of(number, atom), filter.branches});
        }
        return true;
    }

    void unwatch(uint32_t number) {
        Filter& filter = filters_[number];
        if (filter.watched == SEVERAL) {
            const Formula formula = filters_.formula_of(number);
            for (const uint32_t* at = formula.begin; at != formula.end; ++at) {
                if (kind_of(*at) == HOLDS) watches_.erase_filter(number_in(*at), number);
            }
        } else if (filter.watched != NONE) {
            watches_.erase_filter(filter.watched, number);
        }
        filter.watched = NONE;
    }

    // What a watch under *atom* says of the rest of the formula: another atom that it needs, if
    // there is one, and whether both decide it.
    uint32_t also_of(uint32_t number, uint32_t atom) const {
        const uint32_t decides = filters_[number].shape.exact ? Watch::DECIDES : 0;
        auto [at, end] = filters_.formula_of(number);
        if (kind_of(*at) == HOLDS) return decides | Watch::NO_ATOM;
        if (kind_of(*at) == ANY) return (has_operand(at, atom) ? decides : 0) | Watch::NO_ATOM;
        uint32_t also = Watch::NO_ATOM, others = 0;
        for (++at; at != end; at = behind(at)) {
            if (*at == word(HOLDS, atom) || (kind_of(*at) == ANY && has_operand(at, atom)))
                continue;
            ++others;
            if (kind_of(*at) != HOLDS) {
                ++others;
            } else if (also == Watch::NO_ATOM ||
                       watches_.heat(number_in(*at)) < watches_.heat(also)) {
                also = number_in(*at);
            }
        }
        return (others <= 1 ? decides : 0) | also;
    }

    const Atoms& atoms_;
    Filters& filters_;
    Watches& watches_;
    Words always_, chosen_;
};

}  // namespace dragoman
