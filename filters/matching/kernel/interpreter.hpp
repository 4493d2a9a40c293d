// A program run over one message: for what atoms cannot decide.
#pragma once

#include "document.hpp"
#include "programs.hpp"
#include "reading.hpp"
#include "symbols.hpp"
#include "vocabulary.hpp"

namespace dragoman {

class Interpreter {
  public:
    Interpreter(const Vocabulary& vocabulary, const Symbols& symbols, Document& document,
                Reading& reading)
        : vocabulary_(vocabulary), symbols_(symbols), document_(document), reading_(reading) {}

    // The verdict on the message at hand.
    Verdict run(const uint32_t* program) {
        visits_ = 0;
        document_.read();
        return decide(program, Document::ROOT_ELEMENT);
    }

  private:
    // Of one program on one message: beyond, it does not know. Reading a value of that many octets
    // counts as much as visiting an element.
    static constexpr size_t MAX_VISITS = 20000, VISIT = 256;

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

    // Whether a value at *row* compares as asked.
    Verdict check(const uint32_t* test, uint32_t row) {
        const Operand operand = operand_of(test);
        Verdict verdict = NO;
        reading_.each(document_.node(row), test[0] & 0xff, test[1], [&](std::string_view value) {
            visits_ += value.size() / VISIT;
            if (verdict == YES) return;
            const Verdict here = compare(test[0] >> 8, value, operand);
            if (here != NO) verdict = here;
        });
        return verdict;
    }

    Verdict some(const uint32_t* step, uint32_t context, const Goal& goal) {
        if (step == goal.end) {
            const uint32_t* test = goal.test;
            return test ? check(test, context) : YES;
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

    // The test of the first node. Document order is the order of our walk as long as no step
    // follows one that goes deeper than children.
    Verdict first(const uint32_t* steps, uint32_t context, const Goal& goal) {
        for (const uint32_t* step = steps; step != goal.end; step = after_step(step)) {
            uint32_t axis = step[0] & (CONDITION_BIT - 1);
            if ((axis == BELOW || axis == BELOW_OR_HERE) && after_step(step) != goal.end)
                return UNKNOWN;
        }
        Verdict verdict = NO;
        bool found = false;
        seek(steps, context, goal, verdict, found);
        if (visits_ > MAX_VISITS) return UNKNOWN;
        return found ? verdict : compare(goal.test[0] >> 8, {}, operand_of(goal.test));
    }

    bool seek(const uint32_t* step, uint32_t context, const Goal& goal, Verdict& verdict,
              bool& found) {
        if (step == goal.end) {
            const uint32_t* test = goal.test;
            reading_.each(document_.node(context), test[0] & 0xff, test[1],
                          [&](std::string_view value) {
                              visits_ += value.size() / VISIT;
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
    size_t visits_ = 0;
};

}  // namespace dragoman
