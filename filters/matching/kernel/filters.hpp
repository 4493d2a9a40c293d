// The expressions by number: the text of each, its formula, and what makes it exact.
#pragma once

#include <algorithm>
#include <cstring>
#include <new>
#include <stdexcept>
#include <string_view>

#include "containers.hpp"
#include "formulas.hpp"

namespace dragoman {

// What an expression is, but for its text.
struct Shape {
    bool exact = false;
    bool numeric = false;     // it compares numbers: a doubtful one makes it inexact
    bool programmed = false;  // there is a program that may decide it
    bool positive = false;    // and it asks for elements alone, not for their order or absence
    bool linear = false;      // and for those below a branch of the same element there
};

struct Filter {
    uint32_t* block = nullptr;  // how many words the formula has, and octets the text; the two
    uint32_t scope = 0, users = 0;
    uint32_t branches = NONE;
    uint32_t watched = NONE;  // see Watching
    Shape shape;
    bool always = false;
};

class Filters {
  public:
    static constexpr size_t MAX_SIZE = 0xffff;  // words of a formula, octets of a text

    Filters() = default;
    Filters(const Filters&) = delete;
    Filters& operator=(const Filters&) = delete;
    ~Filters() {
        for (uint32_t number = 0; number < filters_.bound(); ++number) {
            ::operator delete(filters_[number].block);
        }
    }

    Filter& operator[](uint32_t filter) { return filters_[filter]; }
    const Filter& operator[](uint32_t filter) const { return filters_[filter]; }
    size_t size() const { return filters_.live(); }
    uint32_t bound() const { return filters_.bound(); }
    bool has(uint32_t number) const { return number < filters_.bound() && filters_[number].users; }

    uint32_t find(std::string_view text, uint32_t scope) const {
        return texts_.find(hash_of(text, scope), [&](uint32_t number) {
            return filters_[number].scope == scope && text_of(number) == text;
        });
    }

    // A new one, with one user.
    uint32_t add(std::string_view text, uint32_t scope, const Words& formula, Shape shape) {
        if (formula.size() > MAX_SIZE || text.size() > MAX_SIZE) {
            throw std::invalid_argument("the expression is too long for the compiled engine");
        }
        filters_.make_room();
        texts_.make_room();
        const size_t octets = (1 + formula.size()) * sizeof(uint32_t) + text.size();
        Filter filter;
        filter.block = static_cast<uint32_t*>(::operator new(octets));
        *filter.block = uint32_t(formula.size()) << 16 | uint32_t(text.size());
        std::memcpy(std::copy(formula.begin(), formula.end(), filter.block + 1), text.data(),
                    text.size());
        filter.scope = scope;
        filter.shape = shape;
        filter.users = 1;
        const uint32_t number = filters_.add(filter);
        texts_.add(hash_of(text, scope), number);
        return number;
    }

    void erase(uint32_t number) noexcept {
        texts_.erase(hash_of(text_of(number), filters_[number].scope), number);
        ::operator delete(filters_[number].block);
        filters_.erase(number);
    }

    Formula formula_of(uint32_t number) const {
        const uint32_t* block = filters_[number].block;
        return {block + 1, block + 1 + (*block >> 16)};
    }

    std::string_view text_of(uint32_t number) const {
        return {reinterpret_cast<const char*>(formula_of(number).end),
                *filters_[number].block & MAX_SIZE};
    }

  private:
    static uint32_t hash_of(std::string_view text, uint32_t scope) {
        return uint32_t(mix(hash_octets(text.data(), text.size()), scope + SALT));
    }

    Pool<Filter> filters_;
    HashIndex texts_;
};

}  // namespace dragoman
