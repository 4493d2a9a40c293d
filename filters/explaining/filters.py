"""Why a filter matched an event, or why not, step by step."""

from lxml import etree

from filters.compiling.compiled import compile, translated
from filters.dialects import XPATH_1_0
from filters.documents import parse_own
from filters.events import PAYLOAD, Event
from filters.explaining.explanation import Explanation, shortened
from filters.explaining.xpath import explain_xpath
from filters.filter import Expression, Filter
from filters.reasons import Refused


def explain(filter: Filter, event: Event) -> Explanation:
    """Explain what `CompiledFilter.matches` says of *event*, and say the same.

    The verdict is None if it depends on an expression that costs too much to evaluate here.

    Raises:
        FilterError: As `filters.compile`.
    """
    compile(filter)
    children = (
        *(_explain_topic(each, event) for each in filter.topics),
        *(_explain_content(each, event) for each in filter.contents + filter.others),
    )
    if not children:
        return Explanation(True, "the filter", "without expressions, it matches everything")
    verdicts = [child.verdict for child in children]
    verdict = False if False in verdicts else None if None in verdicts else True
    return Explanation(verdict, "the filter", "", children)


def _explain_topic(expression: Expression, event: Event) -> Explanation:
    verdict = compile(Filter(topics=(expression,))).matches(event)
    note = f"the topic is {shortened(str(event.topic))}"
    return Explanation(verdict, shortened(expression.text), note)


def _explain_content(written: Expression, event: Event) -> Explanation:
    expression, text = translated(written), shortened(written.text)
    if expression is not written:
        child = _explain_content(expression, event)
        note = f"in the dialect {shortened(written.dialect)}, that is to say"
        return Explanation(child.verdict, text, note, (child,))
    if (expression.dialect.strip() or XPATH_1_0) != XPATH_1_0:
        action = "no action" if event.action is None else f"the action {shortened(event.action)}"
        note = f"in the dialect {shortened(expression.dialect)}; the message has {action}"
        verdict = compile(Filter(contents=(expression,))).matches(event)
        return Explanation(verdict, text, note)
    try:
        root = parse_own(event.view(expression.view))
    except (LookupError, Refused, etree.XMLSyntaxError, ValueError):
        what = "no payload in XML" if expression.view == PAYLOAD else f"no {expression.view}"
        return Explanation(False, text, f"the message has {what}")
    return explain_xpath(expression, root)
