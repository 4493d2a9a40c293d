// An expression of XPath 1.0, as codes.py has it: what it is made of comes before it.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace dragoman::tapes {

enum Operation : uint8_t {
    LITERAL,
    NUMERAL,
    PATH,
    FILTERED,
    UNION,
    OR,
    AND,
    SAME,
    OTHER,
    SMALLER,
    NO_MORE,
    LARGER,
    NO_LESS,
    PLUS,
    MINUS,
    TIMES,
    DIV,
    MOD,
    NEGATIVE,
    LAST,
    POSITION,
    COUNT,
    LOCAL_NAME,
    NAMESPACE_URI,
    NAME,
    STRING,
    CONCAT,
    STARTS_WITH,
    HAS_WITHIN,
    SUBSTRING_BEFORE,
    SUBSTRING_AFTER,
    SUBSTRING,
    STRING_LENGTH,
    NORMALIZE_SPACE,
    TRANSLATE,
    BOOLEAN,
    NEGATION,
    TRUTH,
    FALSITY,
    NUMBER,
    SUM,
    FLOOR,
    CEILING,
    ROUND,
};

enum Axis : uint8_t {
    ITSELF_ALONE,
    CHILDREN,
    DESCENDANTS,
    DESCENDANTS_OR_SELF,
    PARENT,
    ANCESTORS,
    ANCESTORS_OR_SELF,
    SIBLINGS_BEHIND,
    SIBLINGS_BEFORE,
    BEHIND,
    BEFORE,
    ATTRIBUTES,
};

enum NodeTest : uint8_t { ANY_NAME, THE_NAME, ANY_NODE, ANY_WORDS, ANY_COMMENT, ANY_INSTRUCTION };

enum Type : uint8_t { NODES, TRUTHS, NUMBERS, STRINGS };

struct NameTest {
    bool any_space, any_local;
    std::string space, local;
};

struct Step {
    Axis axis;
    NodeTest test;
    uint32_t name;                     // of THE_NAME
    std::vector<uint32_t> predicates;  // expressions
};

struct Part {
    Operation operation;
    bool absolute = false;
    double number = 0;
    std::string text;
    std::vector<uint32_t> operands;  // of PATH where it starts, or none
    std::vector<Step> steps;
};

inline Type type_of(Operation operation) {
    switch (operation) {
        case PATH:
        case FILTERED:
        case UNION: return NODES;
        case OR:
        case AND:
        case SAME:
        case OTHER:
        case SMALLER:
        case NO_MORE:
        case LARGER:
        case NO_LESS:
        case STARTS_WITH:
        case HAS_WITHIN:
        case BOOLEAN:
        case NEGATION:
        case TRUTH:
        case FALSITY: return TRUTHS;
        case LITERAL:
        case LOCAL_NAME:
        case NAMESPACE_URI:
        case NAME:
        case STRING:
        case CONCAT:
        case SUBSTRING_BEFORE:
        case SUBSTRING_AFTER:
        case SUBSTRING:
        case NORMALIZE_SPACE:
        case TRANSLATE: return STRINGS;
        default: return NUMBERS;
    }
}

// The whole expression is the last of *parts*.
struct Code {
    std::vector<Part> parts;
    std::vector<NameTest> names;
};

}  // namespace dragoman::tapes
