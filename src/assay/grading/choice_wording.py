"""Vocabulary of stated choices, in the languages of the benchmarks; words only, no rules."""

# ruff: noqa: RUF001 -- words of several alphabets
import re
from functools import cache

import msgspec

LETTER = "A-Za-z0-9_À-\u1fff"
"""Letters that continue a word; those of Chinese, Japanese and Korean may directly adjoin a choice."""
# Escaped for character classes, in which both constants are used.
OPENING = "\"'`*_(\\[{$\\\\<>“”„«‘【「（"
CLOSING = "\"'`*_)\\]}$\\\\>“”»’】」）"
LINKING = ".):–—-"
"""Characters between the name of a choice and its words."""
SENTENCE_ENDS = ".!?;。？！"


class ChoiceAnnouncement(msgspec.Struct, frozen=True):
    """Words that announce a choice."""

    trigger: str
    """Lower-case text that is fast to find and with which the pattern begins."""
    pattern: str
    """Pattern from there on, up to the choice."""
    before: str = ""
    """Pattern that must match before it."""
    after: str = ""
    """Pattern that must match after the choice."""


_DECORATION = r"[*_`\"')\]}\s]{0,8}"
_COLON = r"[:=：]|->|→|(?<=\s)[–—-](?=\s)"
# Many of these words come from published answers of models, as the tests of the parser quote them.
_ADVERB = (
    r"(?:(?:therefore|thus|clearly|definitely|most likely|likely|probably|then|simply|indeed|hence|obviously|also|daher|somit|donc|"
    r"quindi|dunque|por tanto|entonces|应该|就)\b\s?,?\s{0,9})?"
)


def _noun(trigger: str, noun: str, copula: str, *, is_optional: bool = False) -> ChoiceAnnouncement:
    """Build a noun and its link to the choice: a form of "to be", a colon or an arrow."""
    link = rf"(?:\b(?:{copula})(?![a-z])|(?P<label>{_COLON}))" + ("?" if is_optional else "")
    return ChoiceAnnouncement(trigger, rf"{noun}{_DECORATION}{link}{_DECORATION}:?\s{{0,99}}{_ADVERB}")


_IS = r"is|are|was|would be|must be|should be|will be|has to be|(?:seems|appears) to be"
_ASIDE = r"(?:\s(?:to|for|of|in)\s[^.:;?!\n]{1,80}?)?"
_FIRST_PERSON = r"\b(?:i|we)(?:['’](?:d|ll|m)| would| will| have| am)?(?: therefore| thus| hence)? {0,2}$"
ANNOUNCEMENTS = (
    _noun("answer", rf"answers?\b{_ASIDE}", _IS),
    _noun("correct", r"correct (?:choices?|options?|ones?|letters?|alternatives?)\b", _IS),
    _noun("right", r"right (?:choices?|options?|ones?)\b", _IS),
    _noun("choice", r"choice\b", _IS),
    _noun("option", r"option\b", _IS),
    _noun("solution", r"solution\b", _IS),
    _noun("antwort", r"antwort(?:en|option(?:en)?|möglichkeit(?:en)?)?\b", r"ist|sind|lautet|lauten|wäre"),
    _noun("lösung", r"lösung\b", r"ist|lautet"),
    *(
        _noun(right, rf"{right}e?n?(?: (?:option|wahl|auswahl|aussage|alternative|variante)(?:en)?)?\b", r"ist|sind|lautet")
        for right in ("richtig", "korrekt")
    ),
    ChoiceAnnouncement(
        "ist",
        r"ist\s(?:nur |allein )?(?:(?:die )?(?:antwort|option|aussage|lösung|alternative|variante)\s)?",
        before=r"\b(?:daher|somit|also|damit|folglich|demnach|deshalb|deswegen|mithin|dementsprechend)\s$",
        after=r"[\s*_]{1,9}(?:die )?(?:richtig|korrekt|zutreffend)\w{0,2}\b",
    ),
    ChoiceAnnouncement("ans", r"ans(?:\.:?|\s?[:=])\s{0,9}", before=r"(?:^|[\n.!?]\s{0,9})[*_]{0,3}$"),
    _noun("réponse", r"réponses?(?: (?:correcte|exacte|finale|juste)s?)?", r"est|sont|serait"),
    _noun("reponse", r"reponses?(?: (?:correcte|exacte|finale|juste)s?)?", r"est|sont|serait"),
    _noun("rispost", r"rispost[ae](?: (?:corrett|giust|esatt|final)[aei])?", r"è|e'|sono|sarebbe"),
    _noun("respuesta", r"respuestas?(?: (?:correctas?|final))?", r"es|son|sería"),
    _noun("opción correcta", r"opción correcta", r"es"),
    _noun("option correcte", r"option correcte", r"est"),
    _noun("opzione corretta", r"opzione corretta", r"è"),
    _noun("opção correta", r"opção correta", r"é"),
    _noun("alternativa corret", r"alternativa corret[at]a?", r"é|è"),
    _noun("resposta", r"respostas?(?: (?:corretas?|final))?", r"é|são|seria"),
    _noun("antwoord", r"antwoord(?:en)?", r"is|zijn"),
    _noun("ответ", r"ответы?(?: —| -| –)?", r"это", is_optional=True),
    _noun("відповідь", r"відповідь(?: —| -| –)?", r"це", is_optional=True),
    _noun("odpowied", r"odpowied(?:ź|zi)(?: (?:poprawna|prawidłowa))?", r"to|jest|są"),
    _noun("odpověď", r"odpověď(?: je)?", r"je", is_optional=True),
    _noun("odpoveď", r"odpoveď(?: je)?", r"je", is_optional=True),
    _noun("odgovor", r"odgovor", r"je"),
    _noun("svar", r"svar(?:et)?", r"är|er"),
    _noun("vastaus", r"vastaus", r"on"),
    _noun("vastus", r"vastus", r"on"),
    _noun("răspuns", r"răspunsul?(?: (?:corect|final))?", r"este|e"),
    _noun("válasz", r"válasz(?: a)?", r"az?", is_optional=True),
    _noun("отговор", r"отговор(?:ът)?(?: —| -| –)?", r"е", is_optional=True),
    _noun("απάντηση", r"απάντηση", r"είναι"),
    _noun("cevap", r"cevap", r"olarak", is_optional=True),
    _noun("đáp án", r"đáp án(?: đúng)?", r"là"),
    _noun("jawaban", r"jawaban(?: yang (?:benar|tepat))?(?: adalah)?", r"adalah", is_optional=True),
    _noun("उत्तर", r"उत्तर", r"है", is_optional=True),
    _noun("الإجابة", r"الإجابة(?: الصحيحة| النهائية)?(?: هي)?", r"هي", is_optional=True),
    *(ChoiceAnnouncement(word, rf"{word}\s?(?:は|[:：])[*\s]{{0,8}}") for word in ("正解", "答え", "解答", "回答")),
    *(ChoiceAnnouncement(word, rf"{word}\s?(?:은|는|[:：])[*\s]{{0,8}}") for word in ("정답", "답")),
    ChoiceAnnouncement("答案", r"答案(?:应该|应当|应)?(?:就?是|为|选|[:：])?[*\s]{0,8}"),
    ChoiceAnnouncement("选", r"选(?!项)择?[:：]?[*\s]{0,8}"),
    ChoiceAnnouncement("正确", r"正确的?选项(?:是|为|[:：])[*\s]{0,8}"),
    *(
        ChoiceAnnouncement(verb, rf"{verb}\s{{1,9}}", before=_FIRST_PERSON)
        for verb in ("choose", "chose", "select", "selected", "pick", "say")
    ),
    *(
        ChoiceAnnouncement(verb, rf"{verb}\s{{1,9}}", before=_FIRST_PERSON)
        for verb in ("picked", "go with", "going with", "opt for")
    ),
    *(ChoiceAnnouncement(verb, rf"{verb}(?: ich)?\s{{1,9}}") for verb in ("wähle", "entscheide mich für", "choisis", "scelgo")),
    *(ChoiceAnnouncement(verb, rf"{verb}\s{{1,9}}") for verb in ("elijo", "escojo", "выбираю")),
)
FINAL = (
    re.compile(r"\\boxed\s{0,9}(?=\{)"),
    re.compile(r"^#{4}[ \t]{0,9}(?=\S)", re.MULTILINE),
    re.compile(r"<(?:final_)?answer>", re.IGNORECASE),
)
"""Announcements of a final answer, which outweighs earlier ones."""
FINAL_BEFORE = re.compile(
    r"(?:\b(?:final|finale[nr]?|endgültige[nr]?|definitiv[ae])\s{0,9}[*_]{0,3}|最终|окончательный )$",
    re.IGNORECASE,
)
# The last branch is about what others say or the model thought at first: attributed choices are not the model's answer.
REJECTED_BEFORE = re.compile(
    r"(?:\b(?:wrong|incorrect|false|no|not|cannot|falsche[nrs]?|nicht|mauvaises?|fausses?|ne|non|sbagliat\w{1,3}|errat\w{1,3}|"
    r"equivocad\w{1,3}|не|неправильн\w{1,3}|неверн\w{1,3})"
    r"\s|n['’]t\s|不正确的?|错误的?|不|没|别)(?:the |the correct |the right |correct |right )?$"
    r"|(?:\b(?:if|whether|unless|suppose|assuming|wenn|falls|ob|si l[ae]s?|se l[ae]|если)\b|如果)[^.,;:!?\n]*$"
    r"|\b(?:(?:might|may|could|not|\w{2,6}n['’]t) (?:think|say|assume|believe|argue|guess)|doubt|"
    r"not (?:true|sure|clear|certain|the case)|tempt(?:ing|ed) to (?:think|say|assume|conclude|choose|pick)|"
    r"(?:some|others|many|people)(?: (?!we\b)\w{2,10}){0,2} (?:say|think|believe|argue|claim|assume|suggest|guess)|"
    r"(?:i|we|one)(?: (?:had|have|first|initially|originally|mistakenly|wrongly))* "
    r"(?:thought|assumed|guessed|believed|suspected|figured))"
    r"(?: that)?(?: the| the correct| the right)? $",
    re.IGNORECASE,
)
"""Words before an announcement that negate it, make it conditional or attribute it to others."""
CONDITION = re.compile(
    r"\W*(?:(?:but|and|or|so|then|aber|und|mais|et|ma|pero|y|но|а)\W+)?(?:(?:if|unless|assuming|suppose|supposing|wenn|falls|angenommen|"
    r"si|se|если)\b|如果|假如)|"
    r".*(?:\b(?:otherwise|or else|sonst|andernfalls|sinon|autrement|altrimenti|иначе)\b|de lo contrario|否则)",
    re.IGNORECASE | re.DOTALL,
)
"""Beginnings of a conditional sentence."""
_ARTICLE = r"(?:the|die|der|la|le|les|las|los|il|lo)"
NOUN = (
    rf"(?:(?:(?:{_ARTICLE}|a) |l['’])?(?:options?|choices?|answers?|letters?|alternatives?|both|antwort(?:en)?|"
    r"auswahl|wahl|réponses?|rispost[ae]|opzion[ei]|respuestas?|opción(?:es)?|opção|letra|lettera|lettre|варианты?|ответ)\b|"
    rf"{_ARTICLE}(?= )|选项)"
)
"""Words that may precede the name of a choice."""
COMMA = re.compile(r"\s{0,9}[,;&+/、，]\s{0,9}")
AND = re.compile(r"\s{0,9}[,;]?\s{0,9}(?:\b(?:and|und|sowie|et|(?-i:ed?|y|и))\b|和|与|及)\s{0,9}", re.IGNORECASE)
OR = re.compile(r"\s{0,9},?\s{0,9}(?:\b(?:and/)?(?:or|oder|ou|oppure|или|(?-i:od?|u))\b|或者?)", re.IGNORECASE)
HEDGE = re.compile(
    r"\b(?:or|oder|ou|oppure|или|unless|otherwise|either|alternatively|could also|might also|"
    r"es sei denn|sauf si|a meno che|a menos que)\b|或|除非",
    re.IGNORECASE,
)
"""Words that leave another choice open."""
NEGATION = re.compile(
    r"\b(?:not|neither|nor|rather than|instead of|unlike|nicht|kein|keine|weder|pas|ni|non|né|no|не|ни)\b|n['’]t\b|不",
    re.IGNORECASE,
)
_BE = r"(?:is|are|was|were|isn['’]t|aren['’]t|would|cannot|can|does|seems?|ist|sind|war|est|sont|n['’]est|è|sono|es|son|no es)"
COPULA = re.compile(rf"\s{{0,9}}(?:{_BE}\b|不?是)", re.IGNORECASE)
_NOT = r"(?:not|never|nicht|pas|non|no|не)"
_WRONG = (
    r"(?:wrong|incorrect|false|untrue|rejected|falsch|faux|fausse|incorrecte?|inexacte?|sbagliat[oaei]|errat[oaei]|incorrect[ao]|"
    r"fals[ao]|невер\w{1,4}|неправил\w{1,5})"
)
_GOOD = r"(?:correct|right|true|the|an?|richtig|korrekt|correcte?|juste|corrett[ao]|giust[ao]|correct[ao])"
REJECTING = re.compile(
    rf"[\s(:–—-]{{0,9}}(?:,? (?:which|that|it) )?(?:\b{_BE}\s(?:\w{{1,12}} )?(?:{_NOT}|{_WRONG})\b|"
    rf"\b(?:isn|aren)['’]t\b|\bn['’]est pas\b|\b{_WRONG}\b|\b{_NOT}\s{_GOOD}\b|不是|是?错|不正确|❌|✗)",
    re.IGNORECASE,
)
"""Retracts the choice before it."""
_BUT = (
    r"(?:but|yet|however|though|although|and|aber|jedoch|doch|allerdings|mais|cependant|pourtant|ma|però|tuttavia|"
    r"pero|aunque|sin embargo|но|однако|actually|in fact|no|wait|sorry|eigentlich|en fait|in realtà|en realidad|на самом деле)"
)
_IT = (
    r"(?:it|this|that|which|they|these|those|(?:this|that|the) (?:option|choice|answer|one)|es|das|dies|diese|cela|ce|elle|"
    r"questa?|esta|esto|это|она?)"
)
_IS_NOT = (
    rf"(?:{_IT}\s(?:{_BE}\s)?(?:\w{{1,12}} ){{0,2}}{_NOT}|{_IT}(?:['’]s| cannot be| can not be| could not be)(?: not)?|"
    rf"{_IT}\s(?:isn|aren|wasn|can|couldn)['’]t(?: be)?|non è|no es|не)"
)
_QUITE = r"(?:(?:actually|really|quite|exactly|entirely|fully|strictly|ganz|wirklich|vraiment|del tutto|del todo|совсем)\s)?"
_ANSWER = (
    r"(?:(?:the|an?|die|der|das|eine?|la|le|une?|el)\s)?(?:correct|right|true|best|answer|richtig\w{0,2}|korrekt\w{0,2}|antwort|correcte?|"
    r"bonne|juste|réponse|corrett[ao]|giust[ao]|esatt[ao]|risposta|correct[ao]|respuesta|верн\w{1,4}|правильн\w{1,4})"
)
_WRONG_THEN = (
    rf"\b(?:{_IS_NOT}\s{_QUITE}{_ANSWER}|{_IT}(?:['’]s|\s{_BE})?\s(?:\w{{1,12}} ){{0,2}}(?:{_WRONG}|ruled out|eliminated|excluded)|"
    rf"none(?: of \w{{2,8}}(?: \w{{2,8}})?)? (?:is|are) {_ANSWER})\b"
)
_DIFFERS = (
    rf"\b(?:but|yet|however)\b[\s,]{{1,9}}{_IT}\s(?:(?:does|do|did) not|(?:does|do|did)n['’]t) (?:match|agree|correspond)\b"
    r"(?! (?:exactly|perfectly|precisely))"
)
"""Marks a choice as only the closest: `but it does not match our calculation`."""
TAKEN_BACK = re.compile(
    rf"[\s,;.()*_–—-]{{0,9}}(?:{_DIFFERS}|(?:\b{_BUT}\b[\s,]{{1,9}}){{0,2}}{_WRONG_THEN})|"
    r"[\s,;.，。]{0,9}(?:但是?|不过)?(?:它|这|那)?(?:并?不是?(?:正确|答案)|是错|不对)",
    re.IGNORECASE,
)
"""A clause or sentence about the preceding choice that denies it."""
TAKEN_BACK_LATER = re.compile(
    rf"[,;.(–—-]\s{{0,9}}(?:{_DIFFERS}|(?:\b{_BUT}\b[\s,]{{1,9}}|(?=which\b)){_WRONG_THEN})", re.IGNORECASE
)
"""The same after further words, such as those of the choice."""
RIGHT = re.compile(
    r"(?:is|are|ist|sind|est|sont|è|sono|es|son)\s(?:(?:the|die|la|le|les|las|only|probably|likely|most|clearly|therefore|thus|definitely|"
    r"also|indeed|daher|somit|allein|one) ){0,3}(?:correct|right|best|answers?|true|richtige?|korrekte?|correctes?|bonnes?|justes?|"
    r"corrett[aei]|giust[aei]|esatt[aei]|correct[ao]s?)\b|\bfits? (?:the )?best\b|是?正确|верн\w{1,4}|правильн\w{1,4}"
)
"""Confirms the choice before it, in lower case."""
IF_AFTER = re.compile(r"\s{0,9},?\s{0,9}(?:only )?\b(?:if|when|depending on|wenn|falls|si|se|если)\b|如果", re.IGNORECASE)
"""Makes the choice before it conditional."""
CONCLUSION = re.compile(
    r"(?:\b(?:it|this|that)(?:['’]s| is| must be| has to be| would be| should be)|"
    r"\b(?:corresponds? to|matches|which is|i\.e\.,?)(?= (?:the )?(?:option|choice|answer|\())|"
    r"(?:^|(?<=[.,;:!?]\s)|(?<=\n))[*_]{0,3}(?:so|therefore|thus|hence|conclusion|verdict)\b[*_]{0,3}[,:]?[*_]{0,3}|[∴⇒→]|=>)\s"
    r"(?:(?:therefore|thus|clearly|definitely|probably|most likely|likely|obviously)\s)?",
    re.IGNORECASE,
)
"""May precede a choice at the very end of an answer that does not say `the answer is`."""
# Only where nothing else announces a choice: there, doubt is enough not to read one.
MAYBE = re.compile(r"\b(?:maybe|perhaps|might|may|could|possibly|unsure|guess|vielleicht|peut-être|forse|quizás?)\b", re.IGNORECASE)
RIGHT_WORDS = (
    *("correct", "right", "best", "true", "s the answer", "e the answer", "richtig", "korrekt"),
    *("bonne", "juste", "corrett", "giust", "esatt", "正确", "верн", "правильн"),
)
"""Every text that confirms a choice contains one of these."""
LEAD_IN = re.compile(
    r"\s*(?:(?:so|but|thus|therefore|hence|only|both|i think|i believe|that|in conclusion|"
    r"aber|daher|also|somit|nur|mais|donc|seule?|ma|quindi|solo|pero|por tanto|所以|因此)"
    r"(?:\b|(?<=[一-鿿]))[\s,]*)*",
    re.IGNORECASE,
)
"""Words at the beginning of a sentence that do not change its subject."""
BECAUSE = re.compile(
    r"[\s,.:;–—-]{0,9}(?:\b(?:because|since|as|due|given|weil|da|denn|car|parce|puisque|perché|poiché|porque|"
    r"ya que|потому|так как)\b|因为)|,?\s(?:and )?(?:not|rather than|instead of|nicht|statt)\s\(?(?-i:[B-Z])\b",
    re.IGNORECASE,
)
RETRACTED = re.compile(
    r"\b(?:wait|hold on|scratch that|correction|on second thoughts?|i was wrong|i made a mistake|moment mal|korrektur|attendez|"
    r"attends|aspetta|espera|подожди)\b|等等",
    re.IGNORECASE,
)
"""Words after an answer that retract it."""
GOES_ON = re.compile(
    r"\s{1,9}(?:because|since|as|due|given|based|according|per|in|on|under|by|with|from|at|for|when|where|which|while|although|though|but|so|"
    r"thus|therefore|hence|only|and|weil|da|denn|aufgrund|wegen|nach|gemäß|laut|mit|im|und|ed?|car|parce|puisque|selon|d'après|et|perché|"
    r"poiché|secondo|porque|ya|pues|según|y|потому|так|поскольку|и)\b",
    re.IGNORECASE,
)
"""Words that may follow a choice whose name is itself a word or number, as in `the answer is A because`."""


@cache
def compile_pattern(pattern: str) -> re.Pattern[str]:
    """Compile the pattern of an announcement when it is first needed."""
    return re.compile(pattern, re.IGNORECASE)
