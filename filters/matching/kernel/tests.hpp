// The tests of an atom, and which of them finds it: the one that fewest values pass.
#pragma once

#include <algorithm>
#include <cstring>
#include <tuple>
#include <utility>
#include <vector>

#include "containers.hpp"
#include "values.hpp"
#include "vocabulary.hpp"

namespace dragoman {

struct Test {
    uint8_t subject = SELF, comparison = EXISTS;
    bool low_included = false, high_included = false;
    uint32_t label = NONE;
    uint32_t text = NONE;  // a string among the values
    double low = 0, high = 0;

    bool operator==(const Test& other) const {
        return subject == other.subject && comparison == other.comparison && label == other.label &&
               text == other.text && low == other.low && high == other.high &&
               low_included == other.low_included && high_included == other.high_included;
    }
};

using Tests = std::vector<Test>;

inline uint64_t hash_of(const Tests& tests) {
    uint64_t hash = tests.size();
    for (const Test& test : tests) {
        hash = mix(hash + (uint64_t(test.text) << 32 | test.label), SALT);
        hash = mix(hash + (uint64_t(test.comparison) << 8 | test.subject), SALT);
        uint64_t bits;
        std::memcpy(&bits, &test.low, sizeof bits);
        hash = mix(hash + bits, SALT);
    }
    return hash;
}

// How atoms are found by the values of an element. In the order of what a look costs, but for
// GRAMS: parts of texts are rarer than whole names. Those up to NUMBERS, and GRAMS, are hashed.
enum TableKind : uint8_t {
    PRESENCE,  // no tests
    ONE,       // by a value
    TWO,       // by two values
    NUMBERS,
    RANGES,
    GRAMS,  // by a part of a value, maybe with another value
    HAS,    // wherever there is a value
    SCAN,   // wherever there is an element
    NEVER,  // contradictory ones
};

inline bool is_hashed(TableKind kind) {
    return kind <= NUMBERS || kind == GRAMS;
}

constexpr uint8_t NOTHING = 0xff;  // no subject

// What a table looks at, and how.
struct Aspect {
    TableKind kind = PRESENCE;
    uint8_t subject[2] = {NOTHING, NOTHING};
    uint32_t label[2] = {NONE, NONE};

    bool is_paired() const { return subject[1] != NOTHING; }

    // Aspects with the same first subject, between which there is none without, are neighbours.
    auto rank() const { return std::make_tuple(subject[0], label[0], kind, subject[1], label[1]); }
    bool operator==(const Aspect& other) const { return rank() == other.rank(); }
};

struct Choice {
    Aspect aspect;
    uint64_t key = 0;   // within the table
    uint32_t test = 0;  // that was chosen, where it is one of several
};

constexpr size_t GRAM = 4;

inline uint32_t gram(const char* text) {
    uint32_t word;
    std::memcpy(&word, text, GRAM);
    return word;
}

// The key of a number, for which -0 is 0.
inline uint64_t key_of(double number) {
    const double positive = number == 0 ? 0.0 : number;
    uint64_t key;
    std::memcpy(&key, &positive, sizeof key);
    return key;
}

class Chooser {
  public:
    explicit Chooser(const Vocabulary& vocabulary) : vocabulary_(vocabulary) {}

    Choice choose(const Tests& tests) const {
        Choice choice;
        if (tests.empty()) return choice;
        uint32_t equal[2] = {NONE, NONE};
        for (uint32_t at = 0; at < tests.size(); ++at) {
            if (tests[at].comparison != EQUAL) continue;
            if (contradicts(tests, at)) {
                choice.aspect.kind = NEVER;
                return choice;
            }
            if (equal[0] == NONE) {
                equal[0] = at;
            } else if (equal[1] == NONE && !(tests[at] == tests[equal[0]])) {
                equal[1] = at;
            }
        }
        if (equal[1] != NONE) {
            choose_two(choice, tests[equal[0]], tests[equal[1]]);
        } else if (equal[0] != NONE && std::none_of(tests.begin(), tests.end(), [&](auto& test) {
                       return kind_for(test) == GRAMS;
                   })) {
            look_at(choice, ONE, tests[equal[0]]);
            choice.key = tests[equal[0]].text;
        } else {
            choose_other(choice, tests, equal[0]);
        }
        return choice;
    }

    // Whether the key of a table says all that the tests do.
    static bool is_keyed(const Choice& choice, const Tests& tests) {
        return (choice.aspect.kind == ONE && tests.size() == 1) ||
               (choice.aspect.kind == TWO && tests.size() == 2);
    }

  private:
    static void look_at(Choice& choice, TableKind kind, const Test& test) {
        choice.aspect.kind = kind;
        choice.aspect.subject[0] = test.subject;
        choice.aspect.label[0] = test.label;
    }

    static void look_too(Choice& choice, const Test& test) {
        choice.aspect.subject[1] = test.subject;
        choice.aspect.label[1] = test.label;
    }

    static void choose_two(Choice& choice, const Test& one, const Test& other) {
        // The order must not depend on how the filter was written. Longer texts are rarer: SELF
        // first.
        auto rank = [](const Test& test) { return std::make_pair(test.subject, test.label); };
        const bool swapped = rank(other) < rank(one);
        const Test &first = swapped ? other : one, &second = swapped ? one : other;
        look_at(choice, TWO, first);
        look_too(choice, second);
        choice.key = uint64_t(first.text) << 32 | second.text;
    }

    // The best but for equality; with GRAMS, what must be *equal* is looked at too.
    void choose_other(Choice& choice, const Tests& tests, uint32_t equal) const {
        TableKind best = SCAN;
        for (uint32_t at = 0; at < tests.size(); ++at) {
            const TableKind kind = kind_for(tests[at]);
            if (kind < best && (equal == NONE || kind == GRAMS)) {
                best = kind;
                choice.test = at;
            }
        }
        choice.aspect.kind = best;
        if (best == SCAN) return;
        const Test& test = tests[choice.test];
        look_at(choice, best, test);
        if (best == NUMBERS) {
            choice.key = key_of(test.low);
        } else if (best == GRAMS) {
            choice.key = gram_of(vocabulary_.values[test.text]);
            if (equal == NONE) return;
            look_too(choice, tests[equal]);
            choice.key |= uint64_t(tests[equal].text + 1) << 32;
        }
    }

    // Whether one value would have to equal two texts.
    bool contradicts(const Tests& tests, uint32_t at) const {
        const Test& test = tests[at];
        if (!vocabulary_.is_single(test.subject, test.label)) return false;
        return std::any_of(tests.begin(), tests.begin() + at, [&](const Test& other) {
            return other.comparison == EQUAL && other.subject == test.subject &&
                   other.label == test.label && other.text != test.text;
        });
    }

    TableKind kind_for(const Test& test) const {
        switch (test.comparison) {
            case NUMBER_EQUAL: return NUMBERS;
            case LESS:
            case AT_MOST:
            case GREATER:
            case AT_LEAST:
            case RANGE: return RANGES;
            case CONTAINS:
            case STARTS: return vocabulary_.values[test.text].size() >= GRAM ? GRAMS : SCAN;
            case EXISTS: return HAS;
            default: return SCAN;
        }
    }

    // One that depends on the text alone, so that equal tests meet.
    static uint32_t gram_of(std::string_view text) {
        uint32_t chosen = gram(text.data());
        for (size_t at = 1; at + GRAM <= text.size(); ++at) {
            const uint32_t other = gram(text.data() + at);
            if (hash_number(other) < hash_number(chosen)) chosen = other;
        }
        return chosen;
    }

    const Vocabulary& vocabulary_;
};

}  // namespace dragoman
