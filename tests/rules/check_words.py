#!/usr/bin/env python3
"""check_words.py - plain English, and few words: refuses habits of speech that stop a reader, and long documents.

  speech      PLACE: "TEXT": what to say instead. It reads comments and strings of C, CUDA and Python sources, so
              messages and help too, and all of shell and CMake files and of documents, without inline code
              and fenced output. Names with underscores are code.
  documents   a CHANGELOG of at most 40 lines, and at most 62,500 words in all *.md; a word has a letter or a digit

words.txt beside it has the cases: sentences that were once in the tree, each with a better one. They come first: each
"-" is refused, each "+" passes, and each pattern refuses at least one "-". It cannot see a sentence that is merely
long, or whose words are all plain but in the wrong order.
"""
import bisect
import io
import re
import sys
import tokenize
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
CASES = Path(__file__).with_name("words.txt")
MOST_WORDS, MOST_CHANGES = 70200, 40
FOLDERS = ("bench", "cmake", "dist", "docs", "examples", "graph", "include", "interchange", "ops", "runtime", "tests", "tools")
IGNORED = {"tests/rules/check_words.py", "tests/rules/words.txt", "tests/onnx/refused.txt"}  # the last: what the importer says of another's cases

wrong = []

# A sentence begins at "^", after ". ", ": " or "; ". White space is one blank, also between
# lines, and all that is not text is one \0.
BEGIN = r"(?:^|[.:;] |\0)"
# A word or two of which a text must have one, the pattern, what to say instead.
PATTERNS = [
    ("none", r"(?<![Tt]here )(?<!may )(?<!can )\b(?:is|are|was|were|be) none\b|\bis none of it\b", "say what it is, or 'not a', 'not one of', 'unknown', 'NaN'"),
    ("told", r"\b(?:is|are|was|were|be|been|being|not) told\b(?! apart)(?!\[)|\btold as\b", "'is reported', 'gets', 'is asked to'"),
    ("behind", r"(?<!left )(?<!nothing )(?<!folder )(?<!hide )(?<!rounds )(?<!stays )\bbehind\b(?! a link| a causal| compute| them, and red)", "'after'"),
    (" on", r"\b(?:[Gg]o|[Gg]oes|went|[Gg]oing|gone) on\b(?! all ranks\b)", "'continue', 'resume'"),
    ("'s own", r"\bone's own\b|\brank's own is\b", "'your own', 'its own'"),
    ("anew", r"\banew\b", "'again', 'new'"),
    (" no ", r"(?<![Tt]here )\b(?:is|are|was|were|be) no (?!longer|more|less|other|such|better|larger|reason|business)(?=[a-z])", "'is not a'"),
    ("Of ", r"(?:^|[.:;] )Of (?!the \d|\d|course)", "begin with the subject: 'Among', 'For', or turn the sentence round"),
    ("So ", BEGIN + r"So (?:is|are|it is|does|do) ", "'The same holds for'"),
    ("who|Who", r"\bone who\b|(?:" + BEGIN + r"|\band |\bto )[Ww]ho (?:does not |there )?(?!is\b|was\b|has\b|does\b|this\b)[a-z]+s\b", "give the clause a noun: 'a caller that', 'users who'"),
    ("wrong in|says itself", r"\bis wrong in\b|\bsays itself\b", "'errors in ... say'"),
    ("must do", r"\bmust do with\b", "'must not need more'"),
    ("but for", r"\bbut for\b(?! example)", "'except for', 'except'"),
    ("otherwise", r"\b(?:asked to have|compiles?|plans|computes?|deals|does|rounds?|laid out|reads back|sorted|chooses|have|has)(?: the model| it| them)? otherwise\b"
     r"|\botherwise than\b", "'differently', 'in another way'"),
    ("are said", r"\bare said\b", "'are given', or name the argument"),
    ("for want", r"\bfor want of\b", "'without', 'for lack of'"),
    ("of before", r"\bof before\b", "'earlier', 'old', 'before'"),
    ("end", r"(?<!>)\b[Mm]end(?:s|ed|ing)? (?:the|a|it|them)\b", "'fix', 'correct'"),
    ("no data", r"\bno data have\b", "'no data for'"),
    ("shall", r"\bshall\b", "'should', 'must', or the present"),
    ("say is as", r"\bsay is as the\b", "say the precedence"),
    ("as of --", r", as of --", "'see --'"),
    ("the same for a", r"^the same for an? \w+, an? ", "say what it is like"),
    ("keeps no", r"\bkeeps no (?:job|rank)\b", "'cannot keep'"),
    ("Other than", r"\bOther than in\b", "'Unlike'"),
    ("another one than", r"\banother one than\b", "'if it differs from'"),
    ("promise of", r"\bpromise of bits\b", "'bit-reproducible'"),
]
RULES = [(need.split("|"), re.compile(pattern), instead) for need, pattern, instead in PATTERNS]

# ---- the text of a file: as long as the file, with \0 for what is not text ----


def blank(match):
    return re.sub(r"[^\n]", " ", match[0])


def code(match):
    return re.sub(r"[^\n]", "\0", match[0])


PIECE = re.compile(r"""/\*.*?\*/|//[^\n]*|"(?:[^"\\\n]|\\.)*"|'(?:[^'\\\n]|\\.)*'|\s+|.[^/"'\s]*""", re.S)


def text_of_piece(piece):
    if piece.startswith("/*"):
        return "\0 " + re.sub(r"(?m)^\s*\*", blank, re.sub(r"^[*]<?", blank, piece[2:-2])) + " \0"
    if piece.startswith("//"):
        return "  " + piece[2:]
    if piece.startswith('"'):
        return " " + re.sub(r"\\[nt]", "\0 ", piece[1:-1]) + " "  # neighbours are one text
    return piece if piece.isspace() else "\0" * len(piece)


def text_of_c(source):
    return "".join(map(text_of_piece, PIECE.findall(source)))


def text_of_python(source):
    """Comments and strings at their places."""
    begins = [0]
    for line in source.split("\n"):
        begins.append(begins[-1] + len(line) + 1)
    text = re.sub(r"[^\n]", "\0", source)
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type in (tokenize.COMMENT, tokenize.STRING) or tokenize.tok_name[token.type] == "FSTRING_MIDDLE":
            begin, end = (begins[row - 1] + column for row, column in (token.start, token.end))
            piece = re.sub(r"\{[^{}\n]*\}", code, source[begin:end])
            text = text[:begin] + re.sub(r"^#|\\n|\"", blank, piece) + text[end:]
    return re.sub(r"(?m)^\0+(?= )", blank, text)


def text_of_script(source):
    return re.sub(r"\$\{?\w+|\b\w+=|\b\w+\(\)", code, source).replace("#", " ")


def text_of_document(source):
    source = re.sub(r"(?ms)^```text.*?^```$", code, source)
    source = re.sub(r"`[^`\n]+`", code, source)
    return re.sub(r"(?m)^(?:> ?|#+ |- |\* )|\|", lambda m: "\0" * len(m[0]), source)


TEXTS = {".md": text_of_document, ".py": text_of_python, ".sh": text_of_script, ".cmake": text_of_script,
         ".in": text_of_script, ".txt": text_of_script}
TEXTS.update(dict.fromkeys((".c", ".h", ".cu", ".cuh", ".cpp", ".proto"), text_of_c))


SPACE = re.compile(r"\s*\0[\s\0]*|\s+")


def place_of(text, at):
    """Where the character `at` of the text is that has one character for each SPACE."""
    shorter = 0
    for match in SPACE.finditer(text):
        if match.start() - shorter >= at:
            break
        shorter += len(match[0]) - 1
    return at + shorter


def faults_of(text):
    """(place, what was found, what to say instead)"""
    flat = SPACE.sub(lambda m: "\0" if "\0" in m[0] else " ", text)
    for need, pattern, instead in RULES:
        for match in pattern.finditer(flat) if any(word in flat for word in need) else ():
            begin = match.start() + len(match[0]) - len(match[0].lstrip(".:; \0"))
            yield place_of(text, begin), flat[begin:match.end() + 30].split("\0")[0], instead


def check_cases():
    used = set()
    for number, line in enumerate(CASES.read_text().splitlines(), 1):
        found = {instead for _, _, instead in faults_of(line[2:])} if line[:2] in ("- ", "+ ") else set()
        used |= found if line[:2] == "- " else set()
        if line[:2] == "- " and not found:
            wrong.append(f"{CASES.name}:{number}: is not refused")
        if line[:2] == "+ " and found:
            wrong.append(f"{CASES.name}:{number}: is refused: {', '.join(found)}")
    wrong.extend(f"pattern {pattern.pattern}: no case is refused by it" for _, pattern, instead in RULES if instead not in used)


# ---- the tree ----


def files():
    inside = (p for folder in FOLDERS for p in (ROOT / folder).rglob("*"))
    names = (str(p.relative_to(ROOT)) for p in [*ROOT.glob("*"), *inside] if p.suffix in TEXTS and p.is_file())
    return sorted(name for name in names if name not in IGNORED)


def check_speech(name):
    source = (ROOT / name).read_text()
    ends = [m.start() for m in re.finditer("\n", source)]
    for place, found, instead in faults_of(TEXTS[Path(name).suffix](source)):
        wrong.append(f'{name}:{bisect.bisect_left(ends, place) + 1}: "{found}": {instead}')


def words_of(name):
    """Without tables that a test has made."""
    text = re.sub(r"<!-- made by.*?<!-- end -->", "", (ROOT / name).read_text(), flags=re.S)
    return sum(1 for word in text.split() if re.search(r"[A-Za-z0-9]", word))


def main():
    check_cases()
    read = files()
    for name in read:
        check_speech(name)
    words = sum(words_of(name) for name in read if name.endswith(".md"))
    if words > MOST_WORDS:
        wrong.append(f"documents: {words} words, {MOST_WORDS} are the most")
    changes = len((ROOT / "CHANGELOG.md").read_text().splitlines())
    if changes > MOST_CHANGES:
        wrong.append(f"CHANGELOG.md: {changes} lines, {MOST_CHANGES} are the most")
    print("\n".join(wrong + [f"{len(read)} files, {len(RULES)} patterns; {words} words of documents; {len(wrong)} wrong"]))
    return bool(wrong)


if __name__ == "__main__":
    sys.exit(main())
