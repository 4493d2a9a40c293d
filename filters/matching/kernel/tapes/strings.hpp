// The functions on strings (XPath 1.0, section 4.2), as libxml2 has them. Strings are UTF-8.
#pragma once

#include <climits>
#include <cmath>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace dragoman::tapes {

inline bool is_blank(char c) {
    return c == ' ' || c == '\t' || c == '\n' || c == '\r';
}

inline bool continues(char c) {
    return (c & 0xc0) == 0x80;
}

inline size_t characters_in(std::string_view text) {
    size_t count = 0;
    for (char c : text) count += !continues(c);
    return count;
}

// Where the character of that number begins; the end if there are not so many.
inline size_t place_of(std::string_view text, size_t number) {
    for (size_t at = 0; at < text.size(); ++at) {
        if (!continues(text[at]) && number-- == 0) return at;
    }
    return text.size();
}

inline size_t end_of_character(std::string_view text, size_t at) {
    do ++at;
    while (at < text.size() && continues(text[at]));
    return at;
}

inline double rounded_up_from_half(double number) {
    const double whole = std::floor(number);
    return number - whole >= 0.5 ? whole + 1.0 : whole;
}

inline std::string_view substring(std::string_view text, double start, const double* length) {
    double first = rounded_up_from_half(start);
    double end = length ? first + rounded_up_from_half(*length) : INT_MAX;
    if (!(first < INT_MAX) || !(end >= 1.0)) return {};
    if (first < 1.0) first = 1.0;
    if (!(first < end)) return {};
    const size_t from = place_of(text, size_t(first) - 1);
    if (end >= INT_MAX) return text.substr(from);
    return text.substr(from, place_of(text.substr(from), size_t(end) - size_t(first)));
}

inline void normalize_space(std::string_view text, std::string& to) {
    for (size_t at = 0; at < text.size();) {
        while (at < text.size() && is_blank(text[at])) ++at;
        const size_t begin = at;
        while (at < text.size() && !is_blank(text[at])) ++at;
        if (at == begin) return;
        if (!to.empty()) to += ' ';
        to += text.substr(begin, at - begin);
    }
}

// What the characters of one string become: those of another, in their order, or nothing.
class Translation {
  public:
    Translation(std::string_view from, std::string_view into) {
        size_t place = 0;
        for (size_t at = 0; at < from.size();) {
            const size_t end = end_of_character(from, at);
            const std::string_view one = from.substr(at, end - at);
            std::string_view other;
            if (place < into.size()) {
                const size_t begin = place;
                place = end_of_character(into, place);
                other = into.substr(begin, place - begin);
            }
            // The first of two counts.
            if (one.size() > 1)
                others_.push_back({one, other});
            else if (!is_changed_[octet(one[0])])
                ascii_[octet(one[0])] = other, is_changed_[octet(one[0])] = true;
            at = end;
        }
    }

    void apply(std::string_view text, std::string& to) const {
        to.reserve(text.size());
        for (size_t at = 0; at < text.size();) {
            const unsigned char first = octet(text[at]);
            if (first < 128) {
                if (is_changed_[first])
                    to += ascii_[first];
                else
                    to += text[at];
                ++at;
                continue;
            }
            const size_t end = end_of_character(text, at);
            const std::string_view one = text.substr(at, end - at);
            size_t number = 0;
            while (number < others_.size() && others_[number].first != one) ++number;
            to += number < others_.size() ? others_[number].second : one;
            at = end;
        }
    }

  private:
    static unsigned char octet(char c) { return static_cast<unsigned char>(c); }

    std::string_view ascii_[256];
    bool is_changed_[256] = {};
    std::vector<std::pair<std::string_view, std::string_view>> others_;
};

}  // namespace dragoman::tapes
