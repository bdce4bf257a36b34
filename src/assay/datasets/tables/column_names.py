"""Common names of the columns of question tables, in several languages and spellings."""

import re
import unicodedata
from functools import lru_cache

_CAMEL = re.compile(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])")
_SEPARATORS = re.compile(r"[^\w]+|_+")


@lru_cache(4096)
def folded(name: str) -> str:
    """Return a name without case, accents and separators: `Expected Answer`, `expectedAnswer` and `expected-answer` are one."""
    spaced = _CAMEL.sub("_", unicodedata.normalize("NFKC", name).strip())
    plain = "".join(sign for sign in unicodedata.normalize("NFD", spaced.casefold()) if not unicodedata.combining(sign))
    return _SEPARATORS.sub("_", plain).strip("_")


def _names(text: str) -> frozenset[str]:
    return frozenset(folded(name) for line in text.splitlines() for name in line.split(",") if name.strip())


# The best level with a column decides. Within a level two columns are a question to the user, never a guess.
PROMPTS = (
    _names("""
        question, questions, question text, the question, user question, prompt, user prompt, prompt text, user input, user query
        query, query text, test question, exam question, input text, question stem, stem, user message, customer question
        frage, fragen, fragestellung, fragetext, testfrage, aufgabe, aufgabenstellung, nutzerfrage, eingabe
        question posée, énoncé, consigne, requête, pregunta, preguntas, enunciado, consulta, domanda, domande, quesito
        pergunta, perguntas, questão, vraag, vragen, fråga, frågor, spørsmål, spørgsmål, kysymys, pytanie, pytania
        otázka, kérdés, întrebare, ερώτηση, вопрос, вопросы, запрос, питання, въпрос, soru, سؤال, السؤال, שאלה, प्रश्न, सवाल
        問題, 质问, 問, 问题, 题目, 題目, 提问, 質問, 設問, 問題文, 질문, 문제, 문항, câu hỏi, pertanyaan, soalan, คำถาม
    """),
    _names("input, inputs, instruction, instructions, problem, problem statement, task, request, q, user, human, ask, ctx, turns"),
)
"""Names of the column with the question."""
REFERENCES = (
    _names("""
        reference, references, reference answer, reference answers, reference output, reference outputs, reference response
        reference text, expected, expected answer, expected answers, expected output, expected outputs, expected response
        expected result, expected value, ground truth, ground truths, groundtruth, ground truth answer, truth, true answer
        gold, gold answer, gold answers, gold standard, golden, golden answer, golden answers, gold label, gold output, ideal
        ideal answer, ideal response, ideal output, correct answer, correct answers, correct response, right answer, best answer
        target, targets, target answer, target output, target outputs, solution, solutions, official answer, official solution
        sample answer, sample solution, standard answer, desired output, desired answer, answer key, long answer, final decision
        reference answer text, accepted answers, acceptable answers
        erwartete antwort, erwartet, richtige antwort, musterantwort, musterlösung, lösung, lösungsvorschlag, referenz
        referenzantwort, sollantwort, soll antwort, korrekte antwort
        réponse attendue, réponse correcte, bonne réponse, réponse de référence, corrigé, solution attendue, référence
        respuesta esperada, respuesta correcta, solución, referencia, risposta attesa, risposta corretta, soluzione, riferimento
        resposta esperada, resposta correta, gabarito, solução, referência, verwacht antwoord, juiste antwoord, oplossing
        förväntat svar, rätt svar, facit, oczekiwana odpowiedź, poprawna odpowiedź, эталонный ответ, правильный ответ, эталон
        ожидаемый ответ, beklenen cevap, doğru cevap, 参考答案, 标准答案, 正确答案, 期望答案, 模範解答, 正解, 正答
        期待される回答, 정답, 모범답안
    """),
    _names("""
        answer, answers, answer text, the answer, antwort, antworten, réponse, réponses, respuesta, respuestas, risposta, risposte
        resposta, respostas, antwoord, antwoorden, svar, vastaus, odpowiedź, odpowiedzi, odpověď, válasz, răspuns, απάντηση
        ответ, ответы, відповідь, отговор, cevap, yan\u0131t, إجابة, الإجابة, جواب, תשובה, उत्तर, जवाब
        答案, 回答, 回复, 解答, 答え, 回答文, 답, 답변, 대답, câu trả lời, jawaban, jawapan, คำตอบ
    """),
    _names("output, outputs, completion, completions"),
)
"""Names of the column with the reference answer."""
RECORDED_ANSWERS = _names("""
    response, responses, model response, model output, model answer, actual output, actual answer, actual response, prediction
    predictions, predicted answer, generated answer, generated text, generation, generations, llm answer, llm response
    llm output, bot answer, bot response, assistant response, ai answer, ai response, chatbot answer
    system answer, candidate answer
    given answer
    student answer, user answer, submission, reply, gpt, gpt answer, rag answer, rag response, result
""")
"""Names of columns that usually hold what a model, a student or a customer has answered, and not what is right."""
CONTEXTS = (
    _names("""
        context, contexts, context text, passage, passages, paragraph, paragraphs, background, background information
        source text, document, documents, article, excerpt, supporting text, facts, retrieved contexts, retrieved context
        story, scenario, case description, documentation, context docs, source passage
        kontext, hintergrund, sachverhalt, textauszug, quelltext, contexte, contexto, pasaje, contesto, brano
        fatos, achtergrond, kontekst, bakgrund, контекст, bağlam, سياق, 上下文, 背景, 文脈, 本文, 材料, 지문, 문맥
    """),
)
"""Names of the column with text that belongs to the question."""
RUBRICS = (
    _names("""
        rubric, rubrics, grading rubric, scoring rubric, criteria, criterion, grading criteria, evaluation criteria
        scoring criteria
        grading notes, grading guideline, grading guidelines, grading instructions, marking scheme, mark scheme, marking guide
        assessment criteria, acceptance criteria, judging criteria, pass criteria, success criteria, judge criteria
        expected facts, must include facts, guidelines
        bewertungskriterien, bewertungskriterium, kriterien, kriterium, bewertungsraster, barème, critères
        critères d'évaluation, grille d'évaluation, criterios, criterios de evaluación, rúbrica, criteri, criteri di valutazione
        critérios, critérios de avaliação, criteria voor beoordeling, beoordelingscriteria, критерии, критерии оценки
        评分标准, 評分標準, 评分细则, 採点基準, 評価基準, 채점기준, 평가기준
    """),
)
"""Names of the column with the rubric."""
CHOICES = (
    _names("""
        choices, options, answer choices, answer options, multiple choice options, alternatives, candidate answers, possible answers
        endings, mc options, multiple choices
        antwortmöglichkeiten, antwortoptionen, optionen, auswahl, choix, options de réponse, opciones, alternativas, opzioni, opções
        antwoordopties, alternativ, варианты, варианты ответа, варианты ответов, 选项, 選項, 選択肢, 보기, 선택지
    """),
)
"""Names of the column with a list of choices."""
ANSWER_KEYS = (
    _names("""
        answer key, answerkey, correct option, correct choice, correct choices, correct options, correct index, correct indices
        answer index, answer idx, answer letter, answer id, answer number, answer label, correct, correct label, correct letter
        correct answer, correct answers, correct answer index, correct answer option, right answer, right option, correct idx
        correct id, cop, correct response, correct option letter, correct answer letter, answer position, label idx, gold index
        correct choice ids, correct choice id, true answer, right choice, solution letter
        richtige antwort, richtig, korrekte antwort, lösung, bonne réponse, réponse correcte, respuesta correcta, opción correcta
        risposta corretta, resposta correta, alternativa correta, gabarito, juiste antwoord, rätt svar, facit, poprawna odpowiedź
        правильный ответ, 正确答案, 正确选项, 正解, 정답
    """),
    _names(
        "answer, answers, target, targets, gold, golden, gold label, ideal, expected, expected answer, expected output, solution"
    )
    | REFERENCES[1],
    _names("label, labels, output, completion, ground truth, reference, class"),
)
"""Names of the column that says which choice is correct."""
WRONG_ANSWER = re.compile(
    r"(?:incorrect|wrong|false|distractor|falsche?|mauvaise|incorrecta)_?(?:answers?|antwort(?:en)?|reponses?|respuestas?)?_?[0-9]*"
)
"""Folded name of a column with wrong answers, which make choices together with the right one."""
IDS = (
    _names("""
        id, ids, record id, question id, questionid, qid, q id, case id, test id, test case id, example id, sample id, item id
        row id, uid, uuid, guid, no, nr, num, number, question number, question no, question nr, frage id, fragen id, fragenummer
        nummer, lfd nr, laufende nummer, numéro, número, numero, n°, №, 编号, 序号, 番号, 번호, pubid, task id, prompt id, index
    """)
    | {""},
)
"""Names of the column with ids; a column `#` folds to an empty name."""
MESSAGES = (_names("messages, conversation, conversations, chat, dialog, dialogue, dialogues, chat history, conversation history"),)
"""Names of the column with a conversation."""
DESCRIPTIONS = _names("""
    category, categories, topic, topics, subject, subjects, type, types, question type, difficulty, level
    tag, tags, source, sources
    notes, note, comment, comments, remarks, url, link, links, date, created at, updated at, author, split, language, lang, locale
    domain, course, chapter, section, area, metadata, meta, intent, label, labels, group, title, name, page, file, filename, version
    status, priority, weight, points, score, year, month, user id, persona, knowledge category, jurisdiction, subset, dataset
    thema, themen, kategorie, kategorien, fach, quelle, schwierigkeit, bemerkung, bemerkungen, kommentar, datum, sprache, typ
    thème, catégorie, matière, difficulté, tema, categoría, dificultad, fuente, categoria, difficoltà, fonte, materia, dificuldade
    тема, категория, источник, 类别, 主题, 来源, 难度, カテゴリ, カテゴリー, 分類, 주제, 카테고리, 난이도
""")
"""Names of columns that describe a question, and hold no answer to it."""

FAMILY = re.compile(
    r"(?:(?P<word>choice|option|opt|op|answer|ans|alternative|ending|sol|antwort|antwortoption|reponse|proposition|opcion|respuesta"
    r"|opzione|risposta|alternativa|opcao|resposta|antwoord|optie|svar|选项|選項|選択肢|보기|variant|вариант)_?)?"
    r"(?P<sign>[a-j]|[0-9]{1,2})"
)
"""Folded name of one of several columns with a choice each: `choice_a`, `Option 1`, `B`."""
MAX_WORDS = 4
"""Words of a name that is a known one with something added."""
_OF_SOMETHING = frozenset(
    (
        "id",
        "ids",
        "type",
        "types",
        "number",
        "no",
        "nr",
        "category",
        "count",
        "total",
        "date",
        "time",
        "index",
        "template",
        "system",
    )
) | frozenset(("length", "tokens", "source", "sources", "score", "scores", "url", "level", "hash", "history", "image", "img"))


_FORMS = frozenset(
    ("text", "txt", "str", "string", "full", "short", "long", "kurz", "lang", "plain", "clean", "raw", "original", "body")
)
_LANGUAGES = frozenset(("en", "de", "fr", "it", "es", "pt", "nl", "sv", "da", "fi", "pl", "cs", "hu", "ro", "ru", "uk", "tr")) | {
    *(
        "ar",
        "he",
        "hi",
        "zh",
        "ja",
        "ko",
        "vi",
        "th",
        "english",
        "german",
        "french",
        "spanish",
        "italian",
        "eng",
        "deu",
        "fra",
    )
}
_CJK = re.compile("[\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af]")


def is_qualified(name: str, names: frozenset[str]) -> bool:
    """Return whether a folded name is a known one with words before it, or with a form or language after it."""
    if _CJK.search(name):
        # These scripts put no space between words.
        return any(len(known) > 1 and name.endswith(known) for known in names if _CJK.search(known))
    words = name.split("_")
    # The header of a survey is a whole sentence, which may end in any word.
    if not 2 <= len(words) <= MAX_WORDS:
        return False
    if words[-1] in _FORMS | _LANGUAGES and "_".join(words[:-1]) in names:
        return True
    return _OF_SOMETHING.isdisjoint(words) and any("_".join(words[at:]) in names for at in range(1, len(words)))
