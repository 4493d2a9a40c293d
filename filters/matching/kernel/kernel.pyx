# cython: language_level=3, boundscheck=False, wraparound=False, binding=False
# distutils: language = c++
"""The compiled engine as Python sees it: plans in, numbers out. See engine.hpp, and native.py."""

from cpython cimport array
from cpython.object cimport PyObject
from libc.stdint cimport uint8_t, uint32_t
from libc.string cimport memcpy
from libcpp cimport bool as truth
from libcpp.string_view cimport string_view
from libcpp.vector cimport vector
from lxml.includes cimport etreepublic as api
from lxml.includes.tree cimport xmlNode

from lxml import etree

api.import_lxml__etree()


cdef extern from "Python.h":
    const char* PyUnicode_AsUTF8AndSize(str text, Py_ssize_t* size) except NULL


cdef extern from * nogil:
    void prefetch "__builtin_prefetch"(const void* at)


cdef extern from "<libxml/xmlversion.h>" nogil:
    const char* LIBXML_DOTTED_VERSION


cdef extern from *:
    """
    #define DRAGOMAN_LXML DRAGOMAN_LXML_VERSION
    """
    const char* DRAGOMAN_LXML


cdef extern from "engine.hpp" namespace "dragoman" nogil:
    const uint32_t NONE
    const uint32_t ROOT

    cdef cppclass Test:
        Test()
        uint8_t subject, comparison
        truth low_included, high_included
        uint32_t label, text
        double low, high

    cdef enum Kind:
        HOLDS
        FAILS
        EVERY "dragoman::ALL"
        SOME_OF "dragoman::ANY"

    uint32_t word(Kind kind, uint32_t number)
    void put_test(vector[uint32_t]& words, uint8_t subject, uint8_t comparison, uint32_t label,
                  uint32_t text, double number) except +
    const uint32_t INSTRUCTION_SHIFT, ABSOLUTE_BIT, SPAN_MASK, CONDITION_BIT

    cdef enum Verdict:
        NO
        YES
        UNKNOWN

    cdef cppclass Found:
        Found()
        vector[uint32_t] yes, doubtful, unprogrammed

    cdef cppclass Shape:
        Shape()
        truth exact, numeric, programmed, positive, linear

    cdef struct Sizes:
        size_t filters, atoms, tables, nodes, names, values, states, remembered, programs, numbers

    cdef cppclass Engine:
        Engine() except +
        Sizes sizes()
        uint32_t label(const char* ns, size_t ns_size, const char* local, size_t local_size) except +
        uint32_t string(const char* text, size_t size) except +
        uint32_t step(uint32_t parent, uint8_t axis, uint32_t label) except +
        uint32_t fact(uint32_t node, vector[Test]& tests) except +
        void release(const vector[Test]& tests)
        void let_go_label(uint32_t label)
        void let_go_string(uint32_t string)
        void drop_unused(uint32_t fact)
        void tidy()
        uint32_t find_filter(string_view text, uint32_t scope)
        uint32_t add_filter(string_view text, uint32_t scope, const vector[uint32_t]& formula,
                            Shape shape, const vector[uint32_t]& branches) except +
        truth has(uint32_t number)
        void keep(uint32_t number)
        truth let_go(uint32_t number)
        string_view text_of(uint32_t number)
        uint32_t scope_of(uint32_t number)
        void find(const xmlNode* root, Found& found) except +
        Verdict decide(uint32_t number, vector[uint32_t]& program, truth& taken) except +


cdef extern from "parsing.hpp" namespace "dragoman" nogil:
    cdef cppclass _Limits "dragoman::Limits":
        size_t elements, nodes, attributes, declarations, scope_octets, short_, part

    cdef cppclass Tree:
        void free()

    cdef cppclass _Parser "dragoman::Parser":
        truth find(const char* path)
        const xmlNode* parse(const char* octets, size_t size, size_t body, const _Limits* limits,
                             Tree& tree) except +


cdef extern from "<mutex>" namespace "std" nogil:
    cdef cppclass mutex:
        void lock()
        void unlock()


cdef extern from "names.hpp" namespace "dragoman" nogil:
    cdef cppclass _Names "dragoman::Names":
        size_t meet(const xmlNode* root, size_t limit) except +


BUILT_FOR = (DRAGOMAN_LXML.decode(), LIBXML_DOTTED_VERSION.decode())
"""The versions of lxml and libxml2 whose headers this was compiled with."""

ELEMENT_SIZE = sizeof(api._Element)
"""Of lxml's elements, in octets."""


# The numbers of plan.py that decide how a tuple is read.
cdef enum:
    AND = 0
    NOT = 2
    SOME = 3
    BELOW = 1
    FIRST_ON_NUMBERS = 5
    RANGE = 11

CONTEXT = ((0, None, None),)
"""How the path to the context node begins."""


include "chains.pxi"
include "keys.pxi"


cdef class Names:
    """How many different names were met in documents."""

    cdef _Names names

    def meet(self, api._Element root not None, size_t limit):
        """Meet those of a document; returns how many there were ever, counted up to *limit*."""
        return self.names.meet(<const xmlNode*>root._c_node, limit)


cdef class Limits:
    """Limits of `filters.documents`, as far as octets show that they hold."""

    cdef _Limits limits

    def __init__(self, *, size_t elements, size_t nodes, size_t attributes, size_t declarations,
                 size_t scope_octets, size_t short, size_t part):
        self.limits.elements = elements
        self.limits.nodes = nodes
        self.limits.attributes = attributes
        self.limits.declarations = declarations
        self.limits.scope_octets = scope_octets
        self.limits.short_ = short
        self.limits.part = part


cdef class Parser:
    """Parses for kernels, by the functions of lxml's module at *path*. One thread's own.

    Raises:
        LookupError: It does not offer them.
    """

    cdef _Parser parser

    def __init__(self, bytes path not None):
        if not self.parser.find(<const char*>path):
            raise LookupError(path)


cdef class Kernel:
    """Plans by number."""

    cdef Engine* engine
    cdef Tree tree
    """That of the document that is decided about."""
    cdef mutex finding
    cdef truth is_finding
    """Whether a thread is in `find_in`, without the lock of the interpreter. All others wait."""
    cdef list numbers
    """Each number as a Python object that is made once."""
    cdef tuple path
    cdef vector[uint32_t] labels, strings
    """Those of a program that nobody has taken over yet."""
    cdef vector[uint32_t] nodes
    """Of the last path: where each of its steps leads. The next one begins alike, as a rule."""

    def __cinit__(self):
        self.engine = new Engine()
        self.numbers = []

    def __dealloc__(self):
        del self.engine

    cdef Engine* _idle(self) except NULL:
        """The engine, once no thread is in `find_in`."""
        while self.is_finding:
            with nogil:
                self.finding.lock()
                self.finding.unlock()
        return self.engine

    def __len__(self):
        return self._idle().sizes().filters

    def sizes(self):
        """How much there is of everything that filters or messages make grow."""
        return self._idle().sizes()

    def find_filter(self, bytes text, uint32_t scope):
        """The number of the expression with this text and these namespaces, or -1."""
        cdef uint32_t number = self._idle().find_filter(_view(text), scope)
        return -1 if number == NONE else self.numbers[number]

    def keep(self, uint32_t number):
        self._idle().keep(number)

    def has(self, number):
        return 0 <= number < NONE and self._idle().has(number)

    def text(self, uint32_t number):
        cdef string_view text = self._idle().text_of(number)
        return text.data()[: text.size()]

    def scope(self, uint32_t number):
        return self._idle().scope_of(number)

    def let_go(self, uint32_t number):
        """One user less; True if that was the last one."""
        return self._idle().let_go(number)

    def find(self, api._Element root not None):
        """The numbers of what is true of the document, in an array, of what libxml2 has to decide,
        and of what `decide` has to."""
        cdef Found found
        self._idle().find(<const xmlNode*>root._c_node, found)
        return self._lists(found)

    def find_in(self, Parser parser not None, bytes octets not None, size_t body, Limits limits):
        """As `find`, of the document in *octets*, whose XML declaration ends at *body*; None where
        lxml has to parse it. It is parsed and looked at without the lock of the interpreter. If
        anything is left to `decide`, `let_go_document` must follow, in the same thread."""
        cdef Found found
        cdef const xmlNode* root
        cdef const char* text = octets
        cdef size_t size = len(octets)
        cdef const _Limits* within = NULL
        if limits is not None:
            within = &limits.limits
        if body > size:
            raise IndexError(body)
        self._idle()
        self.finding.lock()
        self.is_finding = True
        try:
            with nogil:
                root = parser.parser.parse(text, size, body, within, self.tree)
                if root != NULL:
                    self.engine.find(root, found)
                if found.unprogrammed.empty():
                    self.tree.free()
        except:
            self.tree.free()
            raise
        finally:
            self.is_finding = False
            self.finding.unlock()
        return None if root == NULL else self._lists(found)

    def let_go_document(self):
        """Free the document of `find_in`."""
        self._idle()
        self.tree.free()

    def decide(self, uint32_t number, tuple program):
        """Whether the expression, whose program this is, is true of the document that `find` got
        last, whose tree must still be there; None if libxml2 has to decide."""
        cdef vector[uint32_t] words
        cdef truth taken = False
        cdef Verdict verdict
        self._idle()
        self.labels.clear()
        self.strings.clear()
        try:
            self._put_program(program, words)
            verdict = self.engine.decide(number, words, taken)
        finally:
            if not taken:
                self._let_go_held()
        return None if verdict == UNKNOWN else verdict == YES

    def add(self, bytes text, uint32_t scope, plan):
        """The number of a new expression, of which `find_filter` knows nothing."""
        cdef vector[uint32_t] facts, formula, branches
        cdef Shape shape
        cdef uint32_t number
        cdef tuple path
        self._idle()
        shape.exact = plan[2]
        shape.programmed = plan[4] is not None
        shape.positive = shape.programmed and _is_positive(plan[4])
        shape.linear = shape.positive and _is_linear(plan[4], plan[3])
        self.path = ()
        facts.reserve(len(<tuple>plan[0]))
        try:
            for atom in <tuple>plan[0]:
                facts.push_back(
                    self._fact(<tuple>(<tuple>atom)[0], <tuple>(<tuple>atom)[1], &shape.numeric)
                )
            _put_formula(plan[1], facts, formula)
            for path in <tuple>plan[3]:
                branches.push_back(self._node(path))
            number = self.engine.add_filter(_view(text), scope, formula, shape, branches)
        finally:
            for fact in facts:
                self.engine.drop_unused(fact)
            self.engine.tidy()
        try:
            while <size_t>len(self.numbers) <= number:
                self.numbers.append(len(self.numbers))
        except MemoryError:
            self.engine.let_go(number)
            raise
        return self.numbers[number]

    cdef tuple _lists(self, Found& found):
        return (
            _packed(found.yes),
            self._numbers(found.doubtful),
            self._numbers(found.unprogrammed),
        )

    cdef list _numbers(self, vector[uint32_t]& found):
        cdef list numbers = []
        cdef uint32_t number
        for number in found:
            numbers.append(self.numbers[number])
        return numbers

    cdef uint32_t _label(self, object ns, object local) except? 0xffffffff:
        cdef const char* namespace = NULL
        cdef const char* name = NULL
        cdef Py_ssize_t namespace_size = 0, name_size = 0
        if ns is not None:
            namespace = PyUnicode_AsUTF8AndSize(ns, &namespace_size)
        if local is not None:
            name = PyUnicode_AsUTF8AndSize(local, &name_size)
        return self.engine.label(namespace, namespace_size, name, name_size)

    cdef uint32_t _string(self, str text) except? 0xffffffff:
        cdef Py_ssize_t size = 0
        cdef const char* octets = PyUnicode_AsUTF8AndSize(text, &size)
        return self.engine.string(octets, size)

    cdef uint32_t _node(self, tuple path) except? 0xffffffff:
        cdef Py_ssize_t at = 0, known = min(len(path), len(self.path))
        cdef uint32_t node = ROOT, label
        while at < known and path[at] is self.path[at]:
            node = self.nodes[at]
            at += 1
        self.nodes.resize(at)
        for at in range(at, len(path)):
            axis, ns, local = <tuple>path[at]
            label = self._label(ns, local)
            try:
                node = self.engine.step(node, <uint8_t>axis, label)
            except:
                self.engine.let_go_label(label)
                raise
            self.nodes.push_back(node)
        self.path = path
        return node

    cdef uint32_t _fact(self, tuple path, tuple tests, truth* numeric) except? 0xffffffff:
        cdef vector[Test] rows
        cdef uint32_t node
        rows.resize(len(tests))
        try:
            for at, test in enumerate(tests):
                self._put_test(<tuple>test, &rows[<size_t>at], numeric)
            node = self._node(path)
        except:
            self.engine.release(rows)
            raise
        return self.engine.fact(node, rows)

    cdef int _put_test(self, tuple test, Test* row, truth* numeric) except -1:
        subject, ns, local, comparison, operand = test
        row.subject = subject
        row.comparison = comparison
        if subject == 2:
            row.label = self._label(ns, local)
        if comparison == RANGE:
            numeric[0] = True
            row.low, row.low_included, row.high, row.high_included = <tuple>operand
        elif comparison >= FIRST_ON_NUMBERS:
            numeric[0] = True
            row.low = operand
        elif operand is not None:
            row.text = self._string(operand)
        return 0

    cdef uint32_t _held_label(self, object ns, object local) except? 0xffffffff:
        self.labels.reserve(self.labels.size() + 1)
        self.labels.push_back(self._label(ns, local))
        return self.labels.back()

    cdef uint32_t _held_string(self, str text) except? 0xffffffff:
        self.strings.reserve(self.strings.size() + 1)
        self.strings.push_back(self._string(text))
        return self.strings.back()

    cdef void _let_go_held(self) noexcept:
        cdef uint32_t label, string
        for label in self.labels:
            self.engine.let_go_label(label)
        for string in self.strings:
            self.engine.let_go_string(string)

    cdef int _put_program(self, tuple program, vector[uint32_t]& words) except -1:
        cdef size_t start = words.size()
        cdef uint32_t instruction = program[0]
        words.push_back(0)
        if instruction < SOME:
            for operand in program[1:]:
                self._put_program(<tuple>operand, words)
        else:
            self._put_path(program, words)
        if words.size() - start - 1 > SPAN_MASK:
            raise OverflowError
        words[start] = instruction << INSTRUCTION_SHIFT | <uint32_t>(words.size() - start - 1)
        if instruction >= SOME and program[1]:
            words[start] |= ABSOLUTE_BIT
        return 0

    cdef int _put_path(self, tuple program, vector[uint32_t]& words) except -1:
        _, _, steps, test = program
        words.push_back(<uint32_t>len(<tuple>steps) << 1 | (test is not None))
        if test is not None:
            subject, ns, local, comparison, operand = <tuple>test
            put_test(
                words,
                subject,
                comparison,
                self._held_label(ns, local) if subject == 2 else NONE,
                self._held_string(operand) if isinstance(operand, str) else NONE,
                0 if operand is None or isinstance(operand, str) else operand,
            )
        for step in <tuple>steps:
            axis, ns, local, condition = <tuple>step
            words.push_back(<uint32_t>axis | (0 if condition is None else CONDITION_BIT))
            words.push_back(self._held_label(ns, local))
            if condition is not None:
                self._put_program(<tuple>condition, words)
        return 0


cdef bint _is_positive(tuple program) except -1:
    """Whether it asks for elements alone: not for their absence, nor for the first of them."""
    if program[0] < NOT:
        for operand in program[1:]:
            if not _is_positive(<tuple>operand):
                return False
        return True
    if program[0] != SOME:
        return False
    for step in <tuple>program[2]:
        condition = (<tuple>step)[3]
        if condition is not None and not _is_positive(<tuple>condition):
            return False
    return True


cdef bint _is_linear(tuple program, tuple branches) except -1:
    """Whether it is one path, and what it asks for below each of the branches, it asks of the same
    element there: a true formula is then false if no element has it all."""
    if program[0] != SOME:
        return False
    path = () if program[1] else CONTEXT
    for step in <tuple>program[2]:
        axis, ns, local, condition = <tuple>step
        if axis > BELOW:
            return False
        path += ((axis, ns, local),)
        if condition is not None and not _is_flat(condition, path, branches):
            return False
    return True


cdef bint _is_flat(tuple condition, tuple path, tuple branches) except -1:
    """Whether it asks for elements below *path*, on the way to which there is none of the branches:
    another demand may ask for another one there."""
    if condition[0] == AND:
        for operand in condition[1:]:
            if not _is_flat(operand, path, branches):
                return False
        return True
    if condition[0] != SOME or condition[1]:
        return False
    for step in <tuple>condition[2]:
        axis, ns, local, further = <tuple>step
        path += ((axis, ns, local),)
        if axis > BELOW or further is not None or path in branches:
            return False
    return True


cdef int _put_formula(object formula, vector[uint32_t]& facts, vector[uint32_t]& words) except -1:
    cdef size_t start = words.size()
    cdef long literal
    if isinstance(formula, int):
        literal = formula
        words.push_back(word(HOLDS, facts[literal]) if literal >= 0 else word(FAILS, facts[~literal]))
        return 0
    words.push_back(0)
    for operand in (<tuple>formula)[1:]:
        _put_formula(operand, facts, words)
    words[start] = word(
        EVERY if (<tuple>formula)[0] == AND else SOME_OF, <uint32_t>(words.size() - start - 1)
    )
    return 0


cdef array.array _numbers_of_none = array.array("I")


cdef array.array _packed(vector[uint32_t]& found):
    cdef array.array numbers = array.clone(_numbers_of_none, found.size(), False)
    if found.size():
        memcpy(numbers.data.as_voidptr, found.data(), found.size() * sizeof(uint32_t))
    return numbers


cdef inline string_view _view(bytes text):
    return string_view(<const char*>text, len(text))
