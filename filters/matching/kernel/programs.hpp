// Programs (see plan.py): how they lie in memory, and those that were needed lately.
//
// A program is a row of words. ALL, ANY and NOT have the words of their operands behind the header.
// SOME and FIRST have the number of steps, doubled, plus one where there is a test; the test; the
// steps.
#pragma once

#include <cstring>
#include <vector>

#include "containers.hpp"
#include "vocabulary.hpp"

namespace dragoman {

enum Instruction : uint32_t { P_ALL, P_ANY, P_NOT, P_SOME, P_FIRST };
enum StepAxis : uint32_t { HERE, BELOW, BELOW_OR_HERE, ITSELF };

constexpr uint32_t INSTRUCTION_SHIFT = 29, ABSOLUTE_BIT = 1u << 28, SPAN_MASK = ABSOLUTE_BIT - 1;
constexpr uint32_t STEP_WORDS = 2;           // axis, label
constexpr uint32_t CONDITION_BIT = 1u << 8;  // in the axis: a program follows
constexpr uint32_t TEST_WORDS = 4;           // subject and comparison, label, string or double

inline Instruction instruction_of(uint32_t header) {
    return Instruction(header >> INSTRUCTION_SHIFT);
}
inline const uint32_t* end_of(const uint32_t* program) {
    return program + 1 + (*program & SPAN_MASK);
}
inline const uint32_t* after_step(const uint32_t* step) {
    return step[0] & CONDITION_BIT ? end_of(step + STEP_WORDS) : step + STEP_WORDS;
}

inline void put_test(Words& words, uint8_t subject, uint8_t comparison, uint32_t label,
                     uint32_t text, double number) {
    words.push_back(uint32_t(subject) | uint32_t(comparison) << 8);
    words.push_back(label);
    uint32_t operand[2] = {text, 0};
    if (on_numbers(comparison)) std::memcpy(operand, &number, sizeof number);
    words.push_back(operand[0]);
    words.push_back(operand[1]);
}

// Let go of what a program names.
inline void release_program(const uint32_t* program, Vocabulary& vocabulary) {
    const uint32_t* end = end_of(program);
    const uint32_t* at = program + 1;
    if (instruction_of(*program) < P_SOME) {
        for (; at != end; at = end_of(at)) release_program(at, vocabulary);
        return;
    }
    bool tested = *at++ & 1;
    if (tested) {
        uint8_t comparison = at[0] >> 8;
        vocabulary.let_go(at[1]);
        if (!on_numbers(comparison) && at[2] != NONE) vocabulary.values.let_go(at[2]);
        at += TEST_WORDS;
    }
    for (; at != end; at = after_step(at)) {
        vocabulary.let_go(at[1]);
        if (at[0] & CONDITION_BIT) release_program(at + STEP_WORDS, vocabulary);
    }
}

// Programs of filters, as far as they were needed lately: few ever are.
class Programs {
  public:
    explicit Programs(Vocabulary& vocabulary) : vocabulary_(vocabulary) {}

    size_t size() const { return programs_.live(); }

    // That of a filter, or null.
    const uint32_t* find(uint32_t filter) const {
        const uint32_t place = by_filter_.find(filter);
        return place == NONE ? nullptr : programs_[place].data();
    }

    // Takes over what the program names, unless it fails.
    void put(uint32_t filter, Words&& program) {
        erase(filter);
        if (programs_.live() >= MAX_PROGRAMS) clear();
        by_filter_.make_room();
        by_filter_.set(filter, programs_.add(std::move(program)));
    }

    void erase(uint32_t filter) noexcept {
        const uint32_t place = by_filter_.find(filter);
        if (place == NONE) return;
        release_program(programs_[place].data(), vocabulary_);
        programs_.erase(place);
        by_filter_.erase(filter);
    }

  private:
    static constexpr size_t MAX_PROGRAMS = 1u << 15;

    void clear() noexcept {
        for (uint32_t place = 0; place < programs_.bound(); ++place) {
            if (!programs_[place].empty()) release_program(programs_[place].data(), vocabulary_);
        }
        programs_ = Pool<Words>();
        by_filter_.clear();
    }

    Vocabulary& vocabulary_;
    Pool<Words> programs_;
    NumberMap by_filter_;
};

}  // namespace dragoman
