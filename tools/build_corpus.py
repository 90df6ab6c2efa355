#!/usr/bin/env python3
"""Shapes the demo model's training text from public repositories.

    python3 tools/build_corpus.py SNAPSHOTS OUT

SNAPSHOTS holds a git repository OWNER+NAME/repo (a bare one will do) for each GitHub repository
named below. OUT gets NAME.wN.txt (documents) and NAME.wN.chat (dialogues), separated by <|doc|>; N
is how often train_demo.py takes each. data/README.md lists the licences.
"""

from __future__ import annotations

import argparse
import collections
import csv
import io
import json
import re
import subprocess
from pathlib import Path

SEPARATOR = "\n<|doc|>\n"
CHUNK = 5000  # characters of a long text that make one document
STOP_WORDS = set(
    "the a an and to of in was were had has have he she it they his her him them that this with for"
    " on at as is be by from or but not so all one said you i my we me there then when what who"
    " which would could up out into very down did do no if are their its about over little big day"
    " time went go came come saw see like want wanted".split()
)
# Possibly still in copyright in the United States.
LEFT_OUT_NOVELS = ("Galsworthy_River", "Woolf_Years")


class Snapshot:
    """The newest commit of a repository in the snapshots folder."""

    def __init__(self, snapshots: Path, repository: str):
        self.folder = snapshots / repository.replace("/", "+") / "repo"

    def _git(self, *arguments: str) -> str:
        done = subprocess.run(["git", "-C", str(self.folder), *arguments], capture_output=True)
        return done.stdout.decode("utf8", "ignore") if done.returncode == 0 else ""

    def files(self, folder: str) -> list[str]:
        names = self._git("ls-tree", "-r", "--name-only", "HEAD", folder)
        return [name for name in names.split("\n") if name]

    def read(self, path: str) -> str:
        return self._git("show", f"HEAD:{path}").lstrip("\ufeff")


def paragraphs(text: str) -> list[str]:
    """The paragraphs of a hard-wrapped text, each on one line."""
    blocks = re.split(r"\n\s*\n", text.replace("\r", ""))
    lines = [re.sub(r"\s*\n\s*", " ", block).strip() for block in blocks]
    return [line for line in lines if line]


def chunks(lines: list[str]) -> list[str]:
    """Runs of paragraphs of about CHUNK characters."""
    done: list[str] = []
    current = ""
    for line in lines:
        if current and len(current) + len(line) > CHUNK:
            done.append(current)
            current = ""
        current += ("\n\n" if current else "") + line
    return [*done, current] if current else done


def dialogue(question: str, answer: str) -> str:
    return f"U: {question}\nA: {answer}"


def one_line(text: str) -> str:
    return text.replace("\n", " ")


def topic(story: str) -> str:
    """The commonest telling word of a story."""
    words = re.findall(r"[a-z]{3,}", story.lower())
    counts = collections.Counter(word for word in words if word not in STOP_WORDS)
    return counts.most_common(1)[0][0] if counts else "friend"


def booking_dialogues(repository: Snapshot) -> list[str]:
    """Schema-Guided Dialogue: those that the user begins."""
    found = []
    for split in ("train", "dev", "test"):
        for path in repository.files(split + "/"):
            text = repository.read(path) if "dialogues_" in path else ""
            for entry in json.loads(text) if text else []:
                turns = [
                    ("U: " if turn["speaker"] == "USER" else "A: ") + one_line(turn["utterance"])
                    for turn in entry["turns"]
                ]
                if turns and turns[0].startswith("U"):
                    found.append("\n".join(turns))
    return found


def tiny_stories(repository: Snapshot) -> list[str]:
    """The stories of a TinyStories sample whose file does not mark where one ends."""
    beginning = re.compile(r"(Once|One day|There was|There once|In a|Long ago|Tim|Lily|Tom)")
    stories: list[list[str]] = [[]]
    for line in map(str.strip, repository.read("data/tinystories_val.txt").split("\n")):
        if not line:
            continue
        if beginning.match(line) and len(" ".join(stories[-1])) > 400:
            stories.append([])
        stories[-1].append(line)
    return ["\n".join(lines) for lines in stories if len(" ".join(lines)) > 300]


def african_stories(repository: Snapshot) -> list[tuple[str, str]]:
    """Title and text of the African Storybook's stories under CC BY."""
    found = []
    for path in repository.files("en/"):
        text = repository.read(path)
        if "License: [CC-BY]" not in text:
            continue
        heading = re.search(r"^# (.*)", text, re.M)
        parts = re.split(r"\n## *\n|\n##\n|\n\s*\n", text)
        lines = [re.sub(r"\s*\n\s*", " ", part).strip() for part in parts]
        skipped = ("* ", "# ")
        lines = [
            line.lstrip("# ").strip()
            for line in lines
            if line and not line.startswith(skipped) and "License" not in line
        ]
        story = "\n".join(line for line in lines if line and line != "##")
        if len(story) > 200:
            found.append((heading.group(1).strip() if heading else "", story))
    return found


def grimm_tales(repository: Snapshot) -> list[tuple[str, list[str]]]:
    """Title and paragraphs of each tale."""
    paths = [path for path in repository.files("grimm/") if path.endswith(".txt")]
    tales = [
        (Path(path).stem.replace("_", " "), paragraphs(repository.read(path))) for path in paths
    ]
    return [(title, lines) for title, lines in tales if lines]


def fairytale_qa(repository: Snapshot) -> tuple[dict[str, list[str]], dict[str, list[dict]]]:
    """Sections of each story and its questions, by the story's name."""
    stories, questions = {}, {}
    paths = repository.files("FairytaleQA_Dataset/") + repository.files("data-by-origin/")
    for path in paths:
        if "by-origin" not in path or not path.endswith(".csv"):
            continue
        stem = Path(path).stem
        if "section-stories" in path:
            rows = csv.DictReader(io.StringIO(repository.read(path)))
            stories[stem.replace("-story", "")] = [row.get("text", "").strip() for row in rows]
        if "/questions/" in path:
            rows = csv.DictReader(io.StringIO(repository.read(path)))
            questions[stem.replace("-questions", "")] = list(rows)
    return stories, questions


def question_dialogues(
    stories: dict[str, list[str]], questions: dict[str, list[dict]]
) -> list[str]:
    """A section, a question on it and the answer."""
    found = []
    for name, sections in stories.items():
        for row in questions.get(name, []):
            try:
                section = sections[int(row["cor_section"].split(",")[0]) - 1]
            except (AttributeError, IndexError, KeyError, ValueError):
                continue  # a question without a section of its own
            if len(section) < 1800 and row.get("answer1"):
                asked = f"{one_line(section)} Question: {row['question'].strip()}"
                found.append(dialogue(asked, row["answer1"].strip()))
    return found


def novels(repository: Snapshot) -> list[str]:
    found = []
    for path in repository.files("corpus/"):
        if path.endswith(".txt") and not any(name in path for name in LEFT_OUT_NOVELS):
            found += chunks(paragraphs(repository.read(path)))
    return found


def build(snapshots: Path, out: Path) -> None:
    def write(name: str, entries: list[str]) -> None:
        (out / name).write_text(SEPARATOR.join(entries), encoding="utf8")
        print(f"{name}: {len(entries)}")

    tiny = tiny_stories(Snapshot(snapshots, "yuninxia/moe-routing-bench"))
    african = african_stories(Snapshot(snapshots, "global-asp/asp-source"))
    grimm = grimm_tales(Snapshot(snapshots, "ayden175/fairy-tales"))
    stories, questions = fairytale_qa(Snapshot(snapshots, "uci-soe/FairytaleQAData"))
    booking = Snapshot(snapshots, "google-research-datasets/dstc8-schema-guided-dialogue")
    english = Snapshot(snapshots, "computationalstylistics/100_english_novels")

    dialogues = [
        dialogue(f"Tell me a short story about a {topic(story)}.", one_line(story))
        for story in tiny
    ]
    dialogues += [dialogue(f'Tell me the story "{name}".', one_line(s)) for name, s in african]
    dialogues += [
        dialogue(f"Tell me the fairy tale of {title}.", " ".join(lines)[:4500])
        for title, lines in grimm
    ]
    dialogues += question_dialogues(stories, questions)

    write("sgd.w3.chat", booking_dialogues(booking))
    write("tiny.w8.txt", tiny)
    write("asb.w6.txt", [f"{title}\n\n{story}" for title, story in african])
    write("grimm.w3.txt", [part for _, lines in grimm for part in chunks(lines)])
    write("fqa.w3.txt", [part for sections in stories.values() for part in chunks(sections)])
    write("tales.w3.chat", dialogues)
    write("novels.w1.txt", novels(english))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("snapshots", type=Path)
    parser.add_argument("out", type=Path)
    options = parser.parse_args()
    options.out.mkdir(parents=True, exist_ok=True)
    build(options.snapshots, options.out)


if __name__ == "__main__":
    main()
