"""A model card: a Markdown file with YAML on top, as registries of models show it, written from the certificate of a run.

It holds no score: scores read protected data. What the certificate does not know is a comment in its place.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from sfumato.record._certificate import price_words, promise_words
from sfumato.record._deployment import ASKED
from sfumato.report._markdown import to_markdown
from sfumato.report._page import Code, Facts, Items, Page, Part, Section, Table
from sfumato.report._person import NOT_PROTECTED, public_parts
from sfumato.report._registry import scalar
from sfumato.report._scale import right_guesses
from sfumato.report._words import capital, claim_words, clean, event_words, settings_words

if TYPE_CHECKING:
    from sfumato.report._run import Run

_ABOUT = ("description", "intended_use", "curator", "contact", "data_domain", "region", "publication_date")
_SCORES = "No score is told here. Scores read true labels or other protected data, which the guarantee does not cover."


def model_card(run: Run) -> str:
    """Return the card of a run, as the file README.md of a model on Hugging Face: YAML between lines of dashes, then Markdown.

    Raises:
        InputError: the run has no privacy.
    """
    values = run.claimed()
    record = values.get("deployment", {})
    name = record.get("product") or f"{values['method']} on {run.graph}"
    sections = (
        Section("about", "About", tuple(_about(record))),
        Section("privacy", "Privacy", tuple(_privacy(values))),
        Section("made", "How it was made", tuple(_made(values))),
        Section("limits", "Limits", (Items((*values["caveats"], *values["assumptions"], *_scope(values))),)),
        Section("scores", "Evaluation", (_SCORES,)),
        Section("use", "Use and check", tuple(_use(run))),
    )
    lead = f"Protects {values['protects']}: {claim_words(values['claim'])}."
    return "\n".join(["---", *_front(run, name), "---", "", to_markdown(Page(name, lead, sections))])


def _front(run: Run, name: str) -> Iterator[str]:
    values, statistics = run.certificate, run.described is not None
    unit, claim = values["unit"], values["claim"]
    yield f"model_name: {scalar(clean(name))}"
    yield 'library_name: "sfumato"'
    if not statistics:
        images = values["public_facts"].get("image_shape") is not None
        yield f"pipeline_tag: {scalar('image-classification' if images else 'graph-ml')}"
    yield "# license: missing. Write under which license it may be used, such as cc-by-4.0."
    tags = ["differential-privacy", f"{unit['name']}-level", "graph-statistics" if statistics else values["method"]]
    yield f"tags: {scalar(tags)}"
    yield "differential_privacy:"
    stated = {"epsilon": claim["epsilon"], "delta": claim["delta"], "unit": unit["name"], "relation": unit["relation"]}
    stated |= {
        "protects": values["protects"],
        "trust_model": values["trust_model"],
        "ledger_head": values["ledger_head"],
    }
    yield from (f"  {key}: {scalar(value)}" for key, value in stated.items())


def _about(record: Mapping[str, str]) -> Iterator[Part]:
    if not record:
        yield "Nobody wrote what this is for, and who answers for it (sfumato train --deployment)."
        return
    yield Facts(tuple((capital(ASKED[name]), record[name]) for name in _ABOUT if name in record))
    yield "A person wrote these lines before the run. No program checked them."


def _privacy(values: Mapping[str, Any]) -> Iterator[Part]:
    claim = values["claim"]
    yield (
        f"Of 100 even guesses about the protected part, at most {right_guesses(**claim)} are right; with a coin, 50. "
        f"The guarantee holds for everybody in the data and against every attack. Trust model: {values['trust_model']}."
    )
    yield from (*promise_words(values), *price_words(values))
    public = public_parts(values)
    items = [f"Not protected: {NOT_PROTECTED[part]}." for part in public]
    items += [f"Read from the data, and assumed public: {one}." for one in values["assumed_public"]]
    yield Items(tuple(items))
    shown = tuple((capital(who), "; ".join(what)) for who, what in values["who_may_see"].items() if what)
    yield Table("who", "Who may see what", ("Who", "What"), shown, text=("What",))


def _made(values: Mapping[str, Any]) -> Iterator[Part]:
    made = [f"Method: {values['method']} of Sfumato {values['version']} ({settings_words(values['settings'])})."]
    made += [f"Released {one['name']}: {event_words(one['event'])}." for one in values["releases"]]
    yield Items((*made, values["randomness"]))


def _scope(values: Mapping[str, Any]) -> list[str]:
    return [values["composition"]["covers"], values["data_collection"], *values["side_channels"]]


def _use(run: Run) -> Iterator[Part]:
    yield "The files of release/ are all that is needed. They spend nothing more, however they are used."
    if run.described is None:
        yield Code("sfumato predict DIR")
    yield "Anyone can compute the claim again from them. The sources that the method rests on are printed by the second command."
    yield Code("sfumato verify DIR")
    yield Code("sfumato cite DIR")
