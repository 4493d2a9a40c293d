// For which facts each filter waits.
//
// Each waits for facts of which one must hold if its formula does. One that is looked at in vain
// moves to facts that hold less often, much as solvers of satisfiability watch literals: so it ends
// up under what is rarely true.
#pragma once

#include <algorithm>

#include "branches.hpp"
#include "climbs.hpp"
#include "filters.hpp"
#include "formulas.hpp"
#include "records.hpp"
#include "watches.hpp"

namespace dragoman {

class Watching {
  public:
    Watching(Filters& filters, const Branches& branches, const Climbs& climbs, Watches& watches)
        : filters_(filters), branches_(branches), climbs_(climbs), watches_(watches) {}

    // Those for which no fact need hold.
    const Words& always() const { return always_; }

    void add(uint32_t number) {
        if (!watch(number)) look_always(number);
    }

    void erase(uint32_t number) noexcept {
        unwatch(number);
        if (!filters_[number].always) return;
        auto place = std::find(always_.begin(), always_.end(), number);
        if (place == always_.end()) return;
        *place = always_.back();
        always_.pop_back();
    }

    void move(uint32_t number) {
        reserve_for(always_, 1);
        unwatch(number);
        try {
            watch(number);
        } catch (...) {
            // Who waits nowhere would never be found.
            unwatch(number);
            look_always(number);
            throw;
        }
    }

    // Whether a filter that was looked at in vain, because of *fact*, should wait elsewhere.
    bool is_misplaced(uint32_t number, uint32_t fact) {
        uint32_t cost = 0;
        choose(number, cost);
        // Not for a small gain, for others would make it move back.
        return std::find(chosen_.begin(), chosen_.end(), fact) == chosen_.end() &&
               cost < watches_.heat(fact) / 4 * 3;
    }

  private:
    static constexpr uint32_t SEVERAL = NONE - 1;  // watched: more than one fact
    // What holds wherever an element is, many wait for, and it says little.
    static constexpr uint32_t PRESENCE_COST = 64;

    void look_always(uint32_t number) {
        reserve_for(always_, 1);
        filters_[number].always = true;
        always_.push_back(number);
    }

    bool choose(uint32_t number, uint32_t& cost) {
        chosen_.clear();
        const uint32_t* at = filters_.formula_of(number).begin;
        return cut(at, chosen_, cost, [&](uint32_t fact) {
            return 1 + watches_.heat(fact) + (is_presence(fact) ? PRESENCE_COST : 0);
        });
    }

    bool watch(uint32_t number) {
        uint32_t cost = 0;
        if (!choose(number, cost)) return false;
        filters_[number].watched = chosen_.size() == 1 ? chosen_[0] : SEVERAL;
        for (uint32_t fact : chosen_) wait(number, fact);
        return true;
    }

    void unwatch(uint32_t number) noexcept {
        Filter& filter = filters_[number];
        if (filter.watched == SEVERAL) {
            const Formula formula = filters_.formula_of(number);
            for (const uint32_t* at = formula.begin; at != formula.end; ++at) {
                if (kind_of(*at) == HOLDS) leave(number | Waiting::AGAIN, number, number_in(*at));
            }
        } else if (filter.watched != NONE) {
            leave(number, number, filter.watched);
        }
        filter.watched = NONE;
    }

    void wait(uint32_t number, uint32_t fact) {
        const Filter& filter = filters_[number];
        const bool again = filter.watched == SEVERAL;
        Words parts;
        const bool complete = rest_of(number, fact, parts);
        if (complete && parts.empty() && filter.shape.exact && filter.branches == NONE) {
            watches_.add(fact, again ? number | Waiting::AGAIN : number);
            return;
        }
        const bool joined = filter.shape.exact && filter.shape.positive && complete && !again &&
                            std::all_of(parts.begin(), parts.end(),
                                        [](uint32_t part) { return kind_of(part) == HOLDS; });
        const uint32_t flags = (joined ? Record::JOINED : 0) |
                               (filter.shape.linear ? Record::LINEAR : 0) |
                               (filter.shape.exact ? Record::EXACT : 0) |
                               (filter.shape.numeric ? Record::NUMERIC : 0) |
                               (complete ? Record::COMPLETE : 0) | (again ? Record::AGAIN : 0);
        watches_.add_record(fact,
                            Record::compose(number, flags, fact, branches_[filter.branches], parts,
                                            [&](uint32_t one, uint32_t branch) {
                                                return climbs_.of(one, branch);
                                            }));
    }

    void leave(uint32_t decided, uint32_t number, uint32_t fact) {
        watches_.erase(fact, decided, number);
    }

    // Parts of the formula that must all be true beside *fact*; false if it asks for still more.
    bool rest_of(uint32_t number, uint32_t fact, Words& parts) const {
        auto [at, end] = filters_.formula_of(number);
        if (kind_of(*at) == HOLDS) return true;
        if (kind_of(*at) == ANY) return has_operand(at, fact);
        bool complete = true;
        Words others;
        for (++at; at != end; at = behind(at)) {
            if (*at == word(HOLDS, fact) || (kind_of(*at) == ANY && has_operand(at, fact)))
                continue;
            if (kind_of(*at) == HOLDS) parts.push_back(*at);
            else if (is_clause(at)) others.insert(others.end(), at, behind(at));
            else complete = false;
        }
        // What rarely holds is asked first.
        std::sort(parts.begin(), parts.end(), [&](uint32_t a, uint32_t b) {
            return watches_.heat(number_in(a)) < watches_.heat(number_in(b));
        });
        parts.insert(parts.end(), others.begin(), others.end());
        return complete;
    }

    Filters& filters_;
    const Branches& branches_;
    const Climbs& climbs_;
    Watches& watches_;
    Words always_, chosen_;
};

}  // namespace dragoman
