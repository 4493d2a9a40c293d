// The limits of documents.py, as far as a look at the octets shows that they hold.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstring>

namespace dragoman {

// Where *sign* is next; *end* where it is not.
inline const char* next_of(char sign, const char* at, const char* end) {
    const void* found = std::memchr(at, sign, size_t(end - at));
    return found ? static_cast<const char*>(found) : end;
}

// Whether there may be a document type.
inline bool may_declare(const char* octets, size_t size) {
    const char* end = octets + size;
    for (const char* at = next_of('!', octets, end); at < end; at = next_of('!', at + 1, end)) {
        if (at > octets && at[-1] == '<' && at + 1 < end && at[1] == 'D') return true;
    }
    return false;
}

struct Limits {
    size_t elements, nodes, attributes, declarations, scope_octets;
    size_t short_;  // octets of a tag that cannot exceed a limit
    size_t part;    // octets of a tag in which no name, value or URI can

    // False if there may be more than is allowed of anything, or an instruction.
    bool surely_hold(const char* octets, size_t size) const {
        const char* end = octets + size;
        const size_t equals = size_t(std::count(octets, end, '='));
        // Each attribute and each declaration has a `=`.
        const bool many = equals > std::min(attributes, declarations);
        const bool spaces = many || size > scope_octets;
        size_t marks = 0, declared = 0, declaring = 0;
        // A piece reaches from one `<` to the next.
        const char* next;
        for (const char* at = next_of('<', octets, end); at < end; at = next) {
            next = next_of('<', at + 1, end);
            ++marks;
            if (at + 1 < end && at[1] == '?') return false;
            const size_t length = size_t(next - at);
            if (length > short_ && may_exceed(at, next)) return false;
            if (spaces) {
                const size_t found = declarations_in(at, next);
                declared += found;
                if (found) declaring += length_of_tag(at, next);
            }
        }
        return marks <= elements && 2 * marks + equals <= nodes && declared <= declarations &&
               declaring <= scope_octets;
    }

  private:
    // To the last `>` of a piece, which ends its tag, or is text.
    static size_t length_of_tag(const char* at, const char* end) {
        while (end > at && end[-1] != '>') --end;
        return size_t(end - at);
    }

    bool may_exceed(const char* at, const char* end) const {
        const size_t length = length_of_tag(at, end);
        return length > part ||
               (length > short_ && size_t(std::count(at, at + length, '=')) > attributes);
    }

    static size_t declarations_in(const char* at, const char* end) {
        size_t found = 0;
        for (at = next_of('x', at, end); at < end; at = next_of('x', at + 1, end)) {
            found += end - at >= 5 && !std::memcmp(at, "xmlns", 5);
        }
        return found;
    }
};

}  // namespace dragoman
