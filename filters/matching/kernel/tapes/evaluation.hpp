// Whether an expression is true of a document on a tape, with its root element as context node.
//
// It says that it does not know wherever libxml2 may see something else than XPath 1.0, or than we
// do: numbers with an exponent or many digits, as strings too; what lies before and behind an
// attribute; and where it takes too long.
#pragma once

#include <algorithm>
#include <deque>
#include <memory>
#include <string>
#include <vector>

#include "../values.hpp"
#include "code.hpp"
#include "layout.hpp"
#include "strings.hpp"

namespace dragoman::tapes {

class Evaluation {
  public:
    explicit Evaluation(const Code& code) : code_(code), marks_(code.parts.size()) {}

    // The names of the next documents: their vocabulary must be there as long as they are asked.
    void learn(std::string_view vocabulary) {
        names_ = Vocabulary(vocabulary);
        const size_t count = names_.size();
        fits_.assign(code_.names.size() * count, 0);
        for (size_t test = 0; test < code_.names.size(); ++test) {
            const NameTest& asked = code_.names[test];
            for (size_t at = 0; at < count; ++at) {
                fits_[test * count + at] = (asked.any_space || asked.space == names_.space(at)) &&
                                           (asked.any_local || asked.local == names_.local(at));
            }
        }
    }

    Verdict decide(std::string_view tape) {
        tape_ = Tape(tape);
        ++documents_;
        spent_ += visits_;
        visits_ = 0;
        doubtful_ = false;
        made_.clear();
        uint16_t root = 1;  // Behind comments.
        while (tape_[root].kind != ELEMENT) ++root;
        const bool verdict = truth(uint32_t(code_.parts.size() - 1), {root, 1, 1});
        return doubtful_ ? UNKNOWN : verdict ? YES : NO;
    }

    // What has been asked so far took too long to go on without a look at the time; once.
    bool is_tired() {
        if (spent_ < MOST_AT_ONCE) return false;
        spent_ = 0;
        return true;
    }

  private:
    // Of one expression on one document: some tenths of a millisecond. At once: some milliseconds.
    static constexpr size_t MAX_VISITS = 50000, VISIT = 64, MOST_AT_ONCE = 500000;

    using Found = std::vector<uint16_t>;

    struct Mark {
        uint64_t document = 0;  // in which it was looked for
        size_t first = 0;
    };

    struct Context {
        uint16_t node;
        size_t position, size;
    };

    // A vector of nodes, that others will use again.
    class Lease {
      public:
        explicit Lease(std::vector<std::unique_ptr<Found>>& free) : free_(free) {
            if (free.empty()) free.push_back(std::make_unique<Found>());
            held_ = std::move(free.back());
            free.pop_back();
            held_->clear();
        }
        ~Lease() { free_.push_back(std::move(held_)); }
        Lease(const Lease&) = delete;
        Lease& operator=(const Lease&) = delete;

        Found& operator*() { return *held_; }
        Found* operator->() { return held_.get(); }

      private:
        std::vector<std::unique_ptr<Found>>& free_;
        std::unique_ptr<Found> held_;
    };

    bool is_over(size_t visits) {
        visits_ += visits;
        if (visits_ > MAX_VISITS) doubtful_ = true;
        return doubtful_;
    }

    const Part& part(uint32_t at) const { return code_.parts[at]; }
    Type type(uint32_t at) const { return type_of(part(at).operation); }

    std::string_view value(uint16_t at) {
        const Node& node = tape_[at];
        is_over(1 + node.length / VISIT);
        return tape_.text(node.begin, node.length);
    }

    std::string& made() {
        made_.emplace_back();
        return made_.back();
    }

    std::string_view kept(std::string& text) {
        is_over(text.size() / VISIT);
        return text;
    }

    // ---- node-sets, in document order ------------------------------------------------------------

    void nodes(uint32_t at, const Context& here, Found& found) {
        const Part& one = part(at);
        if (one.operation == UNION) {
            nodes(one.operands[0], here, found);
            Lease others(free_);
            nodes(one.operands[1], here, *others);
            found.insert(found.end(), others->begin(), others->end());
            put_in_order(found);
        } else if (one.operation == FILTERED) {
            nodes(one.operands[0], here, found);
            for (size_t number = 1; number < one.operands.size(); ++number)
                filter(one.operands[number], found, 0);
        } else {
            if (!one.operands.empty())
                nodes(one.operands[0], here, found);
            else
                found.push_back(one.absolute ? 0 : here.node);
            for (const Step& step : one.steps) {
                Lease next(free_);
                for (uint16_t node : found) advance(step, node, *next);
                put_in_order(*next);
                found.swap(*next);
                if (found.empty() || doubtful_) return;
            }
        }
    }

    static void put_in_order(Found& found) {
        for (size_t at = 1; at < found.size(); ++at) {
            if (found[at - 1] >= found[at]) {
                std::sort(found.begin(), found.end());
                found.erase(std::unique(found.begin(), found.end()), found.end());
                return;
            }
        }
    }

    void advance(const Step& step, uint16_t from, Found& to) {
        const size_t begin = to.size();
        follow(step.axis, from, [&](uint16_t at) {
            if (fits(step, at)) to.push_back(at);
        });
        for (uint32_t predicate : step.predicates) filter(predicate, to, begin);
    }

    // Keep those from *begin* on of which the predicate holds.
    void filter(uint32_t predicate, Found& found, size_t begin) {
        const size_t size = found.size() - begin;
        const bool is_position = type(predicate) == NUMBERS;
        size_t kept = begin;
        for (size_t at = 0; at < size && !is_over(1); ++at) {
            const Context here{found[begin + at], at + 1, size};
            const bool holds = is_position ? number(predicate, here) == double(at + 1)
                                           : truth(predicate, here);
            if (holds) found[kept++] = here.node;
        }
        found.resize(kept);
    }

    bool fits(const Step& step, uint16_t at) const {
        const Node& node = tape_[at];
        switch (step.test) {
            case ANY_NODE: return true;
            case ANY_WORDS: return node.kind == WORDS;
            case ANY_COMMENT: return node.kind == COMMENT;
            case ANY_INSTRUCTION: return node.kind == INSTRUCTION;
            default: break;
        }
        if (node.kind != (step.axis == ATTRIBUTES ? ATTRIBUTE : ELEMENT)) return false;
        return step.test == ANY_NAME || fits_[step.name * names_.size() + node.name];
    }

    // Call *take* with each node on an axis, in its order.
    template <typename Take>
    void follow(Axis axis, uint16_t from, Take take) {
        const Node& node = tape_[from];
        if (is_over(1)) return;
        switch (axis) {
            case ITSELF_ALONE: return take(from);
            case CHILDREN: return each_sibling(first_child(from), node.end, take);
            case DESCENDANTS_OR_SELF: take(from); [[fallthrough]];
            case DESCENDANTS:
                is_over(node.end - from);
                for (uint32_t at = from + 1; at < node.end; ++at) {
                    if (tape_[at].kind != ATTRIBUTE) take(uint16_t(at));
                }
                return;
            case PARENT:
                if (from) take(node.parent);
                return;
            case ANCESTORS_OR_SELF: take(from); [[fallthrough]];
            case ANCESTORS:
                for (uint16_t at = from; at && !is_over(1);) take(at = tape_[at].parent);
                return;
            case SIBLINGS_BEHIND:
                if (from && node.kind != ATTRIBUTE)
                    each_sibling(node.end, tape_[node.parent].end, take);
                return;
            case SIBLINGS_BEFORE: return each_before(from, take);
            case BEHIND:
                if (node.kind == ATTRIBUTE) doubtful_ = true;
                is_over(tape_.size() - node.end);
                for (uint32_t at = node.end; at < tape_.size() && !doubtful_; ++at) {
                    if (tape_[at].kind != ATTRIBUTE) take(uint16_t(at));
                }
                return;
            case BEFORE:
                if (node.kind == ATTRIBUTE) doubtful_ = true;
                is_over(from);
                for (uint16_t at = from; at > 1 && !doubtful_;) {
                    --at;
                    if (tape_[at].kind != ATTRIBUTE && tape_[at].end <= from) take(at);
                }
                return;
            case ATTRIBUTES:
                for (uint32_t at = from + 1; at < node.end && tape_[at].kind == ATTRIBUTE; ++at) {
                    if (is_over(1)) return;
                    take(uint16_t(at));
                }
                return;
        }
    }

    uint16_t first_child(uint16_t of) const {
        uint16_t at = of + 1;
        while (at < tape_[of].end && tape_[at].kind == ATTRIBUTE) ++at;
        return at;
    }

    template <typename Take>
    void each_sibling(uint16_t at, uint16_t end, Take take) {
        for (; at < end && !is_over(1); at = tape_[at].end) take(at);
    }

    template <typename Take>
    void each_before(uint16_t from, Take take) {
        if (!from || tape_[from].kind == ATTRIBUTE) return;
        Lease before(free_);
        each_sibling(first_child(tape_[from].parent), from,
                     [&](uint16_t at) { before->push_back(at); });
        for (size_t at = before->size(); at-- > 0;) take((*before)[at]);
    }

    size_t find(std::string_view text, std::string_view mark) {
        // At worst all begins like it.
        is_over(text.size() * (1 + mark.size() / VISIT) / 8);
        return doubtful_ ? std::string_view::npos : text.find(mark);
    }

    // Most texts are pieces of the tape, and lie in one another: where a literal is first on it is
    // looked for once.
    bool contains(const Part& one, const Context& here) {
        constexpr size_t NOWHERE = std::string_view::npos;
        const std::string_view text = string(one.operands[0], here);
        const std::string_view mark = string(one.operands[1], here);
        const std::string_view all = tape_.texts();
        const bool is_piece = !text.empty() && text.data() >= all.data() &&
                              text.data() + text.size() <= all.data() + all.size();
        if (is_piece && part(one.operands[1]).operation == LITERAL) {
            Mark& known = marks_[one.operands[1]];
            if (known.document != documents_) known = {documents_, find(all, mark)};
            const size_t begin = size_t(text.data() - all.data());
            if (known.first == NOWHERE || known.first + mark.size() > begin + text.size())
                return false;
            if (known.first >= begin) return true;
        }
        return find(text, mark) != NOWHERE;
    }

    // ---- booleans --------------------------------------------------------------------------------

    bool truth(uint32_t at, const Context& here) {
        const Part& one = part(at);
        if (is_over(1)) return false;
        switch (one.operation) {
            case OR: return truth(one.operands[0], here) || truth(one.operands[1], here);
            case AND: return truth(one.operands[0], here) && truth(one.operands[1], here);
            case NEGATION: return !truth(one.operands[0], here);
            case BOOLEAN: return truth(one.operands[0], here);
            case TRUTH: return true;
            case FALSITY: return false;
            case SAME:
            case OTHER:
            case SMALLER:
            case NO_MORE:
            case LARGER:
            case NO_LESS: return compares(one, here);
            case HAS_WITHIN: return contains(one, here);
            case STARTS_WITH: {
                const std::string_view text = string(one.operands[0], here);
                const std::string_view start = string(one.operands[1], here);
                return text.substr(0, start.size()) == start;
            }
            default: break;
        }
        switch (type_of(one.operation)) {
            case NODES: {
                Lease found(free_);
                nodes(at, here, *found);
                return !found->empty();
            }
            case STRINGS: return !string(at, here).empty();
            default: {
                const double value = number(at, here);
                return value == value && value != 0;
            }
        }
    }

    // Section 3.4.
    bool compares(const Part& one, const Context& here) {
        const uint32_t left = one.operands[0], right = one.operands[1];
        const Operation how = one.operation;
        const Type of_left = type(left), of_right = type(right);
        const bool equals = how == SAME || how == OTHER;
        if (of_left == NODES && of_right == NODES) return some_pair_compares(how, left, right, here);
        if (of_left == TRUTHS || of_right == TRUTHS) {
            if (equals) return (truth(left, here) == truth(right, here)) == (how == SAME);
            // Section 3.4 has numbers here, and libxml2 has its own mind.
            if (of_left == NODES || of_right == NODES) return doubt();
            return compare(how, number(left, here), number(right, here));
        }
        if (of_left == NODES) return some_compares(how, left, right, false, here);
        if (of_right == NODES) return some_compares(how, right, left, true, here);
        if (equals && of_left == STRINGS && of_right == STRINGS)
            return (string(left, here) == string(right, here)) == (how == SAME);
        return compare(how, number(left, here), number(right, here));
    }

    static bool compare(Operation how, double left, double right) {
        switch (how) {
            case SAME: return left == right;
            case OTHER: return left != right;
            case SMALLER: return left < right;
            case NO_MORE: return left <= right;
            case LARGER: return left > right;
            default: return left >= right;
        }
    }

    // Whether some node of a set compares with a string or a number, which is *turned*: on the left.
    bool some_compares(Operation how, uint32_t set, uint32_t with, bool turned,
                       const Context& here) {
        Lease found(free_);
        nodes(set, here, *found);
        if (found->empty()) return false;
        if (type(with) == STRINGS && (how == SAME || how == OTHER)) {
            const std::string_view text = string(with, here);
            for (uint16_t at : *found) {
                if ((value(at) == text) == (how == SAME)) return true;
            }
            return false;
        }
        const double bound = number(with, here);
        for (uint16_t at : *found) {
            const double each = read(value(at));
            if (turned ? compare(how, bound, each) : compare(how, each, bound)) return true;
        }
        return false;
    }

    bool some_pair_compares(Operation how, uint32_t left, uint32_t right, const Context& here) {
        Lease one(free_), other(free_);
        nodes(left, here, *one);
        nodes(right, here, *other);
        for (uint16_t first : *one) {
            const std::string_view text = value(first);
            for (uint16_t second : *other) {
                if (doubtful_) return false;
                const std::string_view with = value(second);
                if (how == SAME || how == OTHER) {
                    if ((text == with) == (how == SAME)) return true;
                } else if (compare(how, read(text), read(with))) {
                    return true;
                }
            }
        }
        return false;
    }

    bool doubt() {
        doubtful_ = true;
        return false;
    }

    // ---- numbers ---------------------------------------------------------------------------------

    double read(std::string_view text) {
        const dragoman::Number number = number_of(text);
        if (!number.sure) doubtful_ = true;
        return number.value;
    }

    double number(uint32_t at, const Context& here) {
        const Part& one = part(at);
        if (is_over(1)) return 0;
        auto operand = [&](size_t which) { return number(one.operands[which], here); };
        switch (one.operation) {
            case NUMERAL: return one.number;
            case PLUS: return operand(0) + operand(1);
            case MINUS: return operand(0) - operand(1);
            case TIMES: return operand(0) * operand(1);
            case DIV: return operand(0) / operand(1);
            case MOD: return std::fmod(operand(0), operand(1));
            case NEGATIVE: return -operand(0);
            case LAST: return double(here.size);
            case POSITION: return double(here.position);
            case COUNT:
            case SUM: return counted(one, here);
            case STRING_LENGTH: {
                const std::string_view text = string_or_own(one, here);
                is_over(text.size() / VISIT);
                return double(characters_in(text));
            }
            case NUMBER:
                return one.operands.empty() ? read(value(here.node)) : operand(0);
            case FLOOR: return std::floor(operand(0));
            case CEILING: return std::ceil(operand(0));
            case ROUND: {
                const double value = operand(0);
                return value >= -0.5 && value < 0.5 ? value * 0.0 : rounded_up_from_half(value);
            }
            default: break;
        }
        if (type_of(one.operation) == TRUTHS) return truth(at, here);
        return read(string(at, here));
    }

    double counted(const Part& one, const Context& here) {
        Lease found(free_);
        nodes(one.operands[0], here, *found);
        if (one.operation == COUNT) return double(found->size());
        double sum = 0;
        for (uint16_t at : *found) sum += read(value(at));
        return sum;
    }

    // ---- strings ---------------------------------------------------------------------------------

    // Of what a function without an argument is about: the context node.
    std::string_view string_or_own(const Part& one, const Context& here) {
        return one.operands.empty() ? value(here.node) : string(one.operands[0], here);
    }

    std::string_view string(uint32_t at, const Context& here) {
        const Part& one = part(at);
        if (is_over(1)) return {};
        switch (one.operation) {
            case LITERAL: return one.text;
            case LOCAL_NAME:
            case NAMESPACE_URI:
            case NAME: return name(one, here);
            case STRING: return string_or_own(one, here);
            case CONCAT:
            case NORMALIZE_SPACE:
            case TRANSLATE: return composed(one, here);
            case SUBSTRING_BEFORE:
            case SUBSTRING_AFTER:
            case SUBSTRING: return within(one, here);
            default: break;
        }
        switch (type_of(one.operation)) {
            case NODES: {
                Lease found(free_);
                nodes(at, here, *found);
                return found->empty() ? std::string_view() : value(found->front());
            }
            case TRUTHS: return truth(at, here) ? "true" : "false";
            default: return written(number(at, here));
        }
    }

    std::string_view written(double number) {
        if (number != number) return "NaN";
        if (number <= INT_MIN || number >= INT_MAX || number != double(int(number))) {
            doubtful_ = true;
            return {};
        }
        return made() = std::to_string(int(number));
    }

    std::string_view name(const Part& one, const Context& here) {
        uint16_t of = here.node;
        if (!one.operands.empty()) {
            Lease found(free_);
            nodes(one.operands[0], here, *found);
            if (found->empty()) return {};
            of = found->front();
        }
        const uint16_t name = tape_[of].name;
        if (name == NAMELESS) return {};
        if (one.operation == NAMESPACE_URI) return names_.space(name);
        return one.operation == NAME ? names_.written(name) : names_.local(name);
    }

    std::string_view composed(const Part& one, const Context& here) {
        std::string& result = made();
        if (one.operation == CONCAT) {
            for (uint32_t operand : one.operands) result += string(operand, here);
        } else if (one.operation == NORMALIZE_SPACE) {
            normalize_space(string_or_own(one, here), result);
        } else {
            const std::string_view text = string(one.operands[0], here);
            const std::string_view from = string(one.operands[1], here);
            const std::string_view into = string(one.operands[2], here);
            // Other characters than those of ASCII are looked for one by one.
            const bool is_ascii = characters_in(from) == from.size();
            if (is_over(text.size() * (is_ascii ? 1 : from.size()) / 8 + from.size())) return {};
            Translation(from, into).apply(text, result);
        }
        return kept(result);
    }

    std::string_view within(const Part& one, const Context& here) {
        const std::string_view text = string(one.operands[0], here);
        if (one.operation == SUBSTRING) {
            const double start = number(one.operands[1], here);
            if (one.operands.size() < 3) return substring(text, start, nullptr);
            const double length = number(one.operands[2], here);
            return substring(text, start, &length);
        }
        const std::string_view mark = string(one.operands[1], here);
        const size_t at = find(text, mark);
        if (at == std::string_view::npos) return {};
        return one.operation == SUBSTRING_BEFORE ? text.substr(0, at)
                                                 : text.substr(at + mark.size());
    }

    const Code& code_;
    std::string_view none_{"\0\0", 2};
    Vocabulary names_{none_};
    Tape tape_{none_};
    std::vector<uint8_t> fits_;
    std::vector<std::unique_ptr<Found>> free_;
    std::deque<std::string> made_;
    std::vector<Mark> marks_;  // of the parts that are literals
    uint64_t documents_ = 0;
    size_t visits_ = 0, spent_ = 0;
    bool doubtful_ = false;
};

}  // namespace dragoman::tapes
