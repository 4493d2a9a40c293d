// Records: what a filter asks for beside the fact that it waits for, where its formula is not all
// that short.
//
// The filter's number, a header, parts of the formula, which must all be true, and the branches.
// Where facts of the same elements may decide it, too, there follow climbs to each branch, from the
// fact first, then from each part: an octet each. Where filters may be met again, many ask for the
// same: then the other filters follow.
#pragma once

#include <algorithm>
#include <vector>

#include "climbs.hpp"
#include "containers.hpp"
#include "facts.hpp"
#include "formulas.hpp"

namespace dragoman {

class Record {
  public:
    static constexpr uint32_t EXACT = 1u << 24;     // the filter's formula decides, given branches
    static constexpr uint32_t NUMERIC = 1u << 25;   // unless a number was doubtful
    static constexpr uint32_t COMPLETE = 1u << 26;  // the parts are all that the formula asks for
    static constexpr uint32_t AGAIN = 1u << 27;     // the filter may be met elsewhere too
    static constexpr uint32_t JOINED = 1u << 28;    // there are climbs
    static constexpr uint32_t LINEAR = 1u << 29;    // no same element, and the filter is false

    explicit Record(const uint32_t* at) : at_(at) {}

    // *climb_of* gives the climb from a fact to a branch.
    template <typename ClimbOf>
    static Words compose(uint32_t filter, uint32_t flags, uint32_t fact, Words branches,
                         Words parts, const ClimbOf& climb_of) {
        // What is too long is left to the formula.
        if (branches.size() > MOST) {
            flags &= ~(EXACT | JOINED);
            branches.clear();
        }
        if (parts.size() > MOST) {
            flags &= ~(COMPLETE | JOINED);
            parts.clear();
        }
        const size_t climbs = branches.size() * (1 + parts.size());
        if (climbs > MOST_CLIMBS) flags &= ~JOINED;
        if (!parts.empty() && kind_of(parts[0]) == HOLDS) flags |= NEEDY;
        Words words{filter, flags};
        words.insert(words.end(), parts.begin(), parts.end());
        words.insert(words.end(), branches.begin(), branches.end());
        if (flags & JOINED) {
            std::vector<uint8_t> octets;
            for (uint32_t branch : branches) {
                octets.push_back(climb_of(fact, branch).octet);
                for (uint32_t part : parts) {
                    octets.push_back(climb_of(number_in(part), branch).octet);
                }
            }
            const size_t start = words.size();
            words.resize(start + (octets.size() + sizeof(uint32_t) - 1) / sizeof(uint32_t));
            std::copy(octets.begin(), octets.end(),
                      reinterpret_cast<uint8_t*>(words.data() + start));
        }
        const uint32_t simple = EXACT | COMPLETE;
        const bool facts = std::all_of(parts.begin(), parts.end(),
                                       [](uint32_t part) { return kind_of(part) == HOLDS; });
        if ((flags & (simple | AGAIN)) == simple && facts) words[1] |= SHORT;
        words[1] |= uint32_t(words.size() | parts.size() << PARTS | branches.size() << BRANCHES);
        return words;
    }

    uint32_t filter() const { return at_[0]; }
    bool has(uint32_t flag) const { return at_[1] & flag; }
    const uint32_t* parts() const { return at_ + HEADER; }
    const uint32_t* parts_end() const { return parts() + (at_[1] >> PARTS & 0xff); }
    const uint32_t* branches() const { return parts_end(); }
    const uint32_t* branches_end() const { return branches() + (at_[1] >> BRANCHES & 0xff); }
    uint32_t length() const { return at_[1] & 0xff; }

    // The others, if it may be met AGAIN.
    const uint32_t* others() const { return branches_end(); }
    const uint32_t* end() const { return at_ + length(); }
    uint32_t one_of_all(uint32_t turn) const {
        const auto more = has(AGAIN) ? uint32_t(end() - others()) : 0;
        const uint32_t at = turn % (1 + more);
        return at ? others()[at - 1] : filter();
    }
    bool is_of(uint32_t number) const {
        return filter() == number || (has(AGAIN) && std::find(others(), end(), number) != end());
    }
    // Whether there is room for the filter of *record*, which asks for the same.
    bool takes(const Words& record) const {
        return at_[1] >> PARTS == record[1] >> PARTS && length() < MOST_WORDS &&
               std::equal(record.begin() + HEADER, record.end(), parts());
    }

    // Whether the filter is true if `may_be_true` says so, all other parts, which are facts, hold,
    // each branch has one element, and no number was doubtful.
    bool is_short() const { return has(SHORT); }
    // The parts that `may_be_true` does not look at.
    const uint32_t* other_parts() const { return parts() + has(NEEDY); }
    // False if the first part is a fact that does not hold.
    bool may_be_true(const Facts& facts) const {
        return !has(NEEDY) || facts.holds(number_in(at_[HEADER]));
    }

    // The climbs to one of the branches, if the record is JOINED: from its fact, then from each
    // part.
    const Climb* climbs_to(const uint32_t* branch) const {
        return reinterpret_cast<const Climb*>(branches_end()) +
               (branch - branches()) * (1 + (parts_end() - parts()));
    }

  private:
    static constexpr uint32_t NEEDY = 1u << 30;  // the first part is a fact that must hold
    static constexpr uint32_t SHORT = 1u << 31;
    static constexpr uint32_t PARTS = 8, BRANCHES = 16;  // shifts; the length comes first
    static constexpr uint32_t HEADER = 2, MOST = 24, MOST_CLIMBS = 64;
    static constexpr uint32_t MOST_WORDS = 0xff;

    const uint32_t* at_;
};

}  // namespace dragoman
