# Chains: absolute paths of children and descendants, whose predicates ask for values. Filters as
# they are written most often, and hardly two of one shape: so these go from their text to their
# plan at once. All else is for the parser, and so is what it might refuse. The plan is the same as
# planner.py's.

from cpython.unicode cimport PyUnicode_DecodeUTF8
from libc.string cimport memcmp

from filters.matching.planning.plan import Plan

# Of limits.py.
cdef enum:
    MAX_OCTETS = 4096
    MAX_OPERATORS = 100
    MAX_STEPS = 64
    MAX_PREDICATES = 32

# Of plan.py.
cdef enum:
    CHILD_AXIS = 0
    DESCENDANT_AXIS = 1
    HERE_AXIS = 0
    SELF_SUBJECT = 0
    TEXT_SUBJECT = 1
    ATTRIBUTE_SUBJECT = 2
    EXISTS_TEST = 0
    EQUAL_TEST = 1


class _NoChain(Exception):
    pass


def plan_of_chain(bytes text, tuple namespaces):
    """The plan of an expression that is a chain, its text in UTF-8; None for any other."""
    if len(text) > MAX_OCTETS or not text.startswith(b"/"):
        return None
    cdef _Chain chain = _Chain(text, namespaces)
    try:
        return chain.plan()
    except (_NoChain, UnicodeDecodeError):
        return None


cdef class _Chain:
    """Where the reading of a text stands."""

    cdef const char* at
    cdef const char* end
    cdef bytes text
    cdef tuple namespaces
    cdef int steps, predicates, operators
    cdef list atoms, branches, program

    def __init__(self, bytes text, tuple namespaces):
        self.text = text
        self.at = text
        self.end = self.at + len(text)
        self.namespaces = namespaces
        self.atoms = []
        self.branches = []
        self.program = []

    cdef plan(self):
        cdef tuple path = ()
        while self.at < self.end:
            path = self.step(path)
        if not self.atoms:
            raise _NoChain  # ``/*``, which is always true.
        program = (SOME, True, tuple(self.program), None) if self.branches else None
        formula = 0 if len(self.atoms) == 1 else (AND, *range(len(self.atoms)))
        return Plan(tuple(self.atoms), formula, True, tuple(self.branches), program)

    cdef tuple step(self, tuple path):
        """Read a step, of which all that *path* leads to; returns the path to the step's end."""
        cdef list tests = [], children = [], conditions = []
        self.expect(b"/")
        axis = CHILD_AXIS
        if self.at < self.end and self.at[0] == b"/":
            axis = DESCENDANT_AXIS
            self.at += 1
        self.skip_blanks()
        self.count_step()
        ns, local = self.name()
        path = (*path, (axis, ns, local))
        self.skip_blanks()
        while self.at < self.end and self.at[0] == b"[":
            self.predicate(tests, children, conditions)
        wanted = None
        if conditions:
            wanted = conditions[0] if len(conditions) == 1 else (AND, *conditions)
        self.program.append((axis, ns, local, wanted))
        self.demand(path, tests, children)
        return path

    cdef int demand(self, tuple path, list tests, list children) except -1:
        """The atoms of the element at *path*."""
        cdef bint last = self.at == self.end
        cdef Py_ssize_t demands = bool(tests) + len(children) + (not last)
        if demands > 1 and not (len(path) == 1 and path[0][0] == CHILD_AXIS):
            self.branches.append(path)
        if tests:
            self.add((path, tuple(tests)))
        for child, test in children:
            self.add(((*path, child), () if test is None else (test,)))
        if last and demands == 0 and path != ((CHILD_AXIS, None, None),):
            self.add((path, ()))
        return 0

    cdef int add(self, tuple atom) except -1:
        if atom not in self.atoms:
            self.atoms.append(atom)
        return 0

    cdef int predicate(self, list tests, list children, list conditions) except -1:
        """Read one, at its bracket: comparisons, joined by ``and``."""
        self.predicates += 1
        if self.predicates > MAX_PREDICATES:
            raise _NoChain
        self.at += 1
        while True:
            self.skip_blanks()
            self.comparison(tests, children, conditions)
            if self.at < self.end and self.at[0] == b"]":
                break
            if self.end - self.at < 4 or self.at[0] != b"a" or self.at[1] != b"n" or self.at[2] != b"d":
                raise _NoChain
            self.at += 3
            if is_name(self.at[0]) or self.at[0] == b":":
                raise _NoChain
            self.count_operator()
        self.at += 1
        self.skip_blanks()
        return 0

    cdef int comparison(self, list tests, list children, list conditions) except -1:
        """Read an attribute, a child, ``text()`` or ``.``, and maybe the text that it equals."""
        cdef int subject = SELF_SUBJECT
        cdef bint child = False
        ns = local = operand = None
        self.count_step()
        if self.at < self.end and self.at[0] == b"@":
            subject = ATTRIBUTE_SUBJECT
            self.at += 1
            self.skip_blanks()
            ns, local = self.name()
        elif self.at < self.end and self.at[0] == b".":
            self.at += 1
        elif self.end - self.at > 6 and not memcmp(self.at, b"text()", 6):
            subject = TEXT_SUBJECT
            self.at += 6
        else:
            child = True
            ns, local = self.name()
        self.skip_blanks()
        comparison = EXISTS_TEST
        if self.at < self.end and self.at[0] == b"=":
            comparison = EQUAL_TEST
            self.at += 1
            self.count_operator()
            self.skip_blanks()
            operand = self.literal()
            self.skip_blanks()
        elif not child and subject == SELF_SUBJECT:
            raise _NoChain
        if child:
            step = (HERE_AXIS, ns, local, None)
            test = None if operand is None else (SELF_SUBJECT, None, None, EQUAL_TEST, operand)
            children.append(((CHILD_AXIS, ns, local), test))
            conditions.append((SOME, False, (step,), test))
            return 0
        test = (subject, ns, local, comparison, operand)
        if test not in tests:
            tests.append(test)
        conditions.append((SOME, False, (), test))
        return 0

    cdef tuple name(self):
        """Read a name test: its namespace and its local name."""
        if self.at < self.end and self.at[0] == b"*":
            self.at += 1
            return None, None
        cdef const char* start = self.ncname()
        cdef Py_ssize_t size = self.at - start
        ns = ""
        if self.at < self.end and self.at[0] == b":":
            ns = self.namespace(start, size)
            self.at += 1
            if self.at < self.end and self.at[0] == b"*":
                self.at += 1
                return ns, None
            start = self.ncname()
            size = self.at - start
        self.skip_blanks()
        # A function, a test of a kind of node; an axis.
        if self.at < self.end and (self.at[0] == b"(" or self.at[0] == b":"):
            raise _NoChain
        return ns, PyUnicode_DecodeUTF8(start, size, NULL)

    cdef const char* ncname(self) except NULL:
        cdef const char* start = self.at
        if self.at == self.end or not is_name(self.at[0]) or is_behind(self.at[0]):
            raise _NoChain
        while self.at < self.end and is_name(self.at[0]):
            self.at += 1
        # Names have rarer characters too.
        if self.at < self.end and <unsigned char>self.at[0] >= 0x80:
            raise _NoChain
        return start

    cdef str namespace(self, const char* start, Py_ssize_t size):
        """That of a prefix."""
        prefix = PyUnicode_DecodeUTF8(start, size, NULL)
        if prefix != "xml":
            for bound, uri in reversed(self.namespaces):
                if bound == prefix:
                    if uri:
                        return uri
                    break
        raise _NoChain

    cdef str literal(self):
        """Read one."""
        cdef char quote = self.at[0] if self.at < self.end else 0
        if quote != b"'" and quote != b'"':
            raise _NoChain
        self.at += 1
        cdef const char* start = self.at
        while self.at < self.end and self.at[0] != quote:
            # What XML has no place for is refused by the parser: among those that are decoded
            # these, U+FFFE and U+FFFF.
            if 0 <= self.at[0] < 0x20 and self.at[0] not in b"\t\n\r":
                raise _NoChain
            if <unsigned char>self.at[0] == 0xef and <unsigned char>self.at[1] == 0xbf:
                raise _NoChain
            self.at += 1
        if self.at == self.end:
            raise _NoChain
        self.at += 1
        return PyUnicode_DecodeUTF8(start, self.at - start - 1, NULL)

    cdef void skip_blanks(self):
        while self.at < self.end and self.at[0] in b" \t\r\n":
            self.at += 1

    cdef int expect(self, char mark) except -1:
        if self.at == self.end or self.at[0] != mark:
            raise _NoChain
        self.at += 1
        return 0

    cdef int count_step(self) except -1:
        self.steps += 1
        if self.steps > MAX_STEPS:
            raise _NoChain
        return 0

    cdef int count_operator(self) except -1:
        self.operators += 1
        if self.operators > MAX_OPERATORS:
            raise _NoChain
        return 0


cdef inline bint is_behind(char c):
    """Whether it is part of a name, but not its first."""
    return c == b"-" or c == b"." or b"0" <= c <= b"9"


cdef inline bint is_name(char c):
    return b"a" <= c <= b"z" or b"A" <= c <= b"Z" or c == b"_" or is_behind(c)
