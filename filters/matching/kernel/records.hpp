// Records: what a filter asks for beside the fact that it waits for, where its formula is not all
// that short.
//
// A mark with the filter's number, a header, the branches, and parts of the formula which must all
// be true.
#pragma once

#include "containers.hpp"
#include "formulas.hpp"

namespace dragoman {

class Record {
  public:
    static constexpr uint32_t EXACT = 1u << 16;     // the filter's formula decides, given branches
    static constexpr uint32_t NUMERIC = 1u << 17;   // unless a number was doubtful
    static constexpr uint32_t COMPLETE = 1u << 18;  // the parts are all that the formula asks for
    static constexpr uint32_t AGAIN = 1u << 19;     // the filter may be met elsewhere too
    static constexpr uint32_t JOINED = 1u << 20;    // facts of the same elements decide it, too

    explicit Record(const uint32_t* at) : at_(at) {}

    // The first word of that of a filter. No other word of a record is like it: there is no ALL.
    static uint32_t mark(uint32_t filter) { return word(ALL, filter); }

    static Words compose(uint32_t filter, uint32_t flags, const Words& branches,
                         const Words& parts) {
        Words words{mark(filter), flags};
        words.insert(words.end(), branches.begin(), branches.end());
        // What is too long is left to the formula.
        if (branches.size() > MOST) {
            words[1] &= ~EXACT;
            words.resize(HEADER);
        } else {
            words[1] |= uint32_t(branches.size());
        }
        if (parts.size() > MOST) {
            words[1] &= ~COMPLETE;
        } else {
            words[1] |= uint32_t(parts.size()) << 8;
            words.insert(words.end(), parts.begin(), parts.end());
        }
        return words;
    }

    uint32_t filter() const { return number_in(at_[0]); }
    bool has(uint32_t flag) const { return at_[1] & flag; }
    const uint32_t* branches() const { return at_ + HEADER; }
    const uint32_t* parts() const { return branches() + (at_[1] & 0xff); }
    const uint32_t* end() const { return parts() + (at_[1] >> 8 & 0xff); }
    uint32_t length() const { return uint32_t(end() - at_); }

  private:
    static constexpr uint32_t HEADER = 2, MOST = 24;

    const uint32_t* at_;
};

}  // namespace dragoman
