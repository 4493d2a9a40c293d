# Whose the filters are that are true: keys, out of what a filter set holds of each (entries.py).
# Nearly all of that memory was not read since the last message, so it is asked for early: each round
# touches what the one before it has asked for.

cdef extern from *:
    """
    static inline PyObject** dragoman_items(PyObject* list) {
        return ((PyListObject*)list)->ob_item;
    }
    static inline PyObject* dragoman_type(PyObject* one) { return (PyObject*)Py_TYPE(one); }
    static inline void dragoman_put(PyObject* list, Py_ssize_t at, PyObject* item) {
        PyList_SET_ITEM(list, at, item);
    }
    """
    PyObject** dragoman_items(PyObject* items)
    PyObject* dragoman_type(PyObject* one)
    void dragoman_put(PyObject* items, Py_ssize_t at, PyObject* item)

cdef extern from "Python.h":
    Py_ssize_t PyList_GET_SIZE(PyObject* items)
    bint PyDict_Next(PyObject* items, Py_ssize_t* at, PyObject** key, PyObject** value)
    void Py_INCREF(PyObject* one)
    void Py_DECREF(PyObject* one)
    list PyList_New(Py_ssize_t size)

cdef enum:
    AHEAD = 16


def keys_of(array.array numbers, list held, type few, type several, object nobody):
    """What *held* has at *numbers*, but for *nobody*; of those that are *few* or *several*, each."""
    cdef vector[PyObject*] keys
    cdef PyObject* key
    cdef size_t at, count
    cdef list result
    _gather(numbers, held, <PyObject*>few, <PyObject*>several, <PyObject*>nobody, keys)
    count = keys.size()
    for at in range(count):
        if at + AHEAD < count:
            prefetch(keys[at + AHEAD])
        Py_INCREF(keys[at])
    # Not before: room for a list may be made by a collection, which may run anything.
    try:
        result = PyList_New(count)
    except MemoryError:
        for key in keys:
            Py_DECREF(key)
        raise
    for at in range(count):
        dragoman_put(<PyObject*>result, at, keys[at])
    return result


cdef int _gather(array.array numbers, list held, PyObject* few, PyObject* several,
                 PyObject* nobody, vector[PyObject*]& keys) except -1:
    cdef const uint32_t* number = <const uint32_t*>numbers.data.as_uints
    cdef PyObject** holders = dragoman_items(<PyObject*>held)
    cdef size_t at, count = len(numbers), places = len(held)
    cdef Py_ssize_t place
    cdef PyObject* one
    cdef PyObject* key
    cdef vector[PyObject*] found
    for at in range(count):
        if number[at] >= places:
            raise IndexError(number[at])
        prefetch(&holders[number[at]])
    found.reserve(count)
    for at in range(count):
        found.push_back(holders[number[at]])
        prefetch(found.back())
    keys.reserve(count)
    for at in range(count):
        if at + AHEAD < count and dragoman_type(found[at + AHEAD]) == few:
            prefetch(dragoman_items(found[at + AHEAD]))
        one = found[at]
        if dragoman_type(one) == few:
            for place in range(PyList_GET_SIZE(one)):
                keys.push_back(dragoman_items(one)[place])
        elif dragoman_type(one) == several:
            place = 0
            while PyDict_Next(one, &place, &key, NULL):
                keys.push_back(key)
        elif one != nobody:
            keys.push_back(one)
    return 0
