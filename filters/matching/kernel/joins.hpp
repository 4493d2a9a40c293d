// Whether facts that hold, hold of the same element, where branches have several.
//
// A branch is named with each of them by the record that asks, with the climb from there to it. The
// elements because of which atoms hold lead to those at the branch below which all do; where two
// branches have several, the lower one's lead to the upper one's.
#pragma once

#include <algorithm>
#include <utility>
#include <vector>

#include "agendas.hpp"
#include "climbs.hpp"
#include "facts.hpp"
#include "lifts.hpp"
#include "records.hpp"
#include "values.hpp"
#include "witnesses.hpp"

namespace dragoman {

class Joins {
  public:
    Joins(const Facts& facts, const Agendas& agendas, const Witnesses& witnesses, Lifts& lifts)
        : facts_(facts), agendas_(agendas), witnesses_(witnesses), lifts_(lifts) {}

    // Another message, of which all facts are known.
    void begin() {
        families_.clear();
        members_.clear();
        united_.clear();
        family_at_.assign(witnesses_.size() * CODES, NONE);
        lifts_.begin();
    }

    // What a record says that waits for *fact*, whose parts hold: UNKNOWN says nothing.
    Verdict judge(const Record& record, uint32_t fact) {
        if (!record.has(Record::JOINED) || !witnesses_.have_states()) return UNKNOWN;
        bool decisive = record.has(Record::LINEAR) && witnesses_.is_complete();
        visits_ = 0;
        switch (look_at_first(record, fact, decisive)) {
            case MET: return YES;
            case MISSED: return decisive ? NO : UNKNOWN;
            case OPEN: visits_ = 0;
        }
        const uint32_t* below = nullptr;
        for (const uint32_t* branch = record.branches_end(); branch-- != record.branches();) {
            if (!facts_.are_several(*branch)) continue;
            if (below && !record.has(Record::LINEAR)) return UNKNOWN;
            rows_.swap(rows_below_);
            const bool uppermost =
                std::none_of(record.branches(), branch,
                             [&](uint32_t node) { return facts_.are_several(node); });
            const bool some = narrow({record, fact, branch, below}, uppermost, decisive);
            if (!some) return decisive ? NO : UNKNOWN;
            below = branch;
        }
        return YES;
    }

  private:
    static constexpr uint32_t CODES = 16;  // of climbs with families: those of a few steps
    // Few families are asked about often: in a message of SIRI, for filters with three predicates, 26
    // of ten states each, 1,300 times. To unite the nodes of a family costs a few such questions.
    static constexpr uint32_t MANY_ASK = 8;
    static constexpr size_t MOST_UNITED = 1u << 17;  // words: a megabyte

    // What is asked for at *branch*, and not at the one *below*, if there is any.
    struct Question {
        const Record& record;
        uint32_t fact;
        const uint32_t *branch, *below;

        // Call *take* with each fact and its climb.
        template <typename Take>
        void each(Take take) const {
            const Climb* climb = record.climbs_to(branch);
            const Climb* lower = below ? record.climbs_to(below) : nullptr;
            const size_t count = 1 + size_t(record.parts_end() - record.parts());
            for (size_t at = 0; at < count; ++at) {
                if (climb[at].octet == Climb::APART) continue;
                if (lower && lower[at].octet != Climb::APART) continue;
                take(at ? number_in(record.parts()[at - 1]) : fact, climb[at]);
            }
        }
    };

    // The states that are met below an element, where a climb leads from.
    struct Family {
        uint32_t begin, end;     // among the members
        bool plain;              // the nodes of each are known as bits
        uint32_t asked = 0;      // how often
        uint32_t united = NONE;  // where the nodes of all are, as bits
    };
    struct Member {
        uint32_t state;
        uint32_t row;  // of the first element in that state
        const SparseBits* nodes;
    };

    enum Answer : uint8_t { MET, MISSED, OPEN };

    // The only branch of a record with several elements, or null.
    const uint32_t* only_branch(const Record& record) const {
        const uint32_t* found = nullptr;
        for (const uint32_t* at = record.branches(); at != record.branches_end(); ++at) {
            if (!facts_.are_several(*at)) continue;
            if (found) return nullptr;
            found = at;
        }
        return found;
    }

    // Whether all is true of what the first element because of which an atom holds leads to, at the
    // only branch with several. Mostly it is, or the atom holds of no other element, and so it is
    // MISSED: that is asked first, in as few steps as may be. *decisive* becomes false if it may be
    // met after all.
    Answer look_at_first(const Record& record, uint32_t fact, bool& decisive) {
        const uint32_t* branch = only_branch(record);
        if (!branch) return OPEN;
        const Climb* climb = record.climbs_to(branch);
        const uint32_t* parts = record.parts();
        const size_t count = size_t(record.parts_end() - parts);
        uint32_t row = Witnesses::MOST;
        bool alone = false;
        for (size_t at = 0; at <= count && !alone; ++at) {
            const uint32_t one = at ? number_in(parts[at - 1]) : fact;
            if (is_presence(one) || !climb[at].is_plain()) continue;
            const uint32_t first = witnesses_.first(one);
            if (first == Witnesses::MOST) continue;
            alone = !witnesses_.is_repeated(one);
            if (alone || row == Witnesses::MOST) row = witnesses_.above(first, climb[at].steps());
        }
        if (row == Witnesses::MOST) return OPEN;
        for (size_t at = 0; at <= count; ++at) {
            const uint32_t one = at ? number_in(parts[at - 1]) : fact;
            if (climb[at].octet == Climb::APART) continue;
            bool met = true;
            if (is_presence(one)) {
                if (climb[at].octet) met = is_met(*branch, row, climb[at], index_of(one));
            } else if (alone) {
                met = lifts_.holds_below(row, one, *branch, climb[at], decisive);
            } else {
                met = witnesses_.is_first_below(one, row, climb[at]);
            }
            if (met) continue;
            decisive &= visits_ <= Lifts::MOST_VISITS;
            return alone ? MISSED : OPEN;
        }
        return MET;
    }

    // Find the rows at a branch of which all is true that is asked for there, given those at the
    // one below; of the *uppermost* branch one is enough. False if there are none; *decisive*
    // becomes false if there may be others.
    bool narrow(const Question& question, bool uppermost, bool& decisive) {
        const uint32_t branch = *question.branch;
        bool presences = false, atoms = false, alone = false;
        uint32_t anchor = Witnesses::MOST;
        question.each([&](uint32_t fact, Climb climb) {
            if (is_presence(fact)) {
                presences |= climb.octet != 0;
                return;
            }
            atoms = true;
            if (alone || !climb.is_plain()) return;
            const uint32_t first = witnesses_.first(fact);
            if (first == Witnesses::MOST) return;
            alone = !witnesses_.is_repeated(fact);
            anchor = witnesses_.above(first, climb.steps());
        });
        if (alone) {
            if (!is_met_by(anchor, question, decisive)) return false;
            if (uppermost && !question.below) return true;
            lifts_.fill(rows_, anchor);
            presences = false;
        } else {
            lifts_.fill(rows_);
            question.each([&](uint32_t fact, Climb climb) {
                if (!is_presence(fact)) decisive &= lifts_.narrow(rows_, fact, branch, climb);
            });
            if (!atoms && !question.below) lifts_.narrow(rows_, branch | PRESENT, branch, {0});
        }
        if (question.below) {
            decisive &= lifts_.narrow(rows_, rows_below_, *question.below, branch);
        }
        const bool some = presences ? keep_with_presences(question, uppermost) : any(rows_);
        decisive &= visits_ <= Lifts::MOST_VISITS;
        return some;
    }

    static bool any(const Rows& rows) {
        uint64_t found = 0;
        for (uint64_t word : rows) found |= word;
        return found;
    }

    // Whether all is true of one row, but for what is asked for at the branch below.
    bool is_met_by(uint32_t row, const Question& question, bool& decisive) {
        const uint32_t branch = *question.branch;
        bool met = true;
        question.each([&](uint32_t fact, Climb climb) {
            if (met && !is_presence(fact)) {
                met = lifts_.holds_below(row, fact, branch, climb, decisive);
            }
        });
        met = met && have_presences(row, question);
        decisive &= visits_ <= Lifts::MOST_VISITS;
        return met;
    }

    // Leave those of the rows below which elements are that are asked for, or only the first one.
    bool keep_with_presences(const Question& question, bool first) {
        bool some = false;
        for (size_t at = 0; at < rows_.size(); ++at) {
            for (uint64_t left = rows_[at]; left; left &= left - 1) {
                const auto row = uint32_t(at * Bits::SIZE + size_t(__builtin_ctzll(left)));
                if (!have_presences(row, question)) {
                    rows_[at] &= ~BitsAt::bit(row);
                } else if (first) {
                    return true;
                } else {
                    some = true;
                }
            }
        }
        return some;
    }

    bool have_presences(uint32_t row, const Question& question) {
        bool met = true;
        question.each([&](uint32_t fact, Climb climb) {
            if (!met || !is_presence(fact) || !climb.octet) return;
            met = is_met(*question.branch, row, climb, index_of(fact));
        });
        return met;
    }

    // Whether there is an element at *node* where *climb* leads from, to *row* at the branch.
    bool is_met(uint32_t branch, uint32_t row, Climb climb, uint32_t node) {
        if (climb.octet == Climb::MIXED) return is_met_below(branch, row, node);
        if (climb.steps() >= CODES / 2) return some_below(branch, row, climb, node);
        Family& family = family_of(row, climb);
        if (++family.asked == MANY_ASK) unite(family);
        if (family.united != NONE) {
            return united_[family.united + node / Bits::SIZE] & BitsAt::bit(node);
        }
        const Member *at = members_.data() + family.begin, *end = members_.data() + family.end;
        if (!family.plain) {
            return std::any_of(at, end, [&](auto& one) { return agendas_.is_at(one.state, node); });
        }
        // To look at all costs less than to guess where to stop.
        uint64_t found = 0;
        for (; at != end; ++at) found |= at->nodes->word(node / Bits::SIZE);
        return found & BitsAt::bit(node);
    }

    // The same of a climb by other steps. Of the elements of one state, mostly the first one leads
    // to *row*, if any does.
    bool is_met_below(uint32_t branch, uint32_t row, uint32_t node) {
        const Family& family = family_of(row, {Climb::LOOSE | 1});
        bool some = false;
        for (uint32_t at = family.begin; at != family.end; ++at) {
            const Member& member = members_[at];
            if (!agendas_.is_at(member.state, node)) continue;
            if (lifts_.leads(member.row, node, row, branch, visits_)) return true;
            some = true;
        }
        return some && some_below(branch, row, {Climb::MIXED}, node);
    }

    bool some_below(uint32_t branch, uint32_t row, Climb climb, uint32_t node) {
        const bool mixed = climb.octet == Climb::MIXED;
        for (uint32_t below = row + 1; below < witnesses_[row].end; ++below) {
            if (++visits_ > Lifts::MOST_VISITS) return false;
            if (!mixed && !is_within(below, row, climb)) continue;
            if (!lifts_.is_at(below, node)) continue;
            if (!mixed || lifts_.leads(below, node, row, branch, visits_)) return true;
        }
        return false;
    }

    // Whether *climb* leads from a row below *row* to it.
    bool is_within(uint32_t below, uint32_t row, Climb climb) const {
        const uint32_t least = witnesses_[row].depth + climb.steps();
        const uint32_t depth = witnesses_[below].depth;
        return depth == least || (depth > least && climb.is_loose());
    }

    // Put the nodes of all members into one row of bits, if there is room.
    void unite(Family& family) {
        const size_t size = facts_.nodes().size(), place = united_.size();
        if (!family.plain || place + size > MOST_UNITED) return;
        united_.resize(place + size);
        for (uint32_t at = family.begin; at != family.end; ++at) {
            for (const BitsAt& word : members_[at].nodes->used()) {
                united_[place + word.at] |= word.bits;
            }
        }
        family.united = uint32_t(place);
    }

    Family& family_of(uint32_t row, Climb climb) {
        uint32_t& known = family_at_[row * CODES + climb.steps() * 2 + climb.is_loose()];
        if (known == NONE) known = make_family(row, climb);
        return families_[known];
    }

    uint32_t make_family(uint32_t row, Climb climb) {
        const auto begin = uint32_t(members_.size());
        if (!++made_) {
            last_family_.clear();
            made_ = 1;
        }
        bool plain = true;
        for (uint32_t below = row + 1; below < witnesses_[row].end; ++below) {
            const uint32_t state = witnesses_[below].state;
            if (!is_within(below, row, climb) || is_member(state)) continue;
            const SparseBits& nodes = agendas_[state].nodes();
            // Field by field: see Firing::put_off.
            Member& member = members_.emplace_back();
            member.state = state;
            member.row = below;
            member.nodes = &nodes;
            plain &= nodes.size() != 0;
        }
        families_.push_back({begin, uint32_t(members_.size()), plain});
        return uint32_t(families_.size() - 1);
    }

    // Whether a state is in the family that is being made; from now on it is.
    bool is_member(uint32_t state) {
        if (state >= last_family_.size()) last_family_.resize(state + 1);
        return std::exchange(last_family_[state], made_) == made_;
    }

    const Facts& facts_;
    const Agendas& agendas_;
    const Witnesses& witnesses_;
    Lifts& lifts_;
    std::vector<Family> families_;
    Words family_at_;  // by row and climb
    std::vector<Member> members_;
    std::vector<uint64_t> united_;  // bits of families
    Words last_family_;  // that each state came into, of all that were ever made
    uint32_t made_ = 0;
    Rows rows_, rows_below_;  // at a branch, and at the one below it
    uint32_t visits_ = 0;
};

}  // namespace dragoman
