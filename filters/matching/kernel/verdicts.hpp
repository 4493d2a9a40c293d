// What the atoms that hold say of the filters that wait for them.
#pragma once

#include <algorithm>
#include <vector>

#include "branches.hpp"
#include "filters.hpp"
#include "interpreter.hpp"
#include "programs.hpp"
#include "watches.hpp"
#include "watching.hpp"

namespace dragoman {

// What one message says of the filters; all others are false.
struct Found {
    Words yes;
    Words doubtful;      // libxml2 has to decide
    Words unprogrammed;  // to be decided with their programs, see Engine::decide
};

class Verdicts {
  public:
    Verdicts(const Filters& filters, Watches& watches, Watching& watching, Branches& branches,
             const Programs& programs, Interpreter& interpreter)
        : filters_(filters),
          watches_(watches),
          watching_(watching),
          branches_(branches),
          programs_(programs),
          interpreter_(interpreter) {}

    // A filter with this number is new.
    void welcome(uint32_t number) {
        if (told_.size() <= number) told_.resize(number + 1);
        told_[number] = 0;
    }

    // Messages are counted anew.
    void forget_messages() { std::fill(told_.begin(), told_.end(), 0); }

    // Look at all that wait for one of the *fired* atoms, and at what always needs a look.
    // *unsure*: some number was doubtful.
    void find(const Words& fired, bool unsure, Found& found) {
        unsure_ = unsure;
        look_at(fired, found);
        for (uint32_t number : watching_.always()) judge(number, found);
    }

  private:
    static constexpr size_t AHEAD = 8;        // of what is looked at: memory is slower than we are
    static constexpr uint32_t PATIENCE = 32;  // looks in vain

    struct Look {
        uint32_t atom;
        Watch watch;
    };

    void look_at(const Words& fired, Found& found) {
        looks_.clear();
        for (size_t at = 0; at < fired.size(); ++at) {
            if (at + AHEAD < fired.size()) watches_.expect_watches(fired[at + AHEAD]);
            for (uint32_t place = 0; place < watches_.count(fired[at]); ++place) {
                looks_.push_back({fired[at], watches_.at(fired[at], place)});
            }
        }
        misplaced_.clear();
        for (size_t at = 0; at < looks_.size(); ++at) {
            expect(at);
            const Look& look = looks_[at];
            if (settle(look.watch, found)) continue;
            // To ask costs more than waiting elsewhere would save, but now and then.
            if (!(++patience_ % PATIENCE) && watching_.is_misplaced(look.watch.filter, look.atom)) {
                misplaced_.push_back(look.watch.filter);
            }
        }
        for (uint32_t number : misplaced_) watching_.move(number);
    }

    void expect(size_t at) const {
        if (at + 2 * AHEAD < looks_.size()) {
            const Watch& soon = looks_[at + 2 * AHEAD].watch;
            __builtin_prefetch(&told_[soon.filter]);
            if (soon.other() != Watch::NO_ATOM) watches_.expect(soon.other());
            if (!decides(soon)) filters_.expect(soon.filter);
        }
        if (at + AHEAD < looks_.size()) {
            const Watch& soon = looks_[at + AHEAD].watch;
            if (!decides(soon)) filters_.expect_formula(soon.filter);
        }
    }

    // Whether a watch tells the verdict of its filter on this message.
    bool decides(const Watch& watch) const {
        return watch.decides() && !unsure_ &&
               branches_.are_single(watch.branches, watches_.message());
    }

    bool is_told(uint32_t number) const { return told_[number] == watches_.message(); }

    // False if the formula is.
    bool settle(const Watch& watch, Found& found) {
        if (is_told(watch.filter)) return true;
        const uint32_t other = watch.other();
        if (other != Watch::NO_ATOM && !watches_.holds(other)) return false;
        if (!decides(watch)) return judge(watch.filter, found);
        told_[watch.filter] = watches_.message();
        found.yes.push_back(watch.filter);
        return true;
    }

    // False if the formula is.
    bool judge(uint32_t number, Found& found) {
        if (is_told(number)) return true;
        const Filter& filter = filters_[number];
        if (!holds(number, true)) return false;
        told_[number] = watches_.message();
        const Shape& shape = filter.shape;
        if (shape.exact && !(unsure_ && shape.numeric) &&
            branches_.are_single(filter.branches, watches_.message())) {
            if (holds(number, false)) found.yes.push_back(number);
        } else if (!shape.programmed) {
            found.doubtful.push_back(number);
        } else if (const uint32_t* program = programs_.find(number)) {
            const Verdict verdict = interpreter_.run(program);
            if (verdict != NO) (verdict == YES ? found.yes : found.doubtful).push_back(number);
        } else {
            found.unprogrammed.push_back(number);
        }
        return true;
    }

    bool holds(uint32_t number, bool loose) const {
        const uint32_t* at = filters_.formula_of(number).begin;
        return evaluate(at, loose, [&](uint32_t atom) { return watches_.holds(atom); });
    }

    const Filters& filters_;
    Watches& watches_;
    Watching& watching_;
    Branches& branches_;
    const Programs& programs_;
    Interpreter& interpreter_;
    std::vector<uint32_t> told_;  // of filters: the last message in which the verdict was found
    std::vector<Look> looks_;
    Words misplaced_;
    uint32_t patience_ = 0;
    bool unsure_ = false;
};

}  // namespace dragoman
