# Documents on tapes, and what is asked of them: see tapes/layout.hpp and tapes/evaluation.hpp.

from libcpp.string cimport string
from lxml.includes.tree cimport xmlDoc


cdef extern from "tapes/writing.hpp" namespace "dragoman::tapes" nogil:
    cdef cppclass Writer:
        Writer() except +
        string tape, vocabulary
        truth write(const xmlDoc* document) except +


cdef extern from "tapes/evaluation.hpp" namespace "dragoman::tapes" nogil:
    cdef enum Operation:
        pass
    cdef enum Axis:
        pass
    cdef enum NodeTest:
        THE_NAME

    cdef cppclass NameTest:
        NameTest()
        truth any_space, any_local
        string space, local

    cdef cppclass Step:
        Step()
        Axis axis
        NodeTest test
        uint32_t name
        vector[uint32_t] predicates

    cdef cppclass Part:
        Part()
        Operation operation
        truth absolute
        double number
        string text
        vector[uint32_t] operands
        vector[Step] steps

    cdef cppclass Code:
        Code()
        vector[Part] parts
        vector[NameTest] names

    cdef cppclass Evaluation:
        Evaluation(const Code& code) except +
        void learn(string_view vocabulary) except +
        Verdict decide(string_view tape) except +
        truth is_tired()


cdef enum:
    AHEAD_ON_TAPE = 512


def tape_of(api._Element root not None):
    """The vocabulary and the tape of the document of *root*; None if it is too large for one."""
    cdef Writer writer
    if not writer.write(<const xmlDoc*>root._doc._c_doc):
        return None
    return <bytes>writer.vocabulary, <bytes>writer.tape


cdef class Asking:
    """An expression that is asked of tapes. For one thread at a time.

    Args:
        code: Of `filters.queries.codes`.
    """

    cdef Code code
    cdef Evaluation* evaluation

    def __init__(self, tuple code not None):
        self._put(code)
        del self.evaluation
        self.evaluation = NULL
        self.evaluation = new Evaluation(self.code)

    def __dealloc__(self):
        del self.evaluation

    def decide(self, list tapes not None):
        """Of each of *tapes*, with their vocabularies: 1 if it is true, 0 if not, 2 if libxml2 has
        to decide; in bytes. Of the first of them, one at least, where all would take more than some
        milliseconds. Other threads run meanwhile."""
        cdef size_t at = 0, ahead, count = len(tapes)
        cdef vector[string_view] read
        cdef string verdicts
        cdef bytes vocabulary
        read.reserve(2 * count)
        for one in tapes:
            vocabulary, tape = <tuple>one
            read.push_back(_view(vocabulary))
            read.push_back(_view(<bytes>tape))
        with nogil:
            while at < count and not (at and self.evaluation.is_tired()):
                if at + 1 < count:
                    for ahead in range(0, <size_t>AHEAD_ON_TAPE, 64):
                        prefetch(read[2 * at + 3].data() + ahead)
                if at == 0 or read[2 * at].data() != read[2 * at - 2].data():
                    self.evaluation.learn(read[2 * at])
                verdicts.push_back(<char>self.evaluation.decide(read[2 * at + 1]))
                at += 1
        return <bytes>verdicts

    cdef uint32_t _put(self, tuple code) except? 0xffffffff:
        cdef Part part
        cdef Step step
        operation, value, operands, steps = code
        part.operation = <Operation><int>operation
        part.absolute = value is True
        if isinstance(value, str):
            part.text = (<str>value).encode()
        elif isinstance(value, float):
            part.number = value
        for operand in <tuple>operands:
            part.operands.push_back(self._put(<tuple>operand))
        for axis, test, name, predicates in <tuple>steps:
            step = Step()
            step.axis = <Axis><int>axis
            step.test = <NodeTest><int>test
            if test == THE_NAME:
                step.name = self._name(name[0], name[1])
            for predicate in <tuple>predicates:
                step.predicates.push_back(self._put(<tuple>predicate))
            part.steps.push_back(step)
        self.code.parts.push_back(part)
        return <uint32_t>(self.code.parts.size() - 1)

    cdef uint32_t _name(self, object space, object local) except? 0xffffffff:
        cdef NameTest test
        test.any_space = space is None
        test.any_local = local is None
        if space is not None:
            test.space = (<str>space).encode()
        if local is not None:
            test.local = (<str>local).encode()
        self.code.names.push_back(test)
        return <uint32_t>(self.code.names.size() - 1)
