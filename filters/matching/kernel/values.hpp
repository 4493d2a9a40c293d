// What of libxml2's tree is compared, and how. Fields are read, no function of the library is
// called.
#pragma once

#include <libxml/tree.h>

#include <cmath>
#include <cstring>
#include <limits>
#include <string>
#include <string_view>

namespace dragoman {

enum Verdict : uint8_t { NO, YES, UNKNOWN };

// As in plan.py.
enum Subject : uint8_t { SELF, TEXT, ATTRIBUTE };
enum Comparison : uint8_t {
    EXISTS,
    EQUAL,
    DIFFERENT,
    CONTAINS,
    STARTS,
    NUMBER_EQUAL,
    NUMBER_DIFFERENT,
    LESS,
    AT_MOST,
    GREATER,
    AT_LEAST,
    RANGE,
};

inline bool on_numbers(uint8_t comparison) {
    return comparison >= NUMBER_EQUAL;
}

inline std::string_view view_of(const xmlChar* text) {
    return text ? std::string_view(reinterpret_cast<const char*>(text)) : std::string_view();
}

inline bool is_text(const xmlNode* node) {
    return node->type == XML_TEXT_NODE || node->type == XML_CDATA_SECTION_NODE;
}

inline bool is_element(const xmlNode* node) {
    return node->type == XML_ELEMENT_NODE;
}

inline std::string_view namespace_of(const xmlNs* ns) {
    return ns ? view_of(ns->href) : std::string_view();
}

// The next node of a walk in document order that stays below *top*. It enters elements alone.
inline const xmlNode* next_below(const xmlNode* node, const xmlNode* top) {
    if (is_element(node) && node->children) return node->children;
    while (node != top && !node->next) node = node->parent;
    return node == top ? nullptr : node->next;
}

// The string-value of an element, the document, or an attribute; *scratch* may hold it.
inline std::string_view string_of(const xmlNode* node, std::string& scratch) {
    const xmlNode* child = node->children;
    if (!child) return {};
    if (!child->next && is_text(child)) return view_of(child->content);
    scratch.clear();
    for (; child; child = next_below(child, node)) {
        if (is_text(child)) scratch += view_of(child->content);
    }
    return scratch;
}

// The number that a text is for libxml2, where that is sure: see numbers.py, which this mirrors.
struct Number {
    double value;
    bool sure;
};

inline Number number_of(std::string_view text) {
    static const double POWERS[] = {1e0, 1e1, 1e2,  1e3,  1e4,  1e5,  1e6,  1e7,
                                    1e8, 1e9, 1e10, 1e11, 1e12, 1e13, 1e14, 1e15};
    constexpr size_t MAX_DIGITS = 15;
    const Number not_a_number{std::numeric_limits<double>::quiet_NaN(), true};
    auto blank = [](char c) { return c == ' ' || c == '\t' || c == '\n' || c == '\r'; };
    auto digit = [](char c) { return c >= '0' && c <= '9'; };
    const char *at = text.data(), *end = at + text.size();
    while (at < end && blank(*at)) ++at;
    bool negative = at < end && *at == '-';
    if (negative) ++at;
    double whole = 0, fraction = 0;
    const char* start = at;
    while (at < end && digit(*at)) whole = whole * 10 + (*at++ - '0');
    size_t digits = at - start, places = 0;
    if (at < end && *at == '.') {
        start = ++at;
        while (at < end && digit(*at)) fraction = fraction * 10 + (*at++ - '0');
        places = at - start;
    }
    if (!digits && !places) return not_a_number;
    if (at < end && (*at == 'e' || *at == 'E')) return {0, false};
    while (at < end && blank(*at)) ++at;
    if (at != end) return not_a_number;
    if (digits + places > MAX_DIGITS) return {0, false};
    double value = places ? whole + fraction / POWERS[places] : whole;
    return {negative ? -value : value, true};
}

// A value against the operand of a test. *bound* is the operand on strings, *low* and *high* on
// numbers.
struct Operand {
    std::string_view text;
    double low = 0, high = 0;
    bool low_included = false, high_included = false;
};

inline bool within(double value, const Operand& operand) {
    return (operand.low_included ? value >= operand.low : value > operand.low) &&
           (operand.high_included ? value <= operand.high : value < operand.high);
}

inline bool contains(std::string_view value, std::string_view part) {
    return part.empty() || (value.size() >= part.size() &&
                            memmem(value.data(), value.size(), part.data(), part.size()));
}

inline Verdict compare(uint8_t comparison, std::string_view value, const Operand& operand) {
    auto is = [](bool verdict) { return verdict ? YES : NO; };
    switch (comparison) {
        case EXISTS: return YES;
        case EQUAL: return is(value == operand.text);
        case DIFFERENT: return is(value != operand.text);
        case CONTAINS: return is(contains(value, operand.text));
        case STARTS: return is(value.substr(0, operand.text.size()) == operand.text);
    }
    Number number = number_of(value);
    if (!number.sure) return UNKNOWN;
    switch (comparison) {
        case NUMBER_EQUAL: return is(number.value == operand.low);
        case NUMBER_DIFFERENT: return is(number.value != operand.low);
        case LESS: return is(number.value < operand.low);
        case AT_MOST: return is(number.value <= operand.low);
        case GREATER: return is(number.value > operand.low);
        case AT_LEAST: return is(number.value >= operand.low);
        default: return is(within(number.value, operand));
    }
}

}  // namespace dragoman
