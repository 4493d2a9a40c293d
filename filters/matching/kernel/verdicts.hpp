// What the facts of a message say of the filters that wait for them.
#pragma once

#include <algorithm>
#include <vector>

#include "bits.hpp"
#include "facts.hpp"
#include "filters.hpp"
#include "interpreter.hpp"
#include "joins.hpp"
#include "programs.hpp"
#include "records.hpp"
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
    Verdicts(const Filters& filters, const Facts& facts, Joins& joins, Watches& watches,
             Watching& watching, const Branches& branches, const Programs& programs,
             Interpreter& interpreter)
        : filters_(filters),
          facts_(facts),
          joins_(joins),
          watches_(watches),
          watching_(watching),
          branches_(branches),
          programs_(programs),
          interpreter_(interpreter) {}

    // Look at all that wait for nodes with elements, for one of the *fired* atoms, and at what
    // always needs a look. *unsure*: some number was doubtful.
    void find(const Words& fired, bool unsure, Found& found) {
        unsure_ = unsure;
        joins_.begin();
        forget_told();
        told_.reserve(filters_.bound());
        count_ = 0;
        misplaced_.clear();
        look_at_all(fired, found);
        for (uint32_t number : watching_.always()) judge(number, found);
        for (uint32_t number : misplaced_) watching_.move(number);
        found.yes.assign(yes_.begin(), yes_.begin() + ptrdiff_t(count_));
    }

    // Forget the message: what was told of it by half is worth nothing.
    void forget() noexcept {
        told_.clear();
        told_now_.clear();
    }

  private:
    static constexpr size_t AHEAD = 8;        // of what is looked at: memory is slower than we are
    static constexpr uint32_t LEAST_PATIENCE = 8, MOST_PATIENCE = 1024;  // looks in vain
    static constexpr size_t MANY_TOLD = 256;  // more are forgotten all at once

    void look_at_all(const Words& fired, Found& found) {
        looks_.clear();
        facts_.nodes().each_in(watches_.watched_nodes(),
                               [&](uint32_t node) { looks_.push_back(node | PRESENT); });
        looks_.insert(looks_.end(), fired.begin(), fired.end());
        if (!unsure_) accept_alone();
        const size_t count = looks_.size();
        for (size_t at = 0; at < count; ++at) {
            if (at + AHEAD < count) watches_.expect_waiting(looks_[at + AHEAD]);
            look_at(looks_[at], found);
        }
    }

    // Where one filter waits, which is decided, it is: many do, and which, is not to be guessed, so
    // no branch depends on it. The other looks are left.
    void accept_alone() {
        const size_t count = looks_.size();
        if (yes_.size() < count) yes_.resize(2 * count);
        uint32_t* looks = looks_.data();
        uint32_t* yes = yes_.data();
        size_t left = 0, accepted = 0;
        for (size_t at = 0; at < count; ++at) {
            if (at + 2 * AHEAD < count) watches_.expect(looks[at + 2 * AHEAD]);
            const uint32_t fact = looks[at];
            const uint32_t alone = watches_.alone(fact);
            yes[accepted] = alone;
            accepted += alone != NONE;
            looks[left] = fact;
            left += alone == NONE;
        }
        count_ = accepted;
        looks_.resize(left);
    }

    [[gnu::always_inline]] void look_at(uint32_t fact, Found& found) {
        const Waiting waiting = watches_.waiting(fact);
        // Each of its words may be a filter.
        const size_t most = count_ + waiting.words();
        if (yes_.size() < most) yes_.resize(2 * most);
        if (unsure_) judge_all(waiting, found);
        else accept_all(waiting);
        for (const uint32_t* at = waiting.records; at != waiting.records_end;) {
            const Record record(at);
            at = record.end();
            if (record.may_be_true(facts_)) {
                const bool decides = record.is_short() && !unsure_;
                const bool true_if_single = decides && hold(record);
                if (true_if_single) {
                    if (are_single(record)) yes_[count_++] = record.filter();
                    else join(record, fact, found);
                    continue;
                }
                if (!decides && settle(record, fact, found)) continue;
            }
            if (!--patience_) ask_whether_misplaced(record.one_of_all(++turn_), fact);
        }
    }

    // To ask costs more than waiting elsewhere would save, but now and then: the less often, the
    // more filters were asked that stay.
    void ask_whether_misplaced(uint32_t number, uint32_t fact) {
        if (watching_.is_misplaced(number, fact)) {
            misplaced_.push_back(number);
            looks_in_vain_ = std::max(looks_in_vain_ / 4, LEAST_PATIENCE);
        } else {
            looks_in_vain_ = std::min(looks_in_vain_ * 2, MOST_PATIENCE);
        }
        patience_ = looks_in_vain_;
    }

    // Whether all other parts do, which are facts. All are asked, for to guess where to stop costs
    // more.
    bool hold(const Record& record) const {
        bool found = true;
        for (const uint32_t* at = record.other_parts(); at != record.parts_end(); ++at) {
            found &= facts_.holds(number_in(*at));
        }
        return found;
    }

    void accept_all(const Waiting& waiting) {
        for (const uint32_t* at = waiting.decided; at != waiting.decided_end; ++at) {
            const uint32_t number = Waiting::number_in(*at);
            yes_[count_] = number;
            count_ += !(*at & Waiting::AGAIN) || tell(number);
        }
    }

    void accept(uint32_t number) {
        if (yes_.size() == count_) yes_.resize(2 * count_ + 1);
        yes_[count_++] = number;
    }

    void judge_all(const Waiting& waiting, Found& found) {
        for (const uint32_t* at = waiting.decided; at != waiting.decided_end; ++at) {
            judge(Waiting::number_in(*at), found);
        }
    }

    // All that a short record asks for holds; whether it does of the same elements is still to be
    // seen.
    [[gnu::noinline]] void join(Record record, uint32_t fact, Found& found) {
        const Verdict verdict = joins_.judge(record, fact);
        if (verdict == YES) yes_[count_++] = record.filter();
        else if (verdict == UNKNOWN) judge(record.filter(), found);
    }

    // False if the formulas are.
    [[gnu::noinline]] bool settle(Record record, uint32_t fact, Found& found) {
        const bool decides = record.has(Record::EXACT) &&
                             !(unsure_ && record.has(Record::NUMERIC)) &&
                             are_single(record);
        for (const uint32_t* at = record.other_parts(); at != record.parts_end();) {
            if (!is_true(at, !decides)) return false;
        }
        if (!(decides && record.has(Record::COMPLETE))) {
            const bool sure = !(unsure_ && record.has(Record::NUMERIC));
            const Verdict verdict = sure ? joins_.judge(record, fact) : UNKNOWN;
            if (verdict == NO) return true;
            if (verdict == UNKNOWN) return judge_all(record, found);
        }
        if (record.has(Record::AGAIN)) accept_all(record);
        else accept(record.filter());
        return true;
    }

    void accept_all(const Record& record) {
        if (tell(record.filter())) accept(record.filter());
        for (const uint32_t* at = record.others(); at != record.end(); ++at) {
            if (tell(*at)) accept(*at);
        }
    }

    bool judge_all(const Record& record, Found& found) {
        bool some = judge(record.filter(), found);
        if (!record.has(Record::AGAIN)) return some;
        for (const uint32_t* at = record.others(); at != record.end(); ++at) {
            some |= judge(*at, found);
        }
        return some;
    }

    // Whether a part of a record is, as by `evaluate`: of some facts, all are asked, for to guess
    // where to stop costs more. *at* moves behind it.
    bool is_true(const uint32_t*& at, bool loose) const {
        const uint32_t word = *at++;
        if (kind_of(word) == HOLDS) return facts_.holds(number_in(word));
        if (kind_of(word) == FAILS) return loose || !facts_.holds(number_in(word));
        bool found = false;
        for (const uint32_t* end = at + number_in(word); at != end; ++at) {
            const bool fails = kind_of(*at) == FAILS;
            found |= facts_.holds(number_in(*at)) != fails || (loose && fails);
        }
        return found;
    }

    // False if the formula is.
    bool judge(uint32_t number, Found& found) {
        if (told_.has(number)) return true;
        const Filter& filter = filters_[number];
        if (!holds(number, true)) return false;
        tell(number);
        const Shape& shape = filter.shape;
        const Words& branches = branches_[filter.branches];
        if (shape.exact && !(unsure_ && shape.numeric) &&
            are_single(branches.data(), branches.data() + branches.size())) {
            if (holds(number, false)) accept(number);
        } else if (!shape.programmed) {
            found.doubtful.push_back(number);
        } else if (const uint32_t* program = programs_.find(number)) {
            const Verdict verdict = interpreter_.run(program);
            if (verdict == YES) accept(number);
            else if (verdict == UNKNOWN) found.doubtful.push_back(number);
        } else {
            found.unprogrammed.push_back(number);
        }
        return true;
    }

    // False if the verdict on the filter was told already.
    bool tell(uint32_t number) {
        if (!told_.put(number)) return false;
        if (told_now_.size() <= MANY_TOLD) told_now_.push_back(number);
        return true;
    }

    void forget_told() {
        if (told_now_.size() > MANY_TOLD) {
            told_.clear();
        } else {
            for (uint32_t number : told_now_) told_.erase(number);
        }
        told_now_.clear();
    }

    bool are_single(const Record& record) const {
        return are_single(record.branches(), record.branches_end());
    }
    bool are_single(const uint32_t* nodes, const uint32_t* end) const {
        bool several = false;
        for (; nodes != end; ++nodes) several |= facts_.are_several(*nodes);
        return !several;
    }

    bool holds(uint32_t number, bool loose) const {
        const uint32_t* at = filters_.formula_of(number).begin;
        return evaluate(at, loose, holds_);
    }

    struct Holds {
        const Facts& facts;
        bool operator()(uint32_t fact) const { return facts.holds(fact); }
    };

    const Filters& filters_;
    const Facts& facts_;
    Joins& joins_;
    Watches& watches_;
    Watching& watching_;
    const Branches& branches_;
    const Programs& programs_;
    Interpreter& interpreter_;
    const Holds holds_{facts_};
    Bits told_;       // filters that may be met again, and whose verdict was found
    Words told_now_;  // the same, unless there are more than MANY_TOLD
    Words looks_, misplaced_;
    Words yes_;  // with more room than there is need
    size_t count_ = 0;
    uint32_t looks_in_vain_ = LEAST_PATIENCE;  // until a filter is asked whether to move
    uint32_t patience_ = LEAST_PATIENCE;       // what is left of them
    uint32_t turn_ = 0;                        // of those who are asked
    bool unsure_ = false;
};

}  // namespace dragoman
