// Whether facts that hold, hold of the same element, where a branch has several.
//
// A branch is named with each of them by the record that asks, with the climb from there to it. An
// atom by its witness leads to one element at the branch, which all others must be about, too.
#pragma once

#include <algorithm>
#include <vector>

#include "agendas.hpp"
#include "climbs.hpp"
#include "facts.hpp"
#include "records.hpp"
#include "trie.hpp"
#include "values.hpp"
#include "witnesses.hpp"

namespace dragoman {

class Joins {
  public:
    Joins(const Trie& trie, const Climbs& climbs, const Facts& facts, const Agendas& agendas,
          const Witnesses& witnesses)
        : trie_(trie), climbs_(climbs), facts_(facts), agendas_(agendas), witnesses_(witnesses) {}

    // Another message, of which all facts are known.
    void begin() {
        families_.clear();
        members_.clear();
        family_at_.assign(witnesses_.size() * CODES, NONE);
    }

    // What a record says that waits for *fact*, whose parts hold: UNKNOWN says nothing.
    Verdict judge(const Record& record, uint32_t fact) {
        if (!record.has(Record::JOINED) || !witnesses_.have_states()) return UNKNOWN;
        const auto several = [&](uint32_t node) { return facts_.are_several(node); };
        const uint32_t* branch = record.branches();
        if (record.branches_end() - branch > 1) {
            branch = std::find_if(branch, record.branches_end(), several);
            if (std::any_of(branch + 1, record.branches_end(), several)) return UNKNOWN;
        }
        const Question question{*branch, fact, record.parts(), record.parts_end(),
                                record.climbs_to(branch)};
        visits_ = 0;
        Verdict verdict = NO;
        bool decisive = record.has(Record::LINEAR) && witnesses_.is_complete();
        if (const Anchor anchor = anchor_of(question); anchor.fact != NONE) {
            const uint32_t witness = witnesses_.of(anchor.fact);
            if (witness == Witnesses::MOST) return UNKNOWN;
            verdict = all(question, above(witness, anchor.steps), anchor.fact);
            decisive &= !witnesses_.is_repeated(anchor.fact);
        } else {
            for (uint32_t row = 0; row < witnesses_.size() && verdict != YES; ++row) {
                if (visits_ > MAX_VISITS) break;
                if (!is_at(row, question.branch)) continue;
                const Verdict here = all(question, row, NONE);
                if (here != NO) verdict = here;
            }
        }
        decisive &= visits_ <= MAX_VISITS;
        return verdict == NO && !decisive ? UNKNOWN : verdict;
    }

  private:
    static constexpr uint32_t MAX_VISITS = 512;  // of rows, in one question by other than climbs
    static constexpr uint32_t CODES = 8;         // of climbs with families: those of a few steps

    struct Question {
        uint32_t branch, fact;
        const uint32_t *parts, *parts_end;
        const Climb* climbs;
    };

    // An atom from whose element plain steps lead to that at the branch; NONE if there is none.
    struct Anchor {
        uint32_t fact, steps;
    };

    // The states that are met below an element, where a climb leads from.
    struct Family {
        uint32_t begin, end;  // among the members
        size_t words;         // of bits that each of them has at least
    };
    struct Member {
        uint32_t state;
        const uint64_t* nodes;  // bits
    };

    static Anchor anchor_of(const Question& question) {
        const Climb* climb = question.climbs;
        if (climb->is_plain() && !is_presence(question.fact)) {
            return {question.fact, climb->steps()};
        }
        for (const uint32_t* at = question.parts; at != question.parts_end; ++at) {
            const uint32_t fact = number_in(*at);
            ++climb;
            if (climb->is_plain() && !is_presence(fact)) return {fact, climb->steps()};
        }
        return {NONE, 0};
    }

    uint32_t above(uint32_t row, uint32_t steps) const {
        for (; steps; --steps) row = witnesses_[row].parent;
        return row;
    }

    // Whether all that is asked for, but for what is *known*, is so of the element with *row* at
    // the branch.
    Verdict all(const Question& question, uint32_t row, uint32_t known) {
        const Climb* climb = question.climbs;
        Verdict verdict = YES;
        if (question.fact != known) verdict = one(question.branch, row, question.fact, *climb);
        for (const uint32_t* at = question.parts; at != question.parts_end && verdict != NO; ++at) {
            ++climb;
            if (number_in(*at) == known) continue;
            const Verdict here = one(question.branch, row, number_in(*at), *climb);
            if (here != YES) verdict = here;
        }
        return verdict;
    }

    Verdict one(uint32_t branch, uint32_t row, uint32_t fact, Climb climb) {
        if (climb.octet == Climb::APART) return YES;
        if (is_presence(fact)) {
            const uint32_t node = index_of(fact);
            if (!climb.octet) return YES;
            const bool mixed = climb.octet == Climb::MIXED;
            return (mixed ? some_below(branch, row, node) : is_met(row, climb, node)) ? YES : NO;
        }
        const uint32_t witness = witnesses_.of(fact);
        if (witness == Witnesses::MOST) return UNKNOWN;
        bool found;
        if (climb.is_plain()) {
            found = above(witness, climb.steps()) == row;
        } else if (climb.is_loose()) {
            found = witnesses_.is_below(witness, row) &&
                    witnesses_[witness].depth >= witnesses_[row].depth + climb.steps();
        } else {
            found = leads(witness, climbs_.node_of(fact), row, branch);
        }
        return found ? YES : witnesses_.is_repeated(fact) ? UNKNOWN : NO;
    }

    // Whether there is an element at *node* where *climb* leads from, to *row*.
    bool is_met(uint32_t row, Climb climb, uint32_t node) {
        if (climb.steps() >= CODES / 2) {
            for (uint32_t below = row + 1; below < witnesses_[row].end; ++below) {
                if (++visits_ > MAX_VISITS) return false;
                if (is_within(below, row, climb) && is_at(below, node)) return true;
            }
            return false;
        }
        uint32_t& known = family_at_[row * CODES + climb.steps() * 2 + climb.is_loose()];
        if (known == NONE) known = make_family(row, climb);
        const Family& family = families_[known];
        const Member *at = members_.data() + family.begin, *end = members_.data() + family.end;
        const size_t word = node / Bits::SIZE;
        if (word >= family.words) {
            return std::any_of(at, end, [&](auto& one) { return agendas_.is_at(one.state, node); });
        }
        // To look at all costs less than to guess where to stop.
        uint64_t found = 0;
        for (; at != end; ++at) found |= at->nodes[word];
        return found >> node % Bits::SIZE & 1;
    }

    // Whether *climb* leads from a row below *row* to it.
    bool is_within(uint32_t below, uint32_t row, Climb climb) const {
        const uint32_t least = witnesses_[row].depth + climb.steps();
        const uint32_t depth = witnesses_[below].depth;
        return depth == least || (depth > least && climb.is_loose());
    }

    uint32_t make_family(uint32_t row, Climb climb) {
        const auto begin = uint32_t(members_.size());
        size_t words = ~size_t(0);
        for (uint32_t below = row + 1; below < witnesses_[row].end; ++below) {
            const uint32_t state = witnesses_[below].state;
            if (!is_within(below, row, climb) ||
                std::any_of(members_.begin() + begin, members_.end(),
                            [&](auto& one) { return one.state == state; })) {
                continue;
            }
            const SparseBits& nodes = agendas_[state].nodes();
            // Field by field: see Firing::put_off.
            Member& member = members_.emplace_back();
            member.state = state;
            member.nodes = nodes.data();
            words = std::min(words, nodes.size());
        }
        families_.push_back({begin, uint32_t(members_.size()), words});
        return uint32_t(families_.size() - 1);
    }

    bool some_below(uint32_t branch, uint32_t row, uint32_t node) {
        for (uint32_t below = row + 1; below < witnesses_[row].end; ++below) {
            if (++visits_ > MAX_VISITS) return false;
            if (is_at(below, node) && leads(below, node, row, branch)) return true;
        }
        return false;
    }

    // Whether the path up from *node*, at which the element with *row* is, may lead to that at the
    // branch with *top*.
    bool leads(uint32_t row, uint32_t node, uint32_t top, uint32_t branch) {
        while (node != branch) {
            if (++visits_ > MAX_VISITS || !witnesses_.is_below(row, top)) return false;
            const bool child = trie_[node].axis == CHILD;
            node = trie_[node].parent;
            row = witnesses_[row].parent;
            if (child) continue;
            for (; witnesses_.is_below(row, top); row = witnesses_[row].parent) {
                if (is_at(row, node) && leads(row, node, top, branch)) return true;
            }
        }
        return row == top;
    }

    bool is_at(uint32_t row, uint32_t node) const {
        return agendas_.is_at(witnesses_[row].state, node);
    }

    const Trie& trie_;
    const Climbs& climbs_;
    const Facts& facts_;
    const Agendas& agendas_;
    const Witnesses& witnesses_;
    std::vector<Family> families_;
    Words family_at_;  // by row and climb
    std::vector<Member> members_;
    uint32_t visits_ = 0;
};

}  // namespace dragoman
