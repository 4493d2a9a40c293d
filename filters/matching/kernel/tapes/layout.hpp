// A document that is kept to be asked many times: a *tape*, one piece of memory a tenth of the size of
// libxml2's tree. It has the nodes in document order, and their text; what they are called stands in
// a *vocabulary*, which documents of one kind share.
//
//     tape         count of nodes, nodes, texts of elements in document order, other values
//     vocabulary   count of names, names, their characters
//
// A node is followed by its attributes, these by what is below it. So the nodes below an element are
// a range, and its string-value is one piece of the texts.
#pragma once

#include <cstdint>
#include <string_view>

namespace dragoman::tapes {

enum Kind : uint16_t { DOCUMENT, ELEMENT, ATTRIBUTE, WORDS, COMMENT, INSTRUCTION };

constexpr size_t MOST = 65535;  // nodes, and octets of all values
constexpr size_t MOST_NAMES = 8191;
constexpr uint16_t NAMELESS = MOST_NAMES;

struct Node {
    uint16_t kind : 3, name : 13;
    uint16_t parent;
    uint16_t end;  // one past the last node that belongs to it
    uint16_t begin, length;  // of its string-value
};
static_assert(sizeof(Node) == 10);

struct Name {
    uint16_t space, space_length;
    uint16_t name, name_length;  // as it is written
    uint16_t prefix;             // octets of it, with its colon
};
static_assert(sizeof(Name) == 10);

// *Row* is what there is a number of, and characters behind.
template <typename Row>
class Piece {
  public:
    explicit Piece(std::string_view octets) : octets_(octets) {}

    uint16_t size() const { return *reinterpret_cast<const uint16_t*>(octets_.data()); }
    const Row& operator[](size_t at) const {
        return reinterpret_cast<const Row*>(octets_.data() + sizeof(uint16_t))[at];
    }
    std::string_view text(size_t begin, size_t length) const {
        return octets_.substr(sizeof(uint16_t) + size() * sizeof(Row) + begin, length);
    }

    // All characters.
    std::string_view texts() const {
        return octets_.substr(sizeof(uint16_t) + size() * sizeof(Row));
    }

  private:
    std::string_view octets_;
};

using Tape = Piece<Node>;

class Vocabulary : public Piece<Name> {
  public:
    using Piece::Piece;

    std::string_view space(size_t at) const {
        const Name& name = (*this)[at];
        return text(name.space, name.space_length);
    }
    std::string_view local(size_t at) const { return written(at).substr((*this)[at].prefix); }
    std::string_view written(size_t at) const {
        const Name& name = (*this)[at];
        return text(name.name, name.name_length);
    }
};

}  // namespace dragoman::tapes
