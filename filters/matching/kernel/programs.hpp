// Programs (see plan.py): an expression evaluated over the tree, for what atoms cannot decide.
//
// A program is a row of words. ALL, ANY and NOT have the words of their operands behind the header.
// SOME and FIRST have the number of steps, doubled, plus one where there is a test; the test; the steps.
#pragma once

#include <cstring>
#include <vector>

#include "document.hpp"
#include "symbols.hpp"
#include "vocabulary.hpp"

namespace dragoman {

using Words = std::vector<uint32_t>;

enum Instruction : uint32_t { P_ALL, P_ANY, P_NOT, P_SOME, P_FIRST };
enum StepAxis : uint32_t { HERE, BELOW, BELOW_OR_HERE, ITSELF };

constexpr uint32_t INSTRUCTION_SHIFT = 29, ABSOLUTE_BIT = 1u << 28, SPAN_MASK = ABSOLUTE_BIT - 1;
constexpr uint32_t STEP_WORDS = 2;           // axis, label
constexpr uint32_t CONDITION_BIT = 1u << 8;  // in the axis: a program follows
constexpr uint32_t TEST_WORDS = 4;           // subject and comparison, label, string or double
constexpr uint32_t MAX_VISITS = 20000;       // of one program on one message: then it does not know

inline Instruction instruction_of(uint32_t header) { return Instruction(header >> INSTRUCTION_SHIFT); }
inline const uint32_t* end_of(const uint32_t* program) { return program + 1 + (*program & SPAN_MASK); }
inline const uint32_t* after_step(const uint32_t* step) {
    return step[0] & CONDITION_BIT ? end_of(step + STEP_WORDS) : step + STEP_WORDS;
}

inline void put_test(Words& words, uint8_t subject, uint8_t comparison, uint32_t label, uint32_t text,
                     double number) {
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

class Interpreter {
  public:
    Interpreter(const Vocabulary& vocabulary, const Symbols& symbols, Document& document, Reading& reading)
        : vocabulary_(vocabulary), symbols_(symbols), document_(document), reading_(reading) {}

    // The verdict on the message at hand.
    Verdict run(const uint32_t* program) {
        visits_ = 0;
        document_.read();
        return decide(program, Document::ROOT_ELEMENT);
    }

  private:
    struct Goal {
        const uint32_t* test;  // or none
        const uint32_t* end;   // of the steps
    };

    Verdict decide(const uint32_t* program, uint32_t context) {
        const uint32_t* end = end_of(program);
        const uint32_t* at = program + 1;
        switch (instruction_of(*program)) {
            case P_ALL:
            case P_ANY: {
                const Verdict decisive = instruction_of(*program) == P_ALL ? NO : YES;
                Verdict verdict = decisive == NO ? YES : NO;
                for (; at != end; at = end_of(at)) {
                    Verdict here = decide(at, context);
                    if (here == decisive) return decisive;
                    if (here == UNKNOWN) verdict = UNKNOWN;
                }
                return verdict;
            }
            case P_NOT: {
                Verdict verdict = decide(at, context);
                return verdict == UNKNOWN ? UNKNOWN : verdict == YES ? NO : YES;
            }
            default: break;
        }
        const bool tested = *at++ & 1;
        const Goal goal{tested ? at : nullptr, end};
        if (tested) at += TEST_WORDS;
        if (*program & ABSOLUTE_BIT) context = 0;
        if (instruction_of(*program) == P_SOME) return some(at, context, goal);
        return first(at, context, goal);
    }

    bool fits(uint32_t label, uint32_t row) const {
        const uint32_t symbol = document_.symbol(row);
        return symbol != NONE && symbols_.fits(label, symbol);
    }

    // Call *take* with each element that *step* leads to, in document order, until it is satisfied.
    template <typename Take>
    void follow(const uint32_t* step, uint32_t context, Take take) {
        const uint32_t label = step[1], axis = step[0] & (CONDITION_BIT - 1);
        const uint32_t end = axis == ITSELF ? context + 1 : document_.end(context);
        uint32_t row = axis == HERE || axis == BELOW ? context + 1 : context;
        while (row < end && ++visits_ <= MAX_VISITS) {
            if (fits(label, row) && take(row)) return;
            row = axis == HERE ? document_.end(row) : row + 1;
        }
    }

    Verdict keeps(const uint32_t* step, uint32_t row) {
        return step[0] & CONDITION_BIT ? decide(step + STEP_WORDS, row) : YES;
    }

    Operand operand_of(const uint32_t* test) const {
        Operand operand;
        if (!on_numbers(test[0] >> 8)) {
            if (test[2] != NONE) operand.text = vocabulary_.values[test[2]];
        } else {
            std::memcpy(&operand.low, test + 2, sizeof operand.low);
        }
        return operand;
    }

    Verdict some(const uint32_t* step, uint32_t context, const Goal& goal) {
        if (step == goal.end) {
            const uint32_t* test = goal.test;
            if (!test) return YES;
            return reading_.check(document_.node(context), test[0] & 0xff, test[0] >> 8, test[1],
                                  operand_of(test));
        }
        Verdict verdict = NO;
        follow(step, context, [&](uint32_t row) {
            Verdict here = keeps(step, row);
            if (here == NO) return false;
            Verdict further = some(after_step(step), row, goal);
            if (further == NO) return false;
            verdict = here == YES && further == YES ? YES : UNKNOWN;
            return verdict == YES;
        });
        return verdict != YES && visits_ > MAX_VISITS ? UNKNOWN : verdict;
    }

    // The test of the first node. Document order is the order of our walk as long as no step follows
    // one that goes deeper than children.
    Verdict first(const uint32_t* steps, uint32_t context, const Goal& goal) {
        for (const uint32_t* step = steps; step != goal.end; step = after_step(step)) {
            uint32_t axis = step[0] & (CONDITION_BIT - 1);
            if ((axis == BELOW || axis == BELOW_OR_HERE) && after_step(step) != goal.end) return UNKNOWN;
        }
        Verdict verdict = NO;
        bool found = false;
        seek(steps, context, goal, verdict, found);
        if (visits_ > MAX_VISITS) return UNKNOWN;
        return found ? verdict : compare(goal.test[0] >> 8, {}, operand_of(goal.test));
    }

    bool seek(const uint32_t* step, uint32_t context, const Goal& goal, Verdict& verdict, bool& found) {
        if (step == goal.end) {
            const uint32_t* test = goal.test;
            reading_.each(document_.node(context), test[0] & 0xff, test[1], [&](std::string_view value) {
                if (!found) verdict = compare(test[0] >> 8, value, operand_of(test));
                found = true;
            });
            return found;
        }
        follow(step, context, [&](uint32_t row) {
            Verdict here = keeps(step, row);
            if (here == UNKNOWN) {
                found = true;
                verdict = UNKNOWN;
            } else if (here == YES) {
                seek(after_step(step), row, goal, verdict, found);
            }
            return found;
        });
        return found;
    }

    const Vocabulary& vocabulary_;
    const Symbols& symbols_;
    Document& document_;
    Reading& reading_;
    uint32_t visits_ = 0;
};

}  // namespace dragoman
